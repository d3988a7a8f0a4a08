"""The fluid map G: against its slow twin, its fixed point, where it leads, whom it describes."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.errors import InputError, OverloadError
from opportune.experiments.fluid import compare_paths, fluid_attraction, lag_fluid
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.waterfill import lag_tables
from opportune.pricing.fluid import (
    CUT,
    Attraction,
    attraction,
    duration_tails,
    fixed_point,
    fluid_map,
    longest_duration,
    random_start,
)
from opportune.pricing.occupancy import price
from opportune.simulate.scaled import ScaledRun
from tests import naive
from tests.naive_scaled import Rule, random_rules, tables_of

Float = NDArray[np.float64]


def naive_step(instance: LossInstance, rules: list[Rule], x: Float) -> tuple[Float, Float]:
    """G(x) and u(x), as LAG Definitions 4.5 and 4.6 read."""
    n_types, n_servers = instance.match_reward.shape
    d = x.shape[1] - 1
    u = np.zeros((n_types, n_servers))
    for v, rule in enumerate(rules):
        permitted = [r for r, index in enumerate(rule.index) if index is not None]
        amounts = naive.waterfill(
            Fraction(rule.k),
            [Fraction(x[r, 0]) for r in permitted],
            [rule.index[r] for r in permitted],
            [rule.weight[r] for r in permitted],
            [permitted.index(r) for r in rule.pi if r in permitted],
        )
        u[v, permitted] = instance.arrival_rate[v] * np.array([float(a) for a in amounts])
    after = np.zeros_like(x)
    for r in range(n_servers):
        after[r, 0] = x[r, 0] - u[:, r].sum() + x[r, 1]
        for i in range(1, d + 1):
            after[r, i] = x[r, i + 1] if i < d else 0.0
            for v, duration in enumerate(instance.duration):
                mass = duration.tail(np.array([i])) - duration.tail(np.array([i + 1]))
                after[r, i] += mass[0] * u[v, r]
    return after, u


@pytest.mark.parametrize("forbid", [False, True])
def test_the_map_is_its_twin(forbid: bool) -> None:
    """Durations per type, tied indices, forbidden pairs, shortage states among the starts."""
    for case in range(40):
        rng = random.Random(case)
        n_servers = rng.randint(2, 6)
        rules = random_rules(rng, n_servers, forbid)
        duration = [Deterministic(rng.randint(1, 4)), Empirical(np.array([2, 6]), np.ones(2))]
        allowed = np.array([[index is not None for index in rule.index] for rule in rules])
        reward = np.array([[rng.random() for _ in range(n_servers)] for _ in range(2)])
        k = [rule.k for rule in rules]
        instance = loss_instance(reward, [0.4, 0.3], duration, k, allowed=allowed)
        fluid = fluid_map(instance, tables_of(rules))
        assert fluid.shape == (n_servers, 7)
        x = random_start(fluid.shape, 1, case)
        for _ in range(10):
            after, u = naive_step(instance, rules, x)
            assert fluid.rates(x) == pytest.approx(u, abs=1e-13)
            assert fluid.step(x) == pytest.approx(after, abs=1e-13)
            x = fluid.step(x)
            assert x.sum(axis=1) == pytest.approx(np.ones(n_servers), abs=1e-13)
            assert x.min() >= 0


def test_a_path_is_steps_one_after_the_other() -> None:
    fluid, _ = lag_fluid(catalog_instance("priority-v1", 0.6))
    x = random_start(fluid.shape, 2, 3)
    before = x.copy()
    free, reward = fluid.path(x, 30)
    for t in range(30):
        assert free[t] == pytest.approx(x[:, 0], abs=1e-15)
        earned = np.sum(fluid.instance.match_reward * fluid.rates(x))
        assert reward[t] == pytest.approx(earned, rel=1e-12)
        x = fluid.step(x)
    assert np.array_equal(before, random_start(fluid.shape, 2, 3))  # a start is not changed


def test_distance_is_half_the_difference_of_the_laws() -> None:
    fluid, target = lag_fluid(catalog_instance("specialist-v1", 0.5))
    x = np.zeros(fluid.shape)
    x[:, 0] = 1.0
    want = np.mean(np.abs(x - target).sum(axis=1)) / 2
    distance = fluid.distance(x, target, 600)
    assert distance[0] == pytest.approx(want)
    assert len(distance) == 601
    assert fluid.distance(x, target, 0) == pytest.approx([want])
    stopped = fluid.distance(x, target, 600, stop=1e-3)
    assert stopped[-1] <= 1e-3 < stopped[-2]
    assert np.array_equal(stopped, distance[: len(stopped)])


# --------------------------------------------------------------------------- durations


@pytest.mark.parametrize("mean", [1.0, 1.5, 10.0, 20.0, 333.3])
def test_a_geometric_duration_is_cut_at_the_first_value_that_is_long_enough(mean: float) -> None:
    longest = longest_duration(Geometric(mean))
    beyond = Geometric(mean).tail(np.array([longest + 1, longest]))
    assert beyond[0] < CUT
    assert longest == 1 or beyond[1] >= CUT
    tails = duration_tails(loss_instance([[1.0, 1.0]], [0.001], Geometric(mean)))
    assert tails.shape == (1, longest + 2)
    assert tails[0, 1:].sum() == pytest.approx(mean, rel=1e-10)
    assert tails[0, -2:].tolist() == [pytest.approx(beyond[1]), 0.0]  # the rest stands at d


def test_tails_of_all_kinds() -> None:
    kinds = [Deterministic(2), Empirical(np.array([1, 4]), np.array([0.25, 0.75]))]
    tails = duration_tails(loss_instance([[1.0], [1.0]], [0.1, 0.1], kinds))
    assert tails.tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 0.75, 0.75, 0.75, 0]]


# ---------------------------------------------------------------- the fixed point, and from afar


def test_the_fixed_point_of_one_server_type() -> None:
    """V=1, R=1, k=1, D=2, lambda=.1: u = .1, phi = .8."""
    instance = loss_instance([[1.0]], [0.1], Deterministic(2))
    with pytest.raises(OverloadError):
        lag_fluid(instance)
    two = loss_instance([[1.0, 0.5]], [0.1], Deterministic(2))
    fluid, x = lag_fluid(two)
    u = 0.1 / 1.2  # the better server whenever it is free, the other one for the rest
    assert x == pytest.approx(np.array([[1 - 2 * u, u, u], [1 - 2 * (0.1 - u), 0.1 - u, 0.1 - u]]))
    assert fluid.residual(x) < 1e-15
    assert fluid.path(x, 1)[1] == pytest.approx([0.0916667], abs=1e-7)  # worked value of the LP


@pytest.mark.parametrize("name", ["specialist-v1", "priority-v1", "unfriendly-v1"])
def test_every_start_leads_to_the_fixed_point(name: str) -> None:
    found = fluid_attraction(catalog_instance(name, 0.8), starts=12, steps=2500)
    assert found.residual <= 1e-9
    assert found.share_converged == 1.0
    assert 50 < found.steps_needed.max() < 2500
    assert np.all(found.distance[:, 0] > 0.2)  # they come from afar
    middle = found.quantiles([0, 100, 2500])
    assert middle.shape == (3, 3)
    assert np.all(np.diff(middle, axis=1) >= 0)
    assert np.all(middle[2] < 1e-6)


def test_a_point_that_is_not_fixed_attracts_nothing() -> None:
    fluid, target = lag_fluid(catalog_instance("specialist-v1", 0.8))
    moved = target.copy()
    moved[0, :2] += [1e-4, -1e-4]
    found = attraction(fluid, moved, starts=4, steps=1500)
    assert found.residual > 1e-5
    assert found.share_converged == 0.0
    assert found.steps_needed.tolist() == [-1] * 4


def test_a_start_has_converged_when_it_stays_close() -> None:
    far, near = 1e-2, 1e-7
    distance = np.array([[near] * 4, [far, near, far, near], [far, far, near, far], [far] * 4])
    found = Attraction(0.0, distance, 1e-6)
    assert found.steps_needed.tolist() == [0, 3, -1, -1]
    assert found.share_converged == 0.5


def test_starts_are_states_far_apart_and_reproducible() -> None:
    starts = [random_start((5, 9), 1, number) for number in range(8)]
    for number, x in enumerate(starts):
        assert x.sum(axis=1) == pytest.approx(np.ones(5))
        assert x.min() >= 0
        assert np.array_equal(x, random_start((5, 9), 1, number))
        assert not np.array_equal(x, random_start((5, 9), 2, number))
    apart = [np.abs(a - b).sum() / 10 for a in starts for b in starts if a is not b]
    assert min(apart) > 0.02
    assert np.ptp([x[:, 0].mean() for x in starts]) > 0.4


# ------------------------------------------------------------- the scaled system follows it


@pytest.mark.parametrize("name", ["specialist-v1", "unfriendly-v1"])
def test_the_scaled_system_follows_the_fluid(name: str) -> None:
    """From empty, LAG: the mean difference of the free shares falls like 1 / sqrt(m)."""
    instance = catalog_instance(name, 0.8)
    fluid, _ = lag_fluid(instance)
    empty = np.zeros(fluid.shape)
    empty[:, 0] = 1.0
    apart = []
    for n in (64, 1024, 16384, 262144):
        found = compare_paths(instance, ScaledRun(n, math.isqrt(n), 200, 0), empty)
        assert found.least_stock > 0.1
        assert found.fluid_free[0].tolist() == found.scaled_free[0].tolist()
        apart.append(found.mean_free_distance)
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 0.02 < 0.05 < apart[0]
    assert 3.0 < apart[0] / apart[-1] < 24.0  # sqrt(512 / 8) = 8
    assert found.free_distance < 0.15
    assert abs(found.mean_reward_difference) < 0.05 * found.fluid_reward.mean()


def test_at_a_shortage_the_fluid_is_only_a_filler() -> None:
    """All servers busy until step 40: G serves in part what the system drops."""
    instance = catalog_instance("unfriendly-v1", 0.8)
    fluid, _ = lag_fluid(instance)
    busy = np.zeros(fluid.shape)
    busy[:, 0], busy[:, 40] = 0.05, 0.95
    found = compare_paths(instance, ScaledRun(2**16, 2**8, 100, 0), busy)
    assert found.least_stock < 0
    assert found.fluid_reward[5] > 0
    assert found.scaled_reward[5] == 0
    assert found.free_distance > 0.03


def test_a_state_of_another_shape_is_refused() -> None:
    fluid, target = lag_fluid(catalog_instance("unfriendly-v1", 0.5))
    for call in (fluid.step, fluid.rates, fluid.residual):
        with pytest.raises(InputError, match=r"shape \(10, 44\)"):
            call(target[:, :-1])
    with pytest.raises(InputError, match="starts"):
        attraction(fluid, target, starts=0)


def test_the_fixed_point_of_prices_and_the_map_fit_together() -> None:
    prices = price(catalog_instance("lowrank-v1", 0.8))
    fluid = fluid_map(prices.instance, lag_tables(prices))
    x = fixed_point(prices)
    assert x.shape == fluid.shape
    assert fluid.rates(x) == pytest.approx(prices.assignment_rate, abs=1e-12)
