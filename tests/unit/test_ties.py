"""Which optimal rates: the least squares, unique, symmetric, and the same from any solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from opportune.errors import SolverError
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.ties import least_squares_rates
from tests import textbook
from tests.instances import Shape, random_instance


def squares(instance: LossInstance, u: np.ndarray) -> float:
    """sum (u / lambda)^2."""
    return float(np.sum((u / instance.arrival_rate[:, None]) ** 2))


def test_equal_servers_get_equal_rates() -> None:
    for name in ("priority-v1", "specialist-v1"):
        for load in (0.2, 0.4, 0.7):
            prices = price(catalog_instance(name, load))
            weight = prices.tie_weight
            assert weight[:, 0] == pytest.approx(weight[:, 1], abs=1e-9)
            if name == "priority-v1":
                for r in range(3, 8):
                    assert weight[:, 2] == pytest.approx(weight[:, r], abs=1e-9)
            assert prices.capacity_price[0] == prices.capacity_price[1]


@pytest.mark.parametrize("demand", [FULL, AT_MOST])
def test_no_other_optimal_rates_have_a_smaller_sum_of_squares(demand: Demand) -> None:
    """Against optimal vertices in random directions and all points between them and ours."""
    rng = np.random.default_rng(18)
    moved = 0
    for _ in range(30):
        instance = random_instance(rng, Shape(scores="levels", k=2), load=0.8 * rng.random() + 0.1)
        prices = price(instance, demand)
        ours = squares(instance, prices.assignment_rate)
        for _ in range(6):
            other = optimal_vertex(rng, instance, prices)
            moved += not np.allclose(other, prices.assignment_rate, atol=1e-7)
            assert squares(instance, other) >= ours * (1 - 1e-6)
            toward = 0.999 * prices.assignment_rate + 0.001 * other
            assert squares(instance, toward) >= ours * (1 - 1e-7)
    assert moved > 50


def optimal_vertex(
    rng: np.random.Generator, instance: LossInstance, prices: Relaxation
) -> np.ndarray:
    """An optimal u in a random direction: the reward is so large that it comes first."""
    at_most, value = prices.demand.at_most, prices.value
    nudge = rng.random(instance.match_reward.shape) * 1e-4
    nudged = loss_instance(
        instance.match_reward + nudge,
        instance.arrival_rate,
        list(instance.duration),
        instance.servers_per_task.tolist(),
    )
    solved = textbook.occupancy(nudged, at_most=at_most)
    u = solved.x[: nudge.size].reshape(nudge.shape)
    assert np.sum(instance.match_reward * u) == pytest.approx(value, rel=1e-7)
    return np.asarray(u)


def test_it_is_the_quadratic_program_by_another_method() -> None:
    """One type, three tied servers of two kinds, by hand and by a general minimizer.

    s = 0 for all, so everything is tied: min sum y^2 with sum y = 1, 0 <= y <= phi.
    """
    instance = loss_instance(np.zeros((2, 3)), [0.2, 0.05], [Geometric(2), Geometric(9)])
    rates, free = least_squares_rates(instance, FULL, np.zeros((2, 3)), np.zeros(2, dtype=bool))
    assert rates / instance.arrival_rate[:, None] == pytest.approx(np.full((2, 3), 1 / 3))
    assert free == pytest.approx(np.full(3, 1 - (0.2 * 2 + 0.05 * 9) / 3))
    index = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    rates, free = least_squares_rates(instance, FULL, index, np.zeros(2, dtype=bool))

    def weights(y: np.ndarray) -> np.ndarray:
        """y_01, y_02, y_10, y_11 to the full matrix; y_00 = phi_0."""
        phi = (1.0 - 0.45 * y[2]) / 1.4
        return np.array([[phi, y[0], y[1]], [y[2], y[3], 0.0]])

    def phis(y: np.ndarray) -> np.ndarray:
        return np.array(1.0 - np.array([0.4, 0.45]) @ weights(y))

    found = minimize(
        lambda y: float(np.sum(weights(y) ** 2)),
        np.array([0.2, 0.2, 0.5, 0.5]),
        constraints=[
            {"type": "eq", "fun": lambda y: weights(y).sum(axis=1) - 1.0},
            {"type": "ineq", "fun": lambda y: (phis(y) - weights(y)).ravel()[[1, 2, 3, 4]]},
            {"type": "ineq", "fun": lambda y: y},
        ],
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert found.success
    assert rates / instance.arrival_rate[:, None] == pytest.approx(weights(found.x), abs=1e-6)
    assert free == pytest.approx(phis(found.x), abs=1e-6)


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_a_slack_type_is_served_as_little_as_pays(rate: float) -> None:
    """Price 0 and <=: what earns nothing is left undone, least squares says 0.

    At .1 the rest could be served by the worthless server, and is if it must be.
    """
    instance = loss_instance([[1.0, 0.0]], [rate], Geometric(4))
    prices = price(instance, AT_MOST)
    phi = 1 / (1 + rate * 4)
    assert prices.demand_price.tolist() == [0.0]
    assert prices.index[0, 1] == 0.0
    assert prices.tie_weight[0] == pytest.approx([phi, 0.0])
    if rate == 0.1:
        assert price(instance).tie_weight[0] == pytest.approx([phi, 1 - phi])


def test_signs_without_feasible_rates_raise() -> None:
    instance = loss_instance(np.ones((1, 2)), [0.5], Geometric(4))
    with pytest.raises(SolverError, match="least-squares"):
        least_squares_rates(instance, FULL, np.full((1, 2), -1.0), np.zeros(1, dtype=bool))


@pytest.mark.parametrize("demand", [FULL, Demand(0.2), AT_MOST])
def test_solving_twice_gives_the_same_bits(demand: Demand) -> None:
    instance = random_instance(np.random.default_rng(19), Shape(scores="levels"), load=0.5)
    first, second = price(instance, demand), price(instance, demand)
    for name in ("assignment_rate", "demand_price", "capacity_price", "index", "free_fraction"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
