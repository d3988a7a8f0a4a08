"""What the dashboard compares a pool with: the bound, theory, and when they do not hold."""

from __future__ import annotations

from typing import Any

import pytest

from opportune.service.commands import (
    CreateTask,
    Decline,
    PutPlan,
    PutServer,
    PutTaskType,
)
from opportune.service.dashboard.course import BY_CHANCE, SETTLED, course
from opportune.service.dashboard.history import CONFLICTS, PINNED
from opportune.service.dashboard.theory import Arrived, blocking, bound_reasons
from opportune.service.planning import plan_pool
from opportune.service.reading import pool_body
from opportune.service.resources import ServerSettings, TaskTypeSettings
from tests.service.pools import pool_of
from tests.service.test_dashboard import history_of


def test_blocking_in_theory() -> None:
    """Three servers, one each, offered 0.2 x 5 + 0.1 x 5: Erlang-B(3, 1.5)."""
    types = {"a": {"rate": 0.2}, "b": {"rate": 0.1}}
    pool = pool_of({"a": [1, 1, 1], "b": [1, 1, 1]}, types)
    expected = (1.5**3 / 6) / (1 + 1.5 + 1.5**2 / 2 + 1.5**3 / 6)
    assert blocking(pool.state, set()) == (pytest.approx(expected), [])
    assert bound_reasons(pool.state, set()) == []
    assert blocking(pool.state, {PINNED, CONFLICTS}).reasons == [CONFLICTS, PINNED]
    assert bound_reasons(pool.state, {PINNED, CONFLICTS}) == [PINNED]
    pool.ok(PutServer(settings=ServerSettings(id="s1", available=False)))
    assert blocking(pool.state, set()).reasons == ["some servers take no tasks now"]
    two = pool_of({"a": [1, 1, 1], "b": [1, 1, 1]}, types, k=2, wrap_up=5.0)
    assert blocking(two.state, set()).value == pytest.approx(3.0 / (1 + 3.0))


@pytest.mark.parametrize(
    ("scores", "types", "settings", "told"),
    [
        ({"a": [1.0]}, {}, {"mode": "queue"}, "queue mode: tasks wait, none is dropped"),
        ({"a": [1.0]}, {}, {}, "rates or durations are not declared for every task type"),
        (
            {"a": [1.0, 1.0], "b": [1.0, 1.0]},
            {"a": {"k": 2}},
            {},
            "task types need different numbers of servers",
        ),
    ],
)
def test_no_theory(scores: Any, types: Any, settings: Any, told: str) -> None:
    found = blocking(pool_of(scores, types, **settings).state, set())
    assert found == (None, [told])


def test_forbidden_pairs_and_declines_make_it_a_reference() -> None:
    pool = pool_of({"a": [1.0, None]}, {"a": {"rate": 0.1}}, auto_accept=False)
    assert blocking(pool.state, set()).reasons == ["some task types do not permit all servers"]
    body = pool.task("a")
    pool.ok(Decline(assignment=body.assignment_id))
    assert bound_reasons(pool.state, set()) == ["offers were declined or timed out"]
    assert bound_reasons(pool.state, set())[0] in blocking(pool.state, set()).reasons


def test_a_bound_is_only_a_reference_where_more_tasks_came_than_declared() -> None:
    """A burst earned four times the bound, and the page said that the bound was one."""
    types = {"a": {"rate": 0.2}, "b": {"rate": 0.1}}
    pool = pool_of({"a": [1, 1, 1], "b": [1, 1, 1]}, types)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "plan"), activate=True), 0.0)
    for arrived, told in (
        (Arrived(30, 100.0), []),
        (Arrived(51, 100.0), []),  # 4 standard deviations of a Poisson count are 21.9
        (Arrived(52, 100.0), ["52 tasks came where 30 were declared"]),
        (Arrived(5, 1.0), ["5 tasks came where 0.3 were declared"]),
        (Arrived(4, 1.0), []),
        (Arrived(0, 0.0), []),
    ):
        assert bound_reasons(pool.state, set(), arrived) == told
        assert blocking(pool.state, set(), arrived).reasons == told


def test_arrivals_are_counted_from_the_plan_on() -> None:
    """Tasks that came before the plan, in the same stretch of time, do not speak against it."""
    types = {"a": {"rate": 0.01}}
    pool = pool_of({"a": [1, 1, 1]}, types)
    for i in range(50):
        pool.do(CreateTask(task_type="a"), 10.0 + 0.1 * i)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "plan"), activate=True), 20.0)
    history = history_of(pool)
    assert "assumes" in course(pool.state, history, "4h", 21.0).parts["reward"]
    assert "50 tasks came" in course(pool.state, history, "4h", 21.0).parts["blocking"]
    for i in range(50):
        pool.do(CreateTask(task_type="a"), 30.0 + 0.1 * i)
    told = course(pool.state, history_of(pool), "4h", 40.0).parts["reward"]
    assert "50 tasks came where 0.2 were declared" in told


def test_a_mean_above_the_bound_is_explained() -> None:
    """Two tasks within a second earn more than the bound, as they may: it bounds the long run."""
    pool = pool_of({"a": [1, 1, 1]}, {"a": {"rate": 0.01}})
    pool.ok(PutPlan(plan=plan_pool(pool.state, "plan"), activate=True), 20.0)
    for when in (21.0, 21.5):
        pool.do(CreateTask(task_type="a"), when)
    history = history_of(pool)
    assert BY_CHANCE in course(pool.state, history, "4h", 22.0 + SETTLED).parts["reward"]
    assert BY_CHANCE not in course(pool.state, history, "4h", 2000.0).parts["reward"]


def test_degraded_says_of_which_types() -> None:
    """It said "no plan" where a plan was in force that did not know one of the types."""
    pool = pool_of({"a": [1, 1, 1]}, {"a": {"rate": 0.01}})
    pool.ok(PutPlan(plan=plan_pool(pool.state, "plan", source="plan"), activate=True), 1.0)
    assert pool_body(pool.state, 2.0).degraded == ""
    for name in ("b", "c", "d", "e"):
        pool.ok(PutTaskType(settings=TaskTypeSettings(id=name)), 3.0)
    told = pool_body(pool.state, 4.0).degraded
    assert told.endswith("(task type 'b', 'c', 'd' and 1 more)")
    assert told.startswith("no plan")
