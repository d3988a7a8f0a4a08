"""LAG Lemma B.1 and weak duality: what makes a bound ours, whatever the solver said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing import certificate
from opportune.pricing.certificate import capacity_price, dual_value, residuals
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.occupancy import price
from tests import naive, textbook
from tests.instances import Shape, random_instance

SHAPES = [
    Shape(),
    Shape(scores="levels"),
    Shape(forbidden=True),
    Shape(per_type=True, forbidden=True, duration="mixed"),
]


def arm_value(instance: LossInstance, price_of: np.ndarray, r: int) -> float:
    """The root of q = sum_v lambda_v max(s_vr - l_v - E[D_v] q, 0) over permitted types."""
    types = np.flatnonzero(instance.allowed[:, r])
    gain = instance.match_reward[types, r] - price_of[types]
    rate, mean = instance.arrival_rate[types], instance.mean_duration[types]

    def excess(q: float) -> float:
        return q - float(rate @ np.maximum(gain - mean * q, 0.0))

    return naive.root(excess, 0.0, 1.0 + float(np.abs(gain).sum()))


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_the_capacity_price_is_the_root_of_its_equation(shape: Shape) -> None:
    """At any prices, negative ones too, types without arrivals included."""
    rng = np.random.default_rng(41)
    for case in range(40):
        instance = random_instance(rng, shape)
        if case % 3 == 0 and instance.n_types > 1:
            rate = instance.arrival_rate.copy()
            rate[0] = 0.0
            instance = replace(instance, arrival_rate=rate)
        prices = rng.normal(0.2, 0.6, instance.n_types)
        got = capacity_price(instance, prices)
        want = [arm_value(instance, prices, r) for r in range(instance.n_servers)]
        assert got == pytest.approx(want, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_any_prices_give_an_upper_bound(shape: Shape) -> None:
    """OCC-LP <= D(l) for every l; for <= negative prices are raised to 0 first."""
    rng = np.random.default_rng(42)
    for _ in range(25):
        instance = random_instance(rng, shape, load=0.9 * rng.random() + 0.05)
        for demand in (FULL, Demand(0.3), AT_MOST):
            solved = textbook.occupancy(instance, demand.by_type(instance), demand.at_most)
            if solved.status != 0:
                continue
            for _ in range(5):
                trial = rng.normal(0.3, 0.5, instance.n_types)
                assert dual_value(instance, demand, trial) >= -solved.fun * (1 - 1e-9)
            best = price(instance, demand).demand_price
            for _ in range(5):
                near = best + rng.normal(0.0, 1e-3, instance.n_types)
                assert dual_value(instance, demand, near) >= -solved.fun * (1 - 1e-9)


def test_the_bound_at_most_never_uses_a_negative_price() -> None:
    instance = loss_instance([[1.0, 0.5]], [0.1], Geometric(2))
    at_zero = dual_value(instance, AT_MOST, np.zeros(1))
    assert dual_value(instance, AT_MOST, np.array([-5.0])) == at_zero
    assert dual_value(instance, FULL, np.array([-5.0])) != at_zero


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_lemma_b1_holds_for_every_solve(shape: Shape) -> None:
    rng = np.random.default_rng(43)
    for _ in range(25):
        instance = random_instance(rng, shape, load=0.9 * rng.random() + 0.05)
        for demand in (FULL, Demand(0.2), AT_MOST):
            solved = textbook.occupancy(instance, demand.by_type(instance), demand.at_most)
            if solved.status != 0:
                continue
            prices = price(instance, demand)
            u, phi, level = prices.assignment_rate, prices.free_fraction, prices.index
            lam = instance.arrival_rate[:, None]
            q = (lam * np.maximum(level, 0.0)).sum(axis=0)
            assert prices.capacity_price == pytest.approx(q, abs=1e-9)  # (i)
            assert u[level > 0] == pytest.approx((lam * phi)[level > 0], abs=1e-10)  # (iii)
            assert np.all(u[level < 0] == 0.0)
            assert np.all(u <= lam * phi + 1e-12)
            served = u.sum(axis=1) / instance.arrival_rate
            want = demand.servers_per_arrival(instance)
            assert np.all(served <= want + 1e-9)
            tight = prices.demand_price > 1e-9 if demand.at_most else np.ones(len(want), dtype=bool)
            assert served[tight] == pytest.approx(want[tight], abs=1e-9)
            assert prices.residuals.worst < 1e-9


def test_the_gap_is_the_sum_of_what_is_lost() -> None:
    """(ii): for any feasible (u, phi), dual - primal = sum of L (lambda phi - u) and of -L u."""
    rng = np.random.default_rng(44)
    for _ in range(30):
        instance = random_instance(rng, Shape(k=2), load=0.7)
        prices = price(instance)
        k, rate = int(instance.servers_per_task[0]), instance.arrival_rate
        u = np.repeat(k * rate[:, None] / instance.n_servers, instance.n_servers, axis=1)
        phi = 1.0 - instance.mean_duration @ u
        level = prices.index
        lost = np.where(level > 0, level * (rate[:, None] * phi - u), -level * u).sum()
        own = float(np.sum(instance.match_reward * u))
        assert prices.dual_value - own == pytest.approx(lost, rel=1e-8)
        seen = residuals(instance, FULL, (prices.demand_price, prices.capacity_price, level), u)
        assert seen.complement == pytest.approx(lost / own, rel=1e-6)
        assert seen.worst == seen.complement
        assert max(seen.demand, seen.capacity, seen.availability, seen.price) < 1e-9


def violated(name: str, **changed: object) -> float:
    """One residual of a good pair of which one part has been spoiled."""
    instance = loss_instance([[1.0, 0.5], [0.2, 0.9]], [0.1, 0.1], Geometric(2))
    prices = price(instance)
    parts = {
        "l": prices.demand_price,
        "q": prices.capacity_price,
        "level": prices.index,
        "u": prices.assignment_rate,
        "demand": FULL,
        **changed,
    }
    seen = residuals(
        instance,
        parts["demand"],  # type: ignore[arg-type]
        (parts["l"], parts["q"], parts["level"]),  # type: ignore[arg-type]
        parts["u"],  # type: ignore[arg-type]
    )
    assert prices.residuals.worst < 1e-12
    assert seen.worst >= getattr(seen, name)
    return float(getattr(seen, name))


def test_every_violation_is_seen() -> None:
    """Each residual, by its own measure."""
    instance = loss_instance([[1.0, 0.5], [0.2, 0.9]], [0.1, 0.1], Geometric(2))
    good = price(instance)
    u = good.assignment_rate
    assert violated("demand", u=u * 0.9) == pytest.approx(0.1)
    assert violated("demand", u=u * 1.1) == pytest.approx(0.1)
    assert violated("demand", u=u * 0.9, demand=AT_MOST) == 0.0
    assert violated("demand", u=u * 1.1, demand=AT_MOST) == pytest.approx(0.1)
    assert violated("demand", demand=Demand(0.25)) == pytest.approx(0.25)
    assert violated("capacity", u=np.array([[0.6, 0.0], [0.0, 0.0]])) == pytest.approx(0.2)
    more = u.copy()
    more[0, 0] = 0.1 * (good.free_fraction[0] + 0.2)
    assert violated("availability", u=more) == pytest.approx(0.2 + 2 * (more - u)[0, 0], rel=1e-6)
    negative = u.copy()
    negative[1, 0] = -0.03
    assert violated("availability", u=negative) == pytest.approx(0.3)
    assert violated("price", q=good.capacity_price + 0.25) == pytest.approx(0.25)
    idle = violated("complement", u=u * 0.9, demand=AT_MOST, l=np.array([0.5, 0.5]))
    assert idle > 0.01


def test_the_index_is_score_minus_opportunity_cost() -> None:
    instance = loss_instance(
        [[1.0, 0.5], [0.2, 0.9]],
        [0.1, 0.1],
        [Geometric(2), Geometric(5)],
        allowed=[[True, True], [False, True]],
    )
    got = certificate.index(instance, np.array([0.3, -0.1]), np.array([0.04, 0.01]))
    assert got[0] == pytest.approx([1.0 - 0.3 - 0.08, 0.5 - 0.3 - 0.02])
    assert got[1, 0] == -np.inf
    assert got[1, 1] == pytest.approx(0.9 + 0.1 - 0.05)
