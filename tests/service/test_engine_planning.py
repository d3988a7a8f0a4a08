"""The planner: from a pool as declared to a plan; and rankings by a plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.service import engine
from opportune.service.commands import (
    PutPlan,
    PutServer,
    RankRequest,
)
from opportune.service.planning import instance_of, plan_pool
from opportune.service.resources import ServerSettings
from tests.service.pools import Pool, names, pool_of
from tests.service.priced import priced, two_types

# ------------------------------------------------------------------------------- planner


def test_a_pool_is_priced_in_seconds_from_its_priors() -> None:
    pool = pool_of(
        {"a": [4.0, 2.0, None], "b": [3.0, 3.0, 1.0]},
        {"a": {"rate": 0.02, "mean_duration": 20.0}, "b": {"rate": 0.03, "mean_duration": 40.0}},
    )
    instance, step = instance_of(pool.state)
    assert step == pytest.approx(1.0)
    assert instance.mean_duration.tolist() == [20.0, 40.0]
    assert instance.allowed.tolist() == [[True, True, False], [True, True, True]]
    assert instance.load == pytest.approx((0.02 * 20 + 0.03 * 40) / 3)
    document = plan_pool(pool.state, "p1")
    assert document.source == "priors"
    assert document.bound == pytest.approx(price(instance, AT_MOST).dual_value / step)
    assert document.gap is not None
    assert pool.do(PutPlan(plan=document, activate=True)).created


def test_the_length_of_the_step_does_not_change_the_prices_per_second() -> None:
    options = {"a": {"rate": 3.0, "mean_duration": 0.5}, "b": {"rate": 2.0, "mean_duration": 0.25}}
    pool = pool_of({"a": [4.0, 2.0, 1.0], "b": [3.0, 3.0, 1.0]}, options)
    instance, step = instance_of(pool.state)
    assert float(instance.arrival_rate.sum()) <= 0.5
    assert step <= 0.25 / 20
    document = plan_pool(pool.state, "p1")
    prices = price(instance, AT_MOST)
    cost = np.array(document.demand_price)[:, None] + np.outer(
        document.mean_duration, document.capacity_price
    )
    assert cost == pytest.approx(prices.opportunity_cost)


def test_slots_of_one_server_are_priced_together() -> None:
    pool = pool_of({"a": [4.0, 2.0]}, {"a": {"rate": 0.2, "mean_duration": 5.0}})
    pool.ok(PutServer(settings=ServerSettings(id="s0", capacity=3)))
    document = plan_pool(pool.state, "p1")
    slots = loss_instance([[4.0, 4.0, 4.0, 2.0]], [0.05], Geometric(20.0))
    assert document.bound == pytest.approx(price(slots, AT_MOST).dual_value / 0.25)
    assert document.servers == ["s0", "s1"]
    assert document.n_allowed.numpy().tolist() == [2]
    assert pool.ok(PutPlan(plan=document, activate=True)).active
    assert [names(pool.task("a")) for _ in range(4)] == [["s0"]] * 3 + [["s1"]]
    weighted = plan_pool(pool.state, "p2", "alg-sc-lp")
    pool.ok(PutPlan(plan=weighted, activate=True))
    assert pool.state.active_plan.weight.shape == [1, 2]


def test_a_pool_that_says_too_little_cannot_be_priced() -> None:
    for pool in (Pool(), pool_of({"a": [1.0]}), pool_of({"a": [1.0]}, {"a": {"rate": 0.1}}, k=9)):
        with pytest.raises(InputError):
            plan_pool(pool.state, "p1")


# ------------------------------------------------------------------------------- ranking


def ranking(pool: Pool, draws: Any = (1, 2, 3), **request: Any) -> Any:
    before = pool.replayed() and len(pool.log)
    answer = engine.rank(pool.state, RankRequest(**request), 0.0, draws)
    assert answer.events == []
    assert len(pool.log) == before
    return answer


def test_a_ranking_is_the_plans_order_of_the_candidates() -> None:
    pool = two_types()
    document = priced()
    pool.ok(PutPlan(plan=document, activate=True))
    order = [f"s{r}" for r in document.order.numpy()[0, 0]]
    body = ranking(pool, task_type="a", candidates=["s2", "s0", "s1", "s9"], k=2).body
    assert [one.id for one in body.servers] == order
    assert body.excluded == ["s9"]
    assert (body.plan, body.degraded, body.k) == ("plan", "", 2)
    busy = names(pool.task("a"))
    assert [one.id for one in ranking(pool, task_type="a").body.servers] == [
        name for name in order if name not in busy
    ]
    everybody = ranking(pool, task_type="a", candidates=["s0", "s1", "s2"]).body
    assert [one.id for one in everybody.servers] == order  # the caller knows who is free
    assert ranking(pool, task_type="a", candidates=[]).body.servers == []


def test_own_scores_are_weighed_against_the_prices() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced(), activate=True))
    cost = {
        one.id: one.opportunity_cost
        for one in ranking(pool, task_type="b", candidates=["s0", "s1", "s2"]).body.servers
    }
    scores = {"s0": cost["s0"] + 0.1, "s1": cost["s1"] + 0.3, "s2": cost["s2"] + 0.2}
    body = ranking(pool, task_type="b", candidates=list(scores), scores=list(scores.values())).body
    assert [one.id for one in body.servers] == ["s1", "s2", "s0"]
    assert body.servers[0].index == pytest.approx(0.3)


def test_rankings_that_make_no_sense_are_refused() -> None:
    pool = two_types()
    for request in (
        {"task_type": "z"},
        {"task_type": "a", "candidates": ["s0", "s0"]},
        {"task_type": "a", "candidates": ["s0"], "scores": [1.0, 2.0]},
        {"task_type": "a", "scores": [1.0]},
    ):
        assert ranking(pool, **request).problem is not None
