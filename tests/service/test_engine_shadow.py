"""A plan in the shadow: what it would have done, what that would be worth, and how sure that is."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from opportune.service.applying import apply
from opportune.service.commands import (
    ActivatePlan,
    Complete,
    CreateTask,
    PutPlan,
    PutScores,
    ShadowPlan,
    Tick,
)
from opportune.service.engine import verify
from opportune.service.events import Offered
from opportune.service.plan_reading import plan_of
from opportune.service.planning import plan_pool
from opportune.service.resources import ScoreRow
from opportune.service.shadowing import MOST_BATCHES, BatchMeans, new_record, verdict
from opportune.service.state import empty_state
from tests.service.pools import Pool, pool_of
from tests.service.priced import priced, two_types, why

N_SERVERS, N_TYPES, BUSY = 12, 3, 7


def scored(permuted: bool = False) -> dict[str, list[float]]:
    """Scores in which each type has servers of its own; permuted, other ones."""
    rng = np.random.default_rng(5)
    score = rng.random((N_TYPES, N_SERVERS)).round(4)
    if permuted:
        score = score[:, rng.permutation(N_SERVERS)]
    return {f"t{v}": row.tolist() for v, row in enumerate(score)}


def busy_pool() -> Pool:
    types = {f"t{v}": {"rate": 0.5, "mean_duration": 5.0} for v in range(N_TYPES)}
    return pool_of(scored(), types, retain=200)


def permuted_plan(pool: Pool) -> Any:
    """The plan of the same pool with permuted scores: worse, and nothing in it says so."""
    other = busy_pool()
    rows = [
        ScoreRow(name, f"s{r}", score)
        for name, row in scored(permuted=True).items()
        for r, score in enumerate(row)
    ]
    other.ok(PutScores(rows=rows, replace=True))
    return plan_pool(other.state, "permuted", source="plan")


def run(pool: Pool, n: int, seed: int = 1) -> None:
    """Tasks one after another, ``BUSY`` of them open."""
    rng = np.random.default_rng(seed)
    held: list[str] = []
    for i in range(n):
        draws = rng.integers(2**32, size=4, dtype=np.uint32)
        body = pool.ok(CreateTask(task_type=f"t{rng.integers(N_TYPES)}"), float(i), draws)
        held.append(body.assignment_id)
        if len(held) > BUSY:
            pool.ok(Complete(assignment=held.pop(int(rng.integers(len(held))))), float(i))


def test_a_worse_plan_shows_in_the_shadow_significantly() -> None:
    pool = busy_pool()
    pool.ok(PutPlan(plan=plan_pool(pool.state, "real", source="plan"), activate=True))
    pool.ok(PutPlan(plan=permuted_plan(pool)))
    pool.ok(ShadowPlan(plan="permuted"))
    run(pool, 400)
    told = plan_of(pool.state, "permuted").in_shadow
    assert told.decisions == 400
    assert told.disagreement > 0.5
    assert told.verdict == "worse"
    for one in (told.score, told.at_active_prices, told.at_shadow_prices):
        assert one.decisions == 400
        assert one.mean + one.half_width < 0
    pool.replayed()


def test_a_better_plan_than_the_active_one_shows_as_better() -> None:
    """The same the other way round: the good plan stands in the shadow of the permuted one."""
    pool = busy_pool()
    pool.ok(PutPlan(plan=permuted_plan(pool), activate=True))
    pool.ok(PutPlan(plan=plan_pool(pool.state, "real", source="plan")))
    pool.ok(ShadowPlan(plan="real"))
    run(pool, 400)
    told = plan_of(pool.state, "real").in_shadow
    assert told.verdict == "better"
    assert min(told.at_active_prices.mean, told.at_shadow_prices.mean) > 0


def test_the_same_plan_under_another_name_differs_in_nothing() -> None:
    pool = busy_pool()
    plan = plan_pool(pool.state, "real", source="plan")
    pool.ok(PutPlan(plan=plan, activate=True))
    pool.ok(PutPlan(plan=msgspec.structs.replace(plan, id="twin")))
    pool.ok(ShadowPlan(plan="twin"))
    run(pool, 100)
    told = plan_of(pool.state, "twin").in_shadow
    assert (told.disagreement, told.verdict) == (0.0, "open")
    assert (told.score.mean, told.at_active_prices.mean, told.at_shadow_prices.mean) == (0, 0, 0)


def test_the_gain_of_a_decision_is_the_difference_of_what_servers_are_worth() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced("greedy", "real"), activate=True))
    other = priced(plan_id="other")
    pool.ok(PutPlan(plan=msgspec.structs.replace(other, capacity_price=[0.5, 0.25, 0.0])))
    pool.ok(ShadowPlan(plan="other"))
    score = {"s0": 3.0, "s1": 3.0, "s2": 0.0}
    seen = 0
    for i in range(8):
        body = pool.ok(CreateTask(task_type="b"), draws=[i * 2**29])
        told, ours = why(pool, body), body.servers[0].id
        theirs = told.shadow_picks[0]
        real = dict(zip(other.servers, other.capacity_price, strict=True))
        shadow = dict(zip(other.servers, [0.5, 0.25, 0.0], strict=True))
        gain = told.shadow_gain
        assert gain.score == score[theirs] - score[ours]
        for found, price in ((gain.at_active, real), (gain.at_shadow, shadow)):
            expected = score[theirs] - score[ours] - 5.0 * (price[theirs] - price[ours])
            assert found == pytest.approx(expected)
        seen += theirs != ours
        pool.ok(Complete(assignment=body.assignment_id))
    assert seen > 0


def test_without_prices_only_the_scores_count() -> None:
    pool = two_types()
    bare = {"demand_price": [], "capacity_price": [], "mean_duration": []}
    pool.ok(PutPlan(plan=priced("greedy", "real"), activate=True))
    pool.ok(PutPlan(plan=msgspec.structs.replace(priced("random", "bare"), **bare)))
    pool.ok(ShadowPlan(plan="bare"))
    gain = why(pool, pool.task("a")).shadow_gain
    assert gain.at_shadow is None
    assert gain.score is not None
    assert gain.at_active is not None


def test_a_new_active_plan_begins_the_comparison_anew() -> None:
    pool = busy_pool()
    for name in ("one", "two", "three"):
        pool.ok(PutPlan(plan=plan_pool(pool.state, name, source="plan")))
    pool.ok(ActivatePlan(plan="one"), 1.0)
    pool.ok(ShadowPlan(plan="two"), 2.0)
    run(pool, 5)
    assert plan_of(pool.state, "two").in_shadow.decisions == 5
    pool.ok(ActivatePlan(plan="three"), 10.0)
    told = plan_of(pool.state, "two").in_shadow
    assert (told.against, told.decisions, told.since) == ("three", 0, 10.0)
    pool.ok(ActivatePlan(plan="two"), 11.0)  # promoted: nobody is compared with himself
    assert pool.state.shadow is None
    body = plan_of(pool.state, "two")
    assert (body.state, body.in_shadow.until) == ("active", 11.0)
    assert pool.refused(ShadowPlan(plan="two")) == "conflict"
    pool.replayed()


def test_decisions_of_before_shadows_were_valued_are_still_verified() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced("greedy", "real"), activate=True))
    pool.ok(PutPlan(plan=priced(plan_id="other")))
    pool.ok(ShadowPlan(plan="other"))
    pool.task("b")
    state = empty_state("p")
    for event in pool.log:
        if isinstance(event, Offered):
            assert verify(state, event)
            old = msgspec.structs.replace(event.why, shadow_gain=None)
            assert verify(state, msgspec.structs.replace(event, why=old))
            wrong = msgspec.structs.replace(event.why, shadow_picks=["s2"])
            assert not verify(state, msgspec.structs.replace(event, why=wrong))
        apply(state, event)


def test_no_draw_at_random_and_no_drop_counts_for_a_shadow() -> None:
    pool = busy_pool()
    for name in ("one", "two"):
        pool.ok(PutPlan(plan=plan_pool(pool.state, name, source="plan")))
    pool.ok(ActivatePlan(plan="one"))
    pool.ok(ShadowPlan(plan="two"))
    for _ in range(N_SERVERS):
        pool.task("t0")
    assert pool.refused(CreateTask(task_type="t0")) == "no-capacity"
    assert plan_of(pool.state, "two").in_shadow.decisions == N_SERVERS
    pool.ok(Tick())


def test_batches_are_joined_and_the_mean_stays() -> None:
    series, values = BatchMeans(), np.random.default_rng(3).normal(2.0, 1.0, 1_000)
    for value in values:
        series.add(float(value))
        assert len(series.sums) < MOST_BATCHES
    assert series.mean == pytest.approx(values.mean())
    assert series.size == 16
    means = values[: 16 * (1000 // 16)].reshape(-1, 16).mean(axis=1)
    expected = 1.9996 * means.std(ddof=1) / np.sqrt(len(means))  # t of 61 degrees, 97.5 %
    assert series.half_width == pytest.approx(expected, rel=1e-3)


def test_intervals_allow_for_dependence() -> None:
    """95 % intervals of a series that remembers: plain ones are far too narrow, these hold."""
    rng = np.random.default_rng(8)
    held = plain = 0
    for _ in range(200):
        noise, x = rng.normal(size=2_000), 0.0
        series, seen = BatchMeans(), np.empty(2_000)
        for i, step in enumerate(noise):
            x = 0.9 * x + float(step)
            seen[i] = x
            series.add(x)
        held += abs(series.mean) <= series.half_width  # type: ignore[operator,arg-type]
        plain += abs(seen.mean()) <= 1.96 * seen.std() / np.sqrt(len(seen))
    assert plain < 120
    assert held > 170


def test_a_verdict_needs_both_prices_and_an_interval() -> None:
    record = new_record("x", 0.0)
    assert verdict(record) == "open"
    for i in range(40):
        record.at_active.add(-1.0 + 0.01 * (i % 3))
        record.at_shadow.add(-1.0 + 0.01 * (i % 3))
        record.score.add(1.0)
        assert verdict(record) == ("open" if i < 9 else "worse")
    for _ in range(200):
        record.at_shadow.add(1.0)
    assert verdict(record) == "open"
