"""LAG Proposition 3.2 and beyond: what bounds what, on instances small enough to solve exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.experiments.comparison import compare
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import list_plan, loss_policies_by_id
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import AT_MOST, Demand
from opportune.pricing.occupancy import price
from opportune.simulate.loss import Run, simulate_plans
from tests import naive, textbook
from tests.instances import STATIC, Shape, random_instance

SHAPES = [
    Shape(scores="levels"),
    Shape(duration="mixed"),
    Shape(per_type=True, duration="mixed"),
    Shape(forbidden=True, duration="mixed"),
    Shape(forbidden=True, per_type=True, scores="levels"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_no_policy_earns_more_than_the_bound(shape: Shape) -> None:
    """Ten instances of each shape, every policy, from idle to overloaded.

    Beyond the interval and a tenth of a point: about 450 comparisons at 97.5 %, nearly all of
    them far below the bound; those that are close have small intervals.
    """
    rng = np.random.default_rng(61)
    for _ in range(10):
        instance = random_instance(rng, shape)
        most = min(1.5, 0.98 * instance.load / instance.arrival_rate.sum())
        instance = instance.with_load(0.05 + (most - 0.05) * float(rng.random()))
        steps = int(8000 / instance.arrival_rate.sum())
        result = compare(instance, Settings(STATIC, steps, replications=5))
        at_most = instance.has_forbidden_pairs
        assert result.bound.name == ("occ-lp-at-most" if at_most else "occ-lp")
        assert result.bound.value > 0
        assert result.bound.gap < 1e-8
        for row in result.policies:
            assert row.percent_of_bound <= 100.0 + row.half_width + 0.1, row
            assert row.half_width < 5.0
            assert 0.0 <= row.left_to_gain <= 100.0


def tiny(rng: np.random.Generator, forbidden: bool) -> LossInstance:
    """Three servers, two types, k = 1, geometric durations: 8 states."""
    allowed = np.ones((2, 3), dtype=bool)
    while forbidden and (allowed.all() or not allowed.any(axis=1).all()):
        allowed = rng.random((2, 3)) < 0.6
    return loss_instance(
        rng.integers(0, 5, (2, 3)) / 4,
        rng.integers(1, 5, 2) / 20,
        Geometric(int(rng.integers(2, 8))),
        allowed=allowed,
    )


def test_the_exact_optimum_is_below_the_bound_at_the_exact_blocking() -> None:
    rng = np.random.default_rng(62)
    for _ in range(40):
        instance = tiny(rng, forbidden=False)
        blocking = exact_blocking(instance)
        assert blocking is not None
        best = textbook.optimal_reward(instance)
        assert best <= price(instance, Demand(blocking)).dual_value * (1 + 1e-9)
        for order in ([0, 1, 2], [2, 1, 0]):
            plan = list_plan("x", instance, np.zeros((2, 3)), np.array(order))
            reward, own, by_type = textbook.list_law(instance, plan)
            assert own == pytest.approx(blocking, rel=1e-9)  # Lemma 3.1, exactly
            assert by_type == pytest.approx([blocking] * 2, rel=1e-9)
            assert reward <= best + 1e-10


def test_with_forbidden_pairs_the_optimum_is_below_the_bound_at_most() -> None:
    rng = np.random.default_rng(63)
    for _ in range(60):
        instance = tiny(rng, forbidden=True)
        best = textbook.optimal_reward(instance)
        assert best <= price(instance, AT_MOST).dual_value * (1 + 1e-9)
        plan = list_plan("x", instance, instance.match_reward, np.arange(3))
        reward, _, by_type = textbook.list_law(instance, plan)
        assert reward <= best + 1e-10
        solved = textbook.occupancy(instance, by_type)  # its own blocking, by type, does bound it
        assert solved.status != 0 or reward <= -solved.fun + 1e-9


def test_with_forbidden_pairs_one_blocking_for_all_is_no_bound() -> None:
    """Two types, three servers: the optimum earns 12.5 % more than OCC-LP(B) at Greedy's B.

    Such an instance exists, so OCC-LP(B) is not used with forbidden pairs (``lag.md`` section 2).
    """
    instance = loss_instance(
        [[0.25, 0.0, 0.5], [0.0, 0.75, 0.25]],
        [0.2, 0.2],
        Geometric(6),
        allowed=[[True, True, True], [True, False, True]],
    )
    best = textbook.optimal_reward(instance)
    greedy = list_plan("x", instance, instance.match_reward, np.arange(3))
    _, blocking, by_type = textbook.list_law(instance, greedy)
    at_blocking = -textbook.occupancy(instance, blocking).fun
    assert best == pytest.approx(0.0568412, abs=1e-6)
    assert at_blocking == pytest.approx(0.0497600, abs=1e-6)
    assert price(instance, Demand(blocking)).dual_value < best * 0.9
    assert price(instance, AT_MOST).dual_value > best
    assert abs(by_type[0] - by_type[1]) > 0.2


def test_the_bound_shrinks_with_blocking_where_every_task_earns() -> None:
    """Serving less is never worth more when l >= 0; OCC-LP(<=) is above all of them."""
    rng = np.random.default_rng(64)
    for _ in range(20):
        instance = random_instance(rng, Shape(), load=0.8)
        most = price(instance, AT_MOST).dual_value
        values = [price(instance, Demand(b)).dual_value for b in (0.0, 0.1, 0.3, 0.6, 1.0)]
        assert all(value <= most * (1 + 1e-9) for value in values)
        assert values[-1] == pytest.approx(0.0, abs=1e-9)
        slope = np.diff(values) / np.diff([0.0, 0.1, 0.3, 0.6, 1.0])
        assert np.all(np.diff(slope) <= 1e-9)  # concave in the demand


def test_simulated_reward_is_the_exact_reward_of_the_chain() -> None:
    """Without forbidden pairs and with: 1 million steps within 5 standard errors."""
    rng = np.random.default_rng(65)
    for forbidden in (False, True):
        instance = tiny(rng, forbidden)
        plan = list_plan("x", instance, instance.match_reward, np.arange(3))
        reward, _, by_type = textbook.list_law(instance, plan)
        samples, lost = [], []
        for replication in range(20):
            (trace,) = simulate_plans(instance, [plan], Run(50_000, 500, 9, replication))
            samples.append(trace.reward.sum() / 50_000)
            lost.append(trace.blocked / trace.arrived)
        for got, want in ((np.array(samples), reward), (np.array(lost), by_type)):
            error = np.std(got, axis=0, ddof=1) / np.sqrt(20)
            assert np.all(np.abs(got.mean(axis=0) - want) < 5 * error)


def test_freeing_a_server_one_step_early_would_put_lag_above_its_bound() -> None:
    """LAG section 1: busy for D full steps, or the bound is no bound (Specialist, load 0.8).

    20,000 steps of the step-by-step twin, once as the paper says, once freed a step early.
    """
    instance = catalog_instance("specialist-v1", 0.8)
    blocking = exact_blocking(instance)
    assert blocking is not None
    plan = loss_policies_by_id()["lag"].plan(instance)
    streams = naive.first_block(instance, 1)
    percent = []
    for shift in (0, -1):
        counts = naive.simulate(instance, plan.tables, streams, (200, 20_200), shift=shift)
        served = 1.0 - sum(counts.blocked) / sum(counts.arrived)
        bound = price(instance, Demand(1.0 - served)).dual_value
        percent.append(100 * sum(counts.reward) / 20_000 / bound)
    exact, _, _ = textbook.list_law(instance, plan)
    want = 100 * exact / price(instance, Demand(blocking)).dual_value
    assert percent[0] == pytest.approx(want, abs=1.5)
    assert percent[0] < 95
    assert percent[1] > 100


def test_a_type_without_arrivals_changes_no_bound() -> None:
    instance = random_instance(np.random.default_rng(66), Shape(types=4), load=0.5)
    more = loss_instance(
        np.vstack([instance.match_reward, np.full(instance.n_servers, 9.0)]),
        np.append(instance.arrival_rate, 0.0),
        [*instance.duration, Geometric(50)],
        [*instance.servers_per_task.tolist(), int(instance.servers_per_task[0])],
    )
    for demand in (Demand(0.0), AT_MOST):
        assert price(more, demand).dual_value == pytest.approx(
            price(instance, demand).dual_value, rel=1e-12
        )
    assert replace(more, name="other") == more
