"""HC-group-LP: arms, the program, its certificate and index."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.evaluation import exact_value
from opportune.pricing.exact import optimum
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.headcount_arms import make_arm
from opportune.pricing.headcount_chain import headcount_chain
from opportune.pricing.headcount_groups import arm_value, group_prices, group_upper_bound
from opportune.pricing.lp import Program, solve_to_center
from opportune.pricing.occupancy import price
from tests.headcount_oracle import bin_law

PERCENT = {
    "priority-v1": {0.1: 89.59, 0.2: 89.02, 0.3: 87.59, 0.4: 85.40, 0.7: 85.82, 0.8: 84.48},
    "specialist-v1": {0.1: 98.79, 0.2: 95.09, 0.3: 90.35, 0.4: 91.31, 0.7: 93.38, 0.8: 95.21},
}
"""HC-group-LP in percent of OCC-LP(B) (headcount.md, column group LP)."""


@pytest.mark.parametrize("name", PERCENT)
def test_the_published_percentages_and_the_optimal_index(name: str) -> None:
    for load, percent in PERCENT[name].items():
        instance = catalog_instance(name, load)
        blocking = exact_blocking(instance)
        assert blocking is not None
        reference = price(instance, Demand(blocking)).dual_value
        found = group_prices(instance)
        assert 100 * found.bound / reference == pytest.approx(percent, abs=0.0051)
        assert found.gap <= 1e-6
        plan = loss_policy("headcount-group").plan(instance)
        assert plan.counts is not None
        value = exact_value(instance, plan.counts).value
        assert value == pytest.approx(optimum(instance).value, rel=5e-5)


def test_moves_of_an_arm_with_one_server_per_task() -> None:
    """Q0, Q+ and Qg of the notes, entry by entry."""
    instance = loss_instance(np.ones((1, 5)), [0.3], Geometric(3.0))
    chain, f = headcount_chain(instance), 1 / 3
    arm = make_arm(2, 5, chain)
    place = {(int(b), int(n)): i for i, (b, n) in enumerate(zip(arm.busy, arm.level, strict=True))}
    assert set(place) == {(b, n) for n in range(6) for b in range(3) if 0 <= n - b <= 3}
    stay = arm.stay.toarray()
    for (b, n), i in place.items():
        for (b2, n2), j in place.items():
            want = bin_law(b, f, b - b2) * bin_law(n - b, f, n - b - (n2 - b2))
            assert stay[i, j] == pytest.approx(want, abs=1e-14)
    begin = arm.begin.toarray()
    for e, (i, c) in enumerate(zip(arm.pair_state, arm.pair_take, strict=True)):
        b, n = int(arm.busy[i]), int(arm.level[i])
        for (b2, n2), j in place.items():
            here, there = b2 - c, (n2 - b2) - (1 - c)
            want = bin_law(b, f, b - here) * bin_law(n - b, f, n - b - there)
            assert begin[e, j] == pytest.approx(want, abs=1e-14)
    forced = {(b, n) for (b, n) in place if n - b == 3 and n < 5}
    takes = {(int(arm.busy[i]), int(arm.level[i])) for i in arm.pair_state[arm.pair_take == 0]}
    assert not takes & forced


@pytest.mark.parametrize(("copies", "k"), [(1, 2), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_every_move_of_an_arm_is_a_law(copies: int, k: int) -> None:
    instance = loss_instance(np.ones((1, 8)), [0.3], Geometric(3.0), k)
    arm = make_arm(copies, 8, headcount_chain(instance))
    np.testing.assert_allclose(arm.stay.sum(axis=1), 1.0)
    np.testing.assert_allclose(arm.begin.sum(axis=1), 1.0)
    assert np.all(arm.busy <= copies)
    assert np.all(arm.busy[arm.pair_state] + arm.pair_take <= copies)


def test_any_prices_and_values_bound_the_program() -> None:
    rng = np.random.default_rng(3)
    reward = np.repeat(rng.random((2, 3)), [2, 1, 3], axis=1)
    for k in (1, 2):
        instance = loss_instance(reward, [0.1, 0.2], Geometric(6.0), k)
        found = group_prices(instance)
        best = optimum(instance).value
        parts = (found.merged, found.chain, found.arms)
        for scale in (0.0, 0.01, 1.0):
            prices = found.prices + scale * rng.standard_normal(found.prices.shape)
            anyhow = tuple(h + scale * rng.standard_normal(h.shape) for h in found.values)
            assert group_upper_bound(*parts, prices, anyhow) >= best
            exact = tuple(
                arm_value(arm, found.chain, found.merged.reward[:, g], (found.merged.rate, prices))
                for g, arm in enumerate(found.arms)
            )
            tight = group_upper_bound(*parts, prices, exact)
            assert best <= tight <= group_upper_bound(*parts, prices, anyhow) * (1 + 1e-9)


def test_two_groups_are_exact_for_several_servers_per_task() -> None:
    """Beyond the notes, which had k = 1 only."""
    rng = np.random.default_rng(4)
    gained = 0
    for copies, k in (((2, 3), 2), ((3, 4), 2), ((4, 3), 3)):
        reward = np.repeat(rng.random((3, 2)), copies, axis=1)
        instance = loss_instance(reward, [0.05, 0.08, 0.03], Geometric(7.0), k).with_load(0.6)
        best = optimum(instance).value
        assert group_prices(instance).bound == pytest.approx(best, rel=1e-8)
        gained += headcount_prices(instance).bound > best * (1 + 1e-5)
    assert gained > 0


def memoryless(name: str, load: float) -> LossInstance:
    """A catalog instance with geometric durations of its mean."""
    instance = catalog_instance(name, load)
    mean = float(instance.mean_duration[0])
    return replace(instance, duration=(Geometric(mean),) * instance.n_types)


@pytest.mark.parametrize(("load", "percent"), [(0.4, 92.26), (0.7, 92.84), (0.8, 91.71)])
def test_unfriendly_gains_over_single_servers(load: float, percent: float) -> None:
    instance = memoryless("unfriendly-v1", load)
    blocking = exact_blocking(instance)
    assert blocking is not None
    reference = price(instance, Demand(blocking)).dual_value
    assert 100 * group_prices(instance).bound / reference == pytest.approx(percent, abs=0.0051)


def test_groups_of_one_are_single_servers() -> None:
    rng = np.random.default_rng(5)
    instance = loss_instance(rng.random((2, 5)), [0.1, 0.1], Geometric(6.0))
    assert group_prices(instance).bound == pytest.approx(headcount_prices(instance).bound, rel=1e-7)


def test_light_load_and_mean_one() -> None:
    """Headcounts of probability 1e-14, and of 0."""
    rng = np.random.default_rng(6)
    reward = np.repeat(rng.random((2, 2)), [2, 4], axis=1)
    for mean, rate in ((1.5, 0.01), (1.0, 0.3)):
        instance = loss_instance(reward, [rate, rate], Geometric(mean))
        found = group_prices(instance)
        assert found.bound == pytest.approx(optimum(instance).value, rel=1e-7)


def test_duals_come_from_the_middle_and_free_rows_have_none() -> None:
    """Maximize x + y with x + y <= 1: every split is optimal, the middle one is returned."""
    program = Program(
        cost=np.ones(2),
        lower=np.zeros(2),
        upper=np.full(2, np.inf),
        row_lower=np.array([-np.inf, -np.inf]),
        row_upper=np.array([1.0, np.inf]),
        row=np.array([0, 0, 1]),
        column=np.array([0, 1, 0]),
        value=np.ones(3),
    )
    solution = solve_to_center(program, "a test")
    np.testing.assert_allclose(solution.x, 0.5, atol=1e-5)
    np.testing.assert_allclose(solution.row_dual, [1.0, 0.0], atol=1e-7)


def test_too_large_is_refused() -> None:
    reward = np.repeat(np.random.default_rng(7).random((9, 6)), 50, axis=1)
    instance = loss_instance(reward, [0.05] * 9, Geometric(400.0))
    with pytest.raises(InputError, match="states of its groups"):
        group_prices(instance)
