"""Servers that are on duty for a share a_r of the time: constraint (3) with a_r in place of 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from opportune.errors import InputError, OverloadError
from opportune.experiments.comparison import compare
from opportune.experiments.prices import blocking_of, choose_prices
from opportune.experiments.settings import Settings
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.bounds import bounds_for
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.feasibility import feasibility, max_load
from opportune.pricing.gears import BARRIER, FULL_LP, SIFTING
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.kiid import kiid_weights
from opportune.pricing.occupancy import price
from opportune.simulate.loss import Run, simulate_plans


def textbook_value(instance: LossInstance, demand: Demand) -> float | None:
    """OCC-LP by scipy, written down from (2) to (4) with a_r; None if infeasible."""
    n_types, n_servers = instance.match_reward.shape
    n = n_types * n_servers
    want = instance.arrival_rate * demand.servers_per_arrival(instance)
    serve = np.zeros((n_types, n + n_servers))
    keep = np.zeros((n_servers, n + n_servers))
    take = np.zeros((n, n + n_servers))
    for v in range(n_types):
        for r in range(n_servers):
            place = v * n_servers + r
            serve[v, place] = 1.0
            keep[r, place] = instance.duration[v].mean
            take[place, place] = 1.0
            take[place, n + r] = -instance.arrival_rate[v]
    keep[np.arange(n_servers), n + np.arange(n_servers)] = 1.0
    upper = np.where(instance.allowed, np.inf, 0.0).ravel()
    found = linprog(
        np.append(-instance.match_reward.ravel(), np.zeros(n_servers)),
        A_ub=np.vstack([take, serve]) if demand.at_most else take,
        b_ub=np.append(np.zeros(n), want) if demand.at_most else np.zeros(n),
        A_eq=keep if demand.at_most else np.vstack([serve, keep]),
        b_eq=instance.on_duty if demand.at_most else np.append(want, instance.on_duty),
        bounds=[(0, u) for u in np.append(upper, np.full(n_servers, np.inf))],
    )
    return float(-found.fun) if found.status == 0 else None


def part_time(
    seed: int, shape: tuple[int, int] = (3, 6), k: int = 1, forbidden: bool = False
) -> LossInstance:
    """Random rewards; servers on duty for 0, a half, four fifths or all of the time."""
    rng = np.random.default_rng(seed)
    share = rng.choice([0.0, 0.5, 0.8, 1.0], shape[1], p=[0.1, 0.3, 0.3, 0.3])
    share[:2] = 0.9
    allowed = rng.random(shape) > (0.2 if forbidden else 0.0)
    allowed[:, :2] = True
    rate = rng.random(shape[0]) + 0.2
    made = loss_instance(
        rng.random(shape),
        rate / rate.sum(),
        [Geometric(float(mean)) for mean in rng.integers(60, 200, shape[0])],
        k,
        allowed=allowed,
        availability=share,
    )
    return made.with_load(0.8 * max_load(made))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("forbidden", [False, True])
def test_prices_agree_with_the_program_as_written(seed: int, forbidden: bool) -> None:
    instance = part_time(seed, forbidden=forbidden)
    for demand in (FULL, Demand(0.25), AT_MOST):
        expected = textbook_value(instance, demand)
        for gear in (FULL_LP, SIFTING, BARRIER):
            found = price(instance, demand, gear=gear)
            assert found.value == pytest.approx(expected, rel=1e-8)
            assert found.dual_value == pytest.approx(expected, rel=1e-8)
            assert found.residuals.worst <= 1e-8
            free = instance.on_duty - instance.mean_duration @ found.assignment_rate
            assert np.allclose(found.free_fraction, free, atol=1e-10)


def test_the_last_feasible_load_counts_servers_on_duty() -> None:
    for seed in range(6):
        for k, forbidden in ((1, False), (2, False), (1, True)):
            base = part_time(seed, (3, 9), k, forbidden)
            limit = max_load(base)
            if not forbidden:
                assert limit == pytest.approx(1 - k / base.servers_on_duty)
            assert textbook_value(base.with_load(limit * (1 - 1e-6)), FULL) is not None
            assert textbook_value(base.with_load(limit * (1 + 1e-4)), FULL) is None
            at = price(base.with_load(limit))
            assert at.gap <= 2e-5
            assert at.residuals.worst <= 2e-5
            with pytest.raises(OverloadError, match=r"largest feasible|on duty"):
                price(base.with_load(limit * (1 + 1e-4)))


def test_half_a_server_twice_is_one_server() -> None:
    """Two servers alike, each there half of the time, are worth one that is always there."""
    whole = loss_instance([[1.0, 0.6, 0.3], [0.4, 0.9, 0.2]], [0.05, 0.08], Geometric(6))
    reward = np.array(whole.match_reward)[:, [0, 0, 1, 2]]
    rates = whole.arrival_rate
    halves = loss_instance(reward, rates, Geometric(6), availability=[0.5, 0.5, 1.0, 1.0])
    one, two = price(whole), price(halves)
    assert two.value == pytest.approx(one.value, rel=1e-12)
    assert np.allclose(two.demand_price, one.demand_price)
    assert np.allclose(two.capacity_price, one.capacity_price[[0, 0, 1, 2]])
    assert np.allclose(two.tie_weight, one.tie_weight[:, [0, 0, 1, 2]], atol=1e-7)
    assert np.allclose(two.assignment_rate[:, 0], one.assignment_rate[:, 0] / 2, atol=1e-8)
    assert halves.load == pytest.approx(whole.load)
    assert feasibility(halves).max_load == pytest.approx(feasibility(whole).max_load)


def test_all_always_on_duty_is_no_availability() -> None:
    plain = loss_instance([[1.0, 0.5]], [0.1], Geometric(2))
    full = loss_instance([[1.0, 0.5]], [0.1], Geometric(2), availability=[1, 1])
    assert full.availability is None
    assert full == plain
    part = replace(plain, availability=np.array([1.0, 0.5]))
    assert part != plain
    assert part.servers_on_duty == 1.5
    assert part.load == pytest.approx(0.2 / 1.5)


@pytest.mark.parametrize(
    ("share", "told"),
    [
        ([0.5], "1 shares; expected one per server, 2"),
        ([0.5, 1.5], r"availability\[1\]: 1.5"),
        ([50, 100], "divide percent by 100|Divide percent by 100"),
        ([-0.1, 1], "-0.1"),
        ([float("nan"), 1], "nan"),
        ([0, 0], "all zero"),
        (["0.5", 1], "'0.5'"),
    ],
)
def test_bad_shares_are_refused(share: list[object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        loss_instance([[1.0, 0.5]], [0.1], Geometric(2), availability=share)


def test_what_supposes_everybody_there_says_so() -> None:
    instance = replace(part_time(0), duration=(Geometric(60),) * 3)
    plan = loss_policy("greedy").plan(instance)
    with pytest.raises(InputError, match="opportune day"):
        simulate_plans(instance, [plan], Run(1000, 0))
    with pytest.raises(InputError, match="opportune day"):
        compare(instance, Settings(("greedy",), 1000, 1))
    with pytest.raises(InputError, match="on duty"):
        headcount_prices(instance)
    assert bounds_for(instance) == ()


def test_policies_that_need_rates_follow_the_shares() -> None:
    instance = part_time(3)
    lag = loss_policy("lag").plan(instance)
    assert lag.tables.order.shape == (3, 1, 6)
    weight: NDArray[np.float64] = kiid_weights(instance, interior=False)[0]
    assert np.all(weight <= instance.on_duty + 1e-9)
    prices, told = choose_prices(instance.with_load(1.2), seed=1)
    assert prices.priced_at == "at-most"
    assert "OCC-LP(<=)" in told[0]


def test_blocking_of_breaks_is_simulated() -> None:
    instance = part_time(1)
    found = blocking_of(instance)
    assert found.method == "simulated"
    assert 0 < found.value < 1
    assert "breaks" in found.note
