"""Do tasks arrive at other rates than planned? Counting, the test, the least change, hysteresis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import poisson

from opportune.learning.fit.drift import noticed
from opportune.service.applying import apply
from opportune.service.arrivals import BUCKETS, new_arrivals
from opportune.service.commands import CreateTask, PutPlan, PutPool, PutTaskType
from opportune.service.drifting import baseline, measured_rates, rate_drift, rate_test
from opportune.service.events import TaskCreated
from opportune.service.planning import plan_pool
from opportune.service.resources import PoolSettings, TaskTypeSettings
from tests.service.pools import Pool, pool_of

WINDOW = 6_400.0
RATES = {"a": 0.2, "b": 0.1}


def planned(created: float = 0.0, **settings: Any) -> Pool:
    """A pool with a plan for ``RATES``, made at a time."""
    types = {name: {"rate": rate, "mean_duration": 4.0} for name, rate in RATES.items()}
    score = {"a": [4.0, 2.0, 1.0], "b": [3.0, 3.0, 0.5]}
    pool = pool_of(score, types, replan_window=WINDOW, **settings)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "plan", source="plan"), activate=True), created)
    return pool


def arrive(pool: Pool, rates: dict[str, float], begin: float, end: float, seed: int = 1) -> None:
    """Poisson arrivals; only their events, which is all that is counted."""
    rng = np.random.default_rng(seed)
    moments = sorted(
        (float(time), name)
        for name, rate in rates.items()
        for time in rng.uniform(begin, end, rng.poisson(rate * (end - begin)))
    )
    for time, name in moments:
        number = pool.state.last_task + 1
        event = TaskCreated(time=time, task=number, task_type=name, k=1, deadline=time + 1.0)
        pool.log.append(event)
        apply(pool.state, event)


def drift(pool: Pool, now: float, least: float = 0.1) -> str:
    plan = baseline(pool.state)
    assert plan is not None
    return rate_drift(pool.state, plan, now, least)


def test_counts_are_those_of_the_window_whatever_came_before() -> None:
    arrivals, rng = new_arrivals(64.0, 3.0), np.random.default_rng(2)
    moments = np.sort(rng.uniform(3.0, 400.0, 900))
    types = rng.integers(3, size=900)
    for time, v in zip(moments.tolist(), types.tolist(), strict=True):
        arrivals.note(time, v)
    now = 402.5
    counts = arrivals.full(now, 0.0, 3)
    for v in range(3):
        inside = moments[(types == v) & (moments >= 402 - 64) & (moments < 402)]
        expected = [np.sum(inside.astype(int) == s) for s in range(402 - 64, 402)]
        assert counts[:, v].tolist() == expected
    assert arrivals.full(now, 380.2, 3).shape == (402 - 381, 3)
    assert new_arrivals(64.0, 400.25).full(now, 0.0, 3).shape == (1, 3)
    assert arrivals.full(10_000.0, 0.0, 3).sum() == 0  # all of it is long over
    arrivals.note(9_999.0, 2)
    assert arrivals.full(10_000.0, 0.0, 3).sum() == 1


def test_the_test_is_poissons_tail_times_the_looks() -> None:
    even = np.full(BUCKETS, 2, dtype=np.int64)  # 128 arrivals, no burst among them
    for expected in (90.0, 100.0, 160.0, 170.0):
        test = rate_test("a", even, expected)
        tail = poisson.sf(127, expected) if expected < 128 else poisson.cdf(128, expected)
        assert test.p_value == pytest.approx(min(1.0, 2 * tail * BUCKETS), rel=1e-6)
        assert (test.before, test.after) == (expected, 128.0)
    assert rate_test("a", even[:5], 12.0) is None
    assert rate_test("a", np.zeros(BUCKETS, dtype=np.int64), 40.0).p_value < 1e-10


def test_bursts_are_no_drift() -> None:
    burst = np.zeros(BUCKETS, dtype=np.int64)
    burst[::16] = 32
    assert rate_test("a", burst, 80.0).p_value == 1.0
    assert rate_test("a", np.full(BUCKETS, 2), 80.0).p_value < 0.01


def test_a_drift_is_noticed_named_and_measured() -> None:
    pool = planned()
    arrive(pool, RATES, 0.0, WINDOW)
    assert drift(pool, WINDOW) == ""
    arrive(pool, {"a": 0.35, "b": 0.1}, WINDOW, 1.5 * WINDOW, seed=2)
    told = drift(pool, 1.5 * WINDOW)
    assert told.startswith("rates drifted: a ")
    assert told.endswith("planned for 0.2/s")
    found = measured_rates(pool.state, 1.5 * WINDOW)
    assert found == pytest.approx([0.35, 0.1], rel=0.15)  # a's since it changed
    pool.replayed()


def test_a_change_that_is_certain_but_small_is_let_be() -> None:
    pool = planned()
    many = {name: 100 * rate for name, rate in RATES.items()}
    pool.state.plans["plan"].arrival_rate[:] = many.values()
    arrive(pool, {**many, "b": 1.15 * many["b"]}, 0.0, 1_000.0)
    assert drift(pool, 1_000.0, least=0.1) == ""
    assert drift(pool, 1_000.0, least=0.01).startswith("rates drifted: b")


def test_a_type_counts_by_the_servers_that_its_tasks_need() -> None:
    """b is a fifth of the load, at one server a task; a's tasks need the pool's two."""
    pool = planned(k=2)
    one = TaskTypeSettings(id="b", rate=RATES["b"], mean_duration=4.0, k=1)
    pool.ok(PutTaskType(settings=one))
    many = {name: 100 * rate for name, rate in RATES.items()}
    pool.state.plans["plan"].arrival_rate[:] = many.values()
    arrive(pool, {**many, "b": 1.5 * many["b"]}, 0.0, 1_000.0)
    assert drift(pool, 1_000.0, least=0.12) == ""
    assert drift(pool, 1_000.0, least=0.08).startswith("rates drifted: b")


def test_what_came_before_a_plan_is_not_held_against_it() -> None:
    pool = planned(created=WINDOW / 2)
    arrive(pool, {"a": 2.0, "b": 1.0}, 0.0, WINDOW / 2)
    assert drift(pool, WINDOW / 2 + 50.0) == ""
    arrive(pool, RATES, WINDOW / 2, WINDOW, seed=3)
    assert drift(pool, WINDOW) == ""


def test_steady_traffic_raises_an_alarm_in_fewer_than_one_window_of_a_hundred() -> None:
    """A look after every bucket, 200 windows: the correction for the looks holds."""
    rng, alarms = np.random.default_rng(6), 0
    counts = rng.poisson(RATES["a"] * WINDOW / BUCKETS, 201 * BUCKETS)
    for end in range(BUCKETS, len(counts)):
        test = rate_test("a", counts[end - BUCKETS : end], RATES["a"] * WINDOW)
        alarms += noticed([test]) != []
    assert alarms <= 2 * BUCKETS  # an alarm lasts for many looks


def test_too_few_tasks_say_nothing() -> None:
    pool = planned()
    arrive(pool, {"a": 0.2}, 0.0, 60.0)
    assert drift(pool, 60.0) == ""
    assert np.isnan(measured_rates(pool.state, 99.0)).all()


def test_a_rate_that_fell_to_nothing_is_measured_as_that() -> None:
    pool = planned()
    arrive(pool, {"a": 0.2}, 0.0, WINDOW)
    assert drift(pool, WINDOW).startswith("rates drifted: b 0/s")
    assert measured_rates(pool.state, WINDOW)[1] == 0.0
    plan = plan_pool(
        pool.state, "new", source="plan", how=(measured_rates(pool.state, WINDOW), None)
    )
    assert plan.arrival_rate[1] == 0.0


def test_another_window_counts_anew() -> None:
    pool = planned()
    pool.ok(CreateTask(task_type="a"), 10.0)
    before = pool.state.arrivals
    pool.ok(PutPool(settings=PoolSettings(replan_window=WINDOW, lease=5.0)), 11.0)
    assert pool.state.arrivals is before
    pool.ok(PutPool(settings=PoolSettings(replan_window=100.0)), 12.0)
    assert pool.state.arrivals.since == 12.0
    pool.replayed()
