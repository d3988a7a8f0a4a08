"""What may stand in for a fresh plan, pool by pool; routings that are kept are those built anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opportune.service import engine
from opportune.service.applying import apply
from opportune.service.commands import (
    ActivatePlan,
    Complete,
    CreateTask,
    PutPlan,
    PutPool,
    PutScores,
    RollbackPlan,
    ShadowPlan,
)
from opportune.service.events import Offered, TaskDropped
from opportune.service.ordering import keep_routings, routing_of, shadow_of
from opportune.service.plan_runs import declared
from opportune.service.planning import plan_pool
from opportune.service.resources import PoolSettings, ScoreRow
from opportune.service.routing import GREEDY, PRIORS, RANDOM, STALE, Routing
from opportune.service.state import State, empty_state
from tests.service.pools import Pool, names, pool_of
from tests.service.priced import PRIOR, priced, two_types


def staled(*fallback: str) -> Pool:
    """A pool whose plan gets stale at 100 s, with one from the priors beside it."""
    pool = pool_of({"a": [3.0, 2.0, 1.0]}, {"a": PRIOR}, plan_max_age=100.0, fallback=fallback)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "first")), 0.0)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "real", source="plan"), activate=True), 0.0)
    return pool


@pytest.mark.parametrize(
    ("fallback", "plan", "degraded"),
    [
        (("stale", "priors", "scores"), "real", STALE),
        (("priors", "scores"), "first", PRIORS),
        (("scores",), None, GREEDY),
        ((), None, RANDOM),
        (("priors",), "first", PRIORS),
    ],
)
def test_a_stale_plan_is_followed_only_where_the_pool_wants_it(
    fallback: tuple[str, ...], plan: str | None, degraded: str
) -> None:
    pool = staled(*fallback)
    for now, expected in ((100.0, ("real", "")), (100.5, (plan, degraded))):
        body = pool.task(now=now)
        assert (body.plan, body.degraded) == expected
        pool.ok(Complete(assignment=body.assignment_id))
    pool.ok(ActivatePlan(plan="real"), 101.0)  # fresh again
    assert pool.task(now=101.5).plan == "real"
    state = empty_state("p")
    for event in pool.log:
        if isinstance(event, Offered | TaskDropped):
            assert engine.verify(state, event)
        apply(state, event)
    pool.replayed()


def test_at_random_means_that_scores_do_not_count() -> None:
    pool = pool_of({"a": [3.0, 2.0, 1.0]}, fallback=())
    seen = set()
    for draw in range(0, 2**32, 2**28):
        body = pool.ok(CreateTask(task_type="a"), draws=[draw])
        seen |= set(names(body))
        assert body.degraded == RANDOM
        pool.ok(Complete(assignment=body.assignment_id))
    assert seen == {"s0", "s1", "s2"}


def test_the_setting_takes_effect_at_once() -> None:
    pool = staled("stale", "priors", "scores")
    assert pool.task(now=200.0).degraded == STALE
    settings = PoolSettings(plan_max_age=100.0, fallback=("scores",))
    pool.ok(PutPool(settings=settings), 201.0)
    assert pool.task(now=202.0).degraded == GREEDY


def same(one: Routing, other: Routing) -> bool:
    """Whether two routings decide and explain alike."""
    arrays = [(one.tables.order, other.tables.order), (one.tables.level, other.tables.level)]
    arrays += [(getattr(one, name), getattr(other, name)) for name in ("score", "index", "cost")]
    return (
        all(np.array_equal(a, b, equal_nan=True) for a, b in arrays)
        and (one.plan, one.degraded) == (other.plan, other.degraded)
        and one.tables.rule == other.tables.rule
    )


def anew(state: State) -> tuple[Routing, Routing | None]:
    """The routings without anything that is kept."""
    state.kept_routings, state.routing, state.shadow_routing = [], None, None
    return routing_of(state), shadow_of(state)


def test_routings_made_beforehand_are_those_that_would_be_built() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced("greedy", "old"), activate=True))
    new = priced(plan_id="new")
    kept = keep_routings(declared(pool.state), new)
    pool.state.kept_routings = kept
    pool.ok(PutPlan(plan=new, shadow=True))
    beside = shadow_of(pool.state)
    assert any(one.routing is beside for one in kept)
    pool.ok(ActivatePlan(plan="new"))
    in_force = routing_of(pool.state)
    assert any(one.routing is in_force for one in kept)
    assert in_force is not beside  # two places for the kernel to write to
    assert same(in_force, anew(pool.state)[0])


def test_what_is_kept_is_not_used_when_anything_else_has_changed() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced("greedy", "old"), activate=True))
    new = priced(plan_id="new")
    pool.state.kept_routings = keep_routings(declared(pool.state), new)
    pool.ok(PutScores(rows=[ScoreRow("a", "s2", 9.0)]))
    pool.ok(PutPlan(plan=new, activate=True))
    assert float(routing_of(pool.state).score[0, 2]) == 9.0
    before: Any = routing_of(pool.state)
    assert same(before, anew(pool.state)[0])


def test_going_to_and_fro_builds_nothing_again() -> None:
    pool = two_types()
    for name in ("one", "two"):
        pool.ok(PutPlan(plan=priced(plan_id=name)))
    pool.ok(ActivatePlan(plan="one"))
    first = routing_of(pool.state)
    pool.ok(ActivatePlan(plan="two"))
    pool.ok(ShadowPlan(plan="one"))
    routing_of(pool.state), shadow_of(pool.state)
    pool.ok(RollbackPlan())
    assert routing_of(pool.state) is first
    assert pool.state.shadow is None
