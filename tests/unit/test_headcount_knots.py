"""The bound from prices on a few headcounts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.pricing import headcount_knots
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.bounds import MODERATE, bounds_for
from opportune.pricing.demand import Demand
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.headcount_chain import headcount_chain
from opportune.pricing.headcount_knots import knot_bound
from opportune.pricing.headcount_newton import server_problem
from opportune.pricing.merged import arriving, merge
from opportune.pricing.occupancy import price


def test_derivatives_are_those_of_the_smoothed_dual() -> None:
    rng = np.random.default_rng(1)
    instance = catalog_instance("priority-v1", 0.5)
    merged, chain = arriving(merge(instance)), headcount_chain(instance)
    hats = headcount_knots._hats(chain, 4)
    search = headcount_knots._Search(
        merged, server_problem(merged, chain, 8.0), hats, np.zeros((2, len(chain.busy)))
    )
    price_at = rng.random((2, len(hats)))
    step = 1e-5 * rng.standard_normal(price_at.shape)

    def at(knots: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return headcount_knots._evaluate(search, knots, 0.05, derivatives=True)

    _, slope, curve = at(price_at)
    up, down = at(price_at + step), at(price_at - step)
    assert up[0] - down[0] == pytest.approx(2 * slope @ step.ravel(), rel=1e-6)
    np.testing.assert_allclose(up[1] - down[1], 2 * curve @ step.ravel(), rtol=1e-4, atol=1e-12)


def test_it_lies_between_the_program_and_the_occupancy_lp() -> None:
    rng = np.random.default_rng(2)
    for servers, k in ((40, 1), (60, 3)):
        instance = loss_instance(rng.random((6, servers)), [1e-3] * 6, Geometric(90), k)
        instance = instance.with_load(0.6)
        blocking = exact_blocking(instance)
        assert blocking is not None
        least = headcount_prices(instance).bound
        rough = knot_bound(instance)
        assert least * (1 - 1e-8) <= rough.bound <= least * 1.001
        assert rough.bound < price(instance, Demand(blocking)).dual_value
        assert rough.prices.shape == (6, servers // k)


def test_more_knots_give_a_tighter_bound() -> None:
    instance = catalog_instance("specialist-v1", 0.6)
    bounds = [knot_bound(instance, knots=n).bound for n in (1, 2, 6)]
    assert bounds[0] > bounds[1] > bounds[2] * (1 - 1e-6)


def test_refused_with_a_reason() -> None:
    with pytest.raises(InputError, match="not memoryless"):
        knot_bound(catalog_instance("lowrank-v1", 0.5))
    with pytest.raises(InputError, match="all zero"):
        knot_bound(loss_instance([[1.0, 2.0]], [0.0], Geometric(4)))


def test_all_bounds_of_an_instance_have_a_label() -> None:
    small = bounds_for(catalog_instance("specialist-v1", 0.6))
    assert [(one.name, one.label) for one in small] == [
        ("hc-lp", "proven"),
        ("hc-group-lp", "proven"),
        ("exact", "exact"),
    ]
    assert small[0].value > small[1].value > small[2].value
    assert all(0 <= one.gap < 1e-6 for one in small)
    assert small[2].note == "96 states"
    rng = np.random.default_rng(3)
    large = loss_instance(rng.random((3, 20)), [0.01] * 3, Geometric(20))
    (one,) = bounds_for(large, replace(MODERATE, states=100, work=1e5))
    assert (one.name, one.label) == ("hc-lp", "proven")
    assert "headcounts" in one.note
    assert bounds_for(catalog_instance("lowrank-v1", 0.5)) == ()
