"""Pricing again from old prices: the same result, whatever changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.model.duration import Deterministic
from opportune.model.loss import loss_instance
from opportune.policies.loss.lag import Lag
from opportune.pricing.demand import FULL
from opportune.pricing.gears import certified_prices
from opportune.pricing.occupancy import price
from opportune.pricing.warm import carried_prices, replan
from tests.unit.test_gears import large_instance


@pytest.mark.parametrize("kind", ["smooth", "rank one", "levels"])
def test_replanning_from_old_prices_is_pricing_again(kind: str) -> None:
    """Rates up to 5 % up or down: the same value, rates and bound; LAG's plan is the same."""
    rng = np.random.default_rng(44)
    before = price(large_instance(kind=kind))
    change = 1.0 + 0.05 * (2.0 * rng.random(60) - 1.0)
    after = replace(before.instance, arrival_rate=before.instance.arrival_rate * change)
    warm, cold = replan(before, after), price(after)
    assert warm.gap <= 1e-9
    assert warm.residuals.worst <= 1e-9
    assert warm.value == pytest.approx(cold.value, rel=1e-11)
    assert warm.assignment_rate == pytest.approx(cold.assignment_rate, abs=1e-11)
    if kind == "smooth":  # prices are unique
        assert warm.demand_price == pytest.approx(cold.demand_price, abs=1e-9)
        plans = [Lag().plan(after, prices).tables.order for prices in (warm, cold)]
        assert np.array_equal(*plans)


def test_replanning_after_types_and_servers_changed() -> None:
    """One type less, two more, servers gone and new, other rewards, k and durations."""
    rng = np.random.default_rng(45)
    before = price(large_instance())
    old = before.instance
    keep_types, keep_servers = np.arange(1, 60), np.arange(5, 150)
    reward = rng.random((61, 155))
    reward[:59, :145] = old.match_reward[np.ix_(keep_types, keep_servers)]
    names = [old.task_types[v] for v in keep_types] + ["new-1", "new-2"]
    servers = [old.servers[r] for r in keep_servers] + [f"more-{i}" for i in range(10)]
    after = loss_instance(
        reward,
        np.append(old.arrival_rate[1:], [3e-4, 1e-9]),
        [Deterministic(140)] * 61,
        [2] * 60 + [1],
        task_types=names,
        servers=servers,
    )
    start = carried_prices(before, after, FULL)
    assert start[:59].tolist() == before.demand_price[1:].tolist()
    assert np.all(np.isfinite(start))
    warm, cold = replan(before, after), price(after)
    assert warm.gap <= 1e-9
    assert warm.demand_price == pytest.approx(cold.demand_price, abs=1e-9)
    assert abs(start[59] - cold.demand_price[59]) < 0.1


def test_a_warm_start_with_nonsense_ends_at_the_same_place() -> None:
    instance = large_instance()
    cold = certified_prices(instance)
    for start in (np.full(60, 50.0), np.full(60, np.nan), np.linspace(-9.0, 9.0, 60)):
        found = certified_prices(instance, start=start)
        assert found.gap <= 1e-9
        assert found.demand_price == pytest.approx(cold.demand_price, abs=1e-9)
