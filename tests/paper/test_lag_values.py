"""Golden numbers of the LAG model that need no simulation: prices, optima, blocking.

Sources are given line by line; ``lag.md`` is our reading of arXiv 2610.19038, whose sections 4, 7
and 8 hold values that were computed independently of this code.
"""

from __future__ import annotations

import numpy as np
import pytest

from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic
from opportune.model.loss import loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.occupancy import price
from tests import textbook

OPTIMUM = [
    ("priority-v1", 0.1, 89.59),
    ("priority-v1", 0.2, 89.02),
    ("priority-v1", 0.3, 87.59),
    ("priority-v1", 0.4, 85.40),
    ("priority-v1", 0.5, 85.94),
    ("priority-v1", 0.7, 85.82),
    ("priority-v1", 0.8, 84.48),
    ("specialist-v1", 0.1, 98.58),
    ("specialist-v1", 0.2, 94.24),
    ("specialist-v1", 0.3, 88.89),
    ("specialist-v1", 0.4, 89.31),
    ("specialist-v1", 0.5, 88.53),
    ("specialist-v1", 0.7, 90.86),
    ("specialist-v1", 0.8, 92.73),
]
"""Exact optimum in percent of OCC-UB: ``lag.md`` section 7."""


@pytest.mark.parametrize(("name", "load", "percent"), OPTIMUM)
def test_the_exact_optimum_in_percent_of_the_bound(name: str, load: float, percent: float) -> None:
    """The optimum by value iteration, the bound by the program at the exact B."""
    instance = catalog_instance(name, load)
    blocking = exact_blocking(instance)
    assert blocking is not None
    bound = price(instance, Demand(blocking)).dual_value
    assert 100 * textbook.optimal_reward(instance) / bound == pytest.approx(percent, abs=0.005)


@pytest.mark.parametrize(
    ("policy", "name", "load", "percent"),
    [
        ("lag", "specialist-v1", 0.7, 90.6),  # Table 2
        ("lag", "priority-v1", 0.7, 85.6),  # Table 2
        ("lag", "priority-v1", 0.2, 80.7),  # lag.md section 8, least-squares weights
        ("lag-cheapest", "priority-v1", 0.2, 87.5),  # lag.md section 8
        ("lag", "specialist-v1", 0.1, 98.8),  # Table 3
        ("lag", "specialist-v1", 0.2, 94.5),  # Table 3
    ],
)
def test_exact_rewards_of_the_lists(policy: str, name: str, load: float, percent: float) -> None:
    """Without any noise: the chain on the sets of busy servers under the policy's list."""
    instance = catalog_instance(name, load)
    blocking = exact_blocking(instance)
    assert blocking is not None
    plan = loss_policy(policy).plan(instance)
    reward, own_blocking, _ = textbook.list_law(instance, plan)
    assert own_blocking == pytest.approx(blocking, abs=1e-9)
    bound = price(instance, Demand(blocking)).dual_value
    assert 100 * reward / bound == pytest.approx(percent, abs=0.35)


def test_one_type_two_servers() -> None:
    """``lag.md`` section 2: V=1, R=2, S=[[1,.5]], lam=.1, D=2, k=1."""
    prices = price(loss_instance([[1.0, 0.5]], [0.1], Deterministic(2)))
    assert prices.value == pytest.approx(0.0916667, abs=5e-8)
    assert prices.demand_price == pytest.approx([0.5], abs=1e-9)
    assert prices.capacity_price == pytest.approx([0.0416667, 0.0], abs=5e-8)


def test_negative_prices_of_specialist() -> None:
    """``lag.md`` section 2: l = -.6125 for all six types at load .7."""
    prices = price(catalog_instance("specialist-v1", 0.7))
    assert prices.demand_price == pytest.approx(np.full(6, -0.6125), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("specialist-v1", 0.104, 0.133), ("priority-v1", 0.104, 0.133)],
)
def test_blocking_at_load_08_is_in_the_published_range(name: str, low: float, high: float) -> None:
    """Section 5.3: "between 0.104 and 0.133 at n=1" on all instances but Low-rank."""
    value = exact_blocking(catalog_instance(name, 0.8))
    assert value is not None
    assert low - 0.0005 <= value <= high + 0.0005


@pytest.mark.parametrize(("name", "value"), [("specialist-v1", 0.1330), ("priority-v1", 0.1308)])
def test_exact_blocking(name: str, value: float) -> None:
    """``lag.md`` section 4."""
    assert exact_blocking(catalog_instance(name, 0.8)) == pytest.approx(value, abs=5e-5)
