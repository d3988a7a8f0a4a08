"""The exact optimum and exact evaluation, against a slow twin, published cells and simulation."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.kernels.group import GroupTables, StateTables
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import Plan, list_plan, loss_policy
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.evaluation import exact_value
from opportune.pricing.exact import SPAN, optimum
from opportune.pricing.occupancy import price
from opportune.pricing.states import state_space
from opportune.simulate.loss import Run, simulate_plans
from tests import naive_exact
from tests.instances import Shape, random_instance

KNOWN = {
    "priority-v1": (89.59, 89.02, 87.59, 85.40, 85.94, 85.82, 84.48),
    "specialist-v1": (98.58, 94.24, 88.89, 89.31, 88.53, 90.86, 92.73),
}
"""Percent of OCC-LP(B) at loads .1, .2, .3, .4, .5, .7, .8 (published, lag.md section 7)."""

LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8)


def percent(instance: LossInstance, value: float) -> float:
    """Of OCC-LP(B) at the exact B."""
    blocking = exact_blocking(instance)
    assert blocking is not None
    return 100.0 * value / price(instance, Demand(blocking)).dual_value


@pytest.mark.parametrize("name", KNOWN)
def test_the_known_optima_of_the_catalog(name: str) -> None:
    for load, known in zip(LOADS, KNOWN[name], strict=True):
        instance = catalog_instance(name, load)
        assert percent(instance, optimum(instance).value) == pytest.approx(known, abs=0.0051)


def test_it_equals_the_slow_twin() -> None:
    rng = np.random.default_rng(3)
    kinds = set()
    for case in range(60):
        shape = Shape(
            types=3,
            servers=4,
            k=3,
            per_type=case % 2 == 1,
            forbidden=case % 3 == 0,
            scores="levels" if case % 5 == 0 else "smooth",
        )
        instance = random_instance(rng, shape)
        if len(naive_exact.all_states(instance)) > 150:
            continue
        kinds.add((shape.per_type, shape.forbidden, int(instance.servers_per_task.max())))
        best = optimum(instance)
        unit = max(float(instance.match_reward.max()), 1e-9)
        assert best.value == pytest.approx(naive_exact.best_value(instance), abs=1e-11 * unit)
        assert 0 <= best.span <= SPAN * unit
        assert best.upper >= best.value
    assert len(kinds) >= 8


def test_tasks_that_end_within_the_step() -> None:
    """E[D] = 1: the survivors' identity would divide by 0."""
    rng = np.random.default_rng(4)
    for means in ((1, 1), (1, 4), (1.0 + 1e-9, 2)):
        durations = [Geometric(mean) for mean in means]
        instance = loss_instance(rng.random((2, 3)), [0.3, 0.5], durations)
        want = naive_exact.best_value(instance)
        assert optimum(instance).value == pytest.approx(want, rel=1e-9)


def test_list_plans_are_evaluated_as_they_act() -> None:
    rng = np.random.default_rng(5)
    for case in range(25):
        shape = Shape(types=3, servers=4, per_type=case % 2 == 1, forbidden=case % 3 == 0)
        instance = random_instance(rng, shape)
        if len(naive_exact.all_states(instance)) > 150:
            continue
        index = rng.random(instance.match_reward.shape)
        plan = list_plan("x", instance, index, np.arange(instance.n_servers))

        def choice(
            v: int,
            state: naive_exact.State,
            options: list[tuple[int, ...]],
            index: np.ndarray = index,
        ) -> tuple[int, ...]:
            return max(options, key=lambda team: sorted(index[v, list(team)]))

        want = naive_exact.policy_value(instance, choice)
        assert exact_value(instance, plan.tables).value == pytest.approx(want, rel=1e-10)


def simulated(instance: LossInstance, plan: Plan) -> tuple[float, float]:
    """Mean reward per step and its standard error over ten runs."""
    runs = [
        simulate_plans(instance, [plan], Run(100_000, 2_000, seed=8, replication=i))[0]
        for i in range(10)
    ]
    values = [run.reward.sum() / 100_000 for run in runs]
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(10))


@pytest.mark.parametrize("policy", ["greedy", "random", "alg-sc-lp", "headcount", "optimal"])
@pytest.mark.parametrize(("k", "load"), [(1, 0.7), (2, 0.5)])
def test_evaluation_agrees_with_simulation(policy: str, k: int, load: float) -> None:
    """Ties at random, sampling by weight, lists by headcount, tables by state."""
    rng = np.random.default_rng(6)
    reward = np.repeat(rng.integers(0, 4, (3, 3)) / 3, [2, 1, 3], axis=1)
    instance = loss_instance(reward, [0.1, 0.1, 0.2], Geometric(7), k).with_load(load)
    plan = loss_policy(policy).plan(instance)
    exact = exact_value(instance, plan.tables if plan.counts is None else plan.counts)
    mean, error = simulated(instance, plan)
    assert abs(exact.value - mean) < 4 * error


def test_the_table_of_the_optimum_serves_what_it_promises() -> None:
    """Simulated where types differ in mean, servers per task and permitted pairs."""
    rng = np.random.default_rng(7)
    allowed = [[True, True, True, True, False], [True] * 5, [False, True, True, True, True]]
    durations = [Geometric(3), Geometric(9), Geometric(1)]
    instance = loss_instance(
        rng.random((3, 5)), [0.15, 0.1, 0.2], durations, [1, 2, 1], allowed=allowed
    )
    best = optimum(instance)
    plan = loss_policy("optimal").plan(instance)
    assert isinstance(plan.counts, StateTables)
    assert exact_value(instance, plan.counts).value == pytest.approx(best.value, rel=1e-10)
    mean, error = simulated(instance, plan)
    assert abs(best.value - mean) < 4 * error


def test_a_group_plan_that_is_a_list_acts_as_the_list() -> None:
    instance = catalog_instance("priority-v1", 0.6)
    prices = loss_policy("headcount-group").plan(instance)
    assert isinstance(prices.counts, GroupTables)
    listed = list_plan("x", instance, instance.match_reward, np.arange(8))
    order = listed.tables.order[:, 0]
    rank = np.empty_like(prices.counts.rank)
    for v in range(2):
        for g in range(2):
            first = np.flatnonzero(prices.counts.group_of[order[v]] == g)[0]
            rank[v, g] = 8 - first
    as_group = Plan("y", listed.tables, listed.index, counts=prices.counts._replace(rank=rank))
    one, other = simulate_plans(instance, [listed, as_group], Run(50_000, 1_000, seed=2))
    assert np.array_equal(one.assigned, other.assigned)
    assert np.array_equal(one.busy_steps, other.busy_steps)
    assert np.array_equal(one.blocked, other.blocked)
    np.testing.assert_allclose(one.reward, other.reward, rtol=1e-12)


def test_too_many_states_are_refused_with_their_number() -> None:
    instance = catalog_instance("lowrank-v1", 0.5)
    memoryless = loss_instance(instance.match_reward, instance.arrival_rate, Geometric(43), 1)
    with pytest.raises(InputError, match="1073741824 states"):
        optimum(memoryless)
    with pytest.raises(InputError, match="more than 100"):
        optimum(
            loss_instance(np.random.default_rng(1).random((2, 9)), [0.1, 0.1], Geometric(5), 3), 100
        )
    with pytest.raises(InputError, match="deterministic, not memoryless"):
        optimum(loss_instance([[1.0, 2.0]], [0.2], Deterministic(3)))


def test_equal_servers_are_counted() -> None:
    instance = catalog_instance("priority-v1", 0.5)
    merged, single = state_space(instance), state_space(instance, merge_servers=False)
    assert (merged.n_states, single.n_states) == (3 * 7, 2**8)
    whole = optimum(instance, space=single)
    assert whole.value == pytest.approx(optimum(instance).value, rel=1e-12)
