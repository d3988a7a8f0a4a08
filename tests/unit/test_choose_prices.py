"""Which prices a run goes by: at zero blocking, at blocking, at most; R = k; overload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import OverloadError
from opportune.experiments import prices as prices_module
from opportune.experiments.prices import (
    Blocking,
    blocking_of,
    choose_prices,
    demand_at,
    simulated_blocking,
)
from opportune.experiments.runs import run_replications
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import list_plan
from opportune.pricing.blocking import erlang_b, exact_blocking
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.occupancy import price
from tests import textbook

OVERLOADED = loss_instance([[1.0, 0.2, 0.1, 0.5], [0.3, 0.9, 0.8, 0.1]], [0.25, 0.25], Geometric(9))
"""Load 1.125 on 4 servers."""


def forbidding(instance: LossInstance) -> LossInstance:
    """The same with one pair forbidden."""
    allowed = np.ones(instance.match_reward.shape, dtype=bool)
    allowed[0, 1] = False
    return replace(instance, allowed=allowed)


def test_below_the_limit_prices_are_those_of_the_fluid_limit() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    prices, warnings = choose_prices(instance)
    assert (prices.priced_at, prices.demand, warnings) == ("zero", FULL, ())
    assert np.array_equal(prices.demand_price, price(instance).demand_price)
    forbidden, _ = choose_prices(forbidding(instance))
    assert forbidden.priced_at == "zero"


def test_under_overload_prices_come_from_the_exact_blocking() -> None:
    prices, warnings = choose_prices(OVERLOADED)
    blocking = exact_blocking(OVERLOADED)
    assert blocking is not None
    assert prices.demand == Demand(blocking)
    assert prices.priced_at == "blocking"
    assert prices.value == pytest.approx(-textbook.occupancy(OVERLOADED, blocking).fun, rel=1e-8)
    (warning,) = warnings
    assert "overload: load 1.125 is above 1 - k/R = 0.75 (R=4, k=1)" in warning
    assert f"B = {blocking:.4g} exact" in warning


def test_under_overload_a_pilot_gives_the_blocking_where_no_chain_does() -> None:
    instance = replace(OVERLOADED, duration=(Deterministic(9), Geometric(9.0)))
    prices, warnings = choose_prices(instance)
    pilot = blocking_of(instance)
    assert pilot.method == "simulated"
    assert 0.0 < pilot.half_width < 0.02
    assert prices.priced_at == "blocking"
    assert prices.demand == demand_at(instance, pilot)
    assert "simulated" in warnings[0]


def test_under_overload_with_forbidden_pairs_prices_are_at_most() -> None:
    prices, warnings = choose_prices(forbidding(OVERLOADED))
    assert prices.priced_at == "at-most"
    assert prices.demand == AT_MOST
    assert "prices come from OCC-LP(<=)" in warnings[0]


def test_strict_stops_at_an_overload() -> None:
    for instance in (OVERLOADED, forbidding(OVERLOADED)):
        with pytest.raises(OverloadError):
            choose_prices(instance, strict=True)
        prices, _ = choose_prices(instance, price_at="blocking", strict=True)
        assert prices.priced_at in ("blocking", "at-most")


@pytest.mark.parametrize("load", [0.3, 1.0, 2.5])
def test_with_as_many_servers_as_a_task_takes_there_is_nothing_to_choose(load: float) -> None:
    """R = k: the limit is 0, yet ``plan`` prices at B without an error (``lag.md`` section 2)."""
    instance = loss_instance([[1.0, 0.5, 0.2]], [0.1], Geometric(12), 3).with_load(load)
    prices, warnings = choose_prices(instance, strict=True)
    blocking = exact_blocking(instance)
    assert blocking is not None
    assert prices.demand == Demand(blocking)
    assert prices.gap < 1e-9
    assert prices.value == pytest.approx(instance.arrival_rate[0] * (1 - blocking) * 1.7, rel=1e-9)
    assert "= 0.00 (R=3, k=3)" in warnings[0]
    assert "lower the arrival rate" not in warnings[0]


def test_with_as_many_servers_as_the_largest_task_takes() -> None:
    mixed = loss_instance(np.ones((2, 3)), [0.1, 0.1], Geometric(5), [3, 1])
    assert choose_prices(mixed, strict=True)[0].priced_at == "blocking"
    forbidden = loss_instance(
        np.ones((2, 3)), [0.1, 0.1], Geometric(5), [2, 1], allowed=[[1, 1, 0], [1, 1, 1]]
    )
    with pytest.raises(OverloadError):
        choose_prices(forbidden, strict=True)
    partly = replace(mixed, allowed=np.array([[True, True, True], [True, False, True]]))
    with pytest.raises(OverloadError):
        choose_prices(partly, strict=True)
    assert choose_prices(partly)[0].priced_at == "at-most"


def test_on_purpose_prices_are_at_blocking_at_any_load() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    prices, warnings = choose_prices(instance, price_at="blocking")
    blocking = exact_blocking(instance)
    assert blocking is not None
    assert prices.demand == Demand(blocking)
    assert warnings == (
        f"priced at blocking as asked; prices come from OCC-LP(B) with B = {blocking:.4g} exact",
    )
    forbidden, _ = choose_prices(forbidding(instance), price_at="blocking")
    assert forbidden.priced_at == "at-most"


def test_notices_of_the_prices_are_passed_on() -> None:
    instance = loss_instance(np.ones((2, 3)), [0.0, 0.1], Geometric(5), task_types=["a", "b"])
    assert choose_prices(instance)[1] == ("arrival rate 0, left out of the LP: a",)
    _, warnings = choose_prices(instance, price_at="blocking")
    assert warnings[1:] == ("arrival rate 0, left out of the LP: a",)


def test_the_seed_is_that_of_the_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = replace(OVERLOADED, duration=(Deterministic(9), Geometric(9.0)))
    monkeypatch.setattr(prices_module, "PILOT", Settings(("random",), 2_000, 2))
    values = [choose_prices(instance, seed=seed)[0].demand.blocking for seed in (1, 1, 0)]
    assert values[0] == values[1] != values[2]


# --------------------------------------------------------------------- blocking as a value


def test_exact_blocking_has_no_interval() -> None:
    instance = catalog_instance("specialist-v1", 0.8)
    got = blocking_of(instance)
    assert got.method == "exact"
    assert got.half_width == 0.0
    assert got.value == exact_blocking(instance)
    assert got.by_type == (got.value,) * 6
    assert got.erlang_b == erlang_b(instance)


def test_simulated_blocking_is_pooled_over_replications() -> None:
    instance = loss_instance(np.ones((2, 3)), [0.2, 0.3], Deterministic(5))
    plan = list_plan("x", instance, instance.match_reward)
    runs = run_replications(instance, [plan, plan], Settings(("lag", "greedy"), 2_000, 4))
    got = simulated_blocking(instance, runs, plan=1)
    arrived, blocked = runs.arrived[:, 1].sum(), runs.blocked[:, 1].sum()
    assert got.value == blocked / arrived
    assert got.by_type == (got.value,) * 2  # Lemma 3.1: one B for all types
    assert got.half_width > 0


@pytest.mark.parametrize("kind", ["k per type", "forbidden"])
def test_where_types_differ_blocking_is_by_type(kind: str) -> None:
    allowed = [[True, True, kind != "forbidden"], [True, True, True]]
    k = [1, 2] if kind == "k per type" else [2, 2]
    instance = loss_instance(np.ones((2, 3)), [0.2, 0.3], Deterministic(5), k, allowed=allowed)
    plan = list_plan("x", instance, instance.match_reward)
    runs = run_replications(instance, [plan], Settings(("lag",), 2_000, 4))
    got = simulated_blocking(instance, runs)
    want = runs.blocked[:, 0].sum(axis=0) / runs.arrived[:, 0].sum(axis=0)
    assert got.by_type == pytest.approx(tuple(want))
    assert got.by_type[0] != got.by_type[1]


def test_the_pilot_follows_the_plan_it_is_given() -> None:
    """With forbidden pairs B depends on the policy: type 0 may use server 0 only."""
    instance = loss_instance(
        np.ones((2, 2)), [0.1, 0.2], Geometric(5), allowed=[[True, False], [True, True]]
    )
    wasteful, careful = (
        list_plan("x", instance, [[1.0, 0.0], row], np.arange(2)) for row in ([1, 0], [0, 1])
    )
    first, second = (blocking_of(instance, plan) for plan in (wasteful, careful))
    assert first.by_type[0] > second.by_type[0] + 0.1
    both = run_replications(instance, [wasteful, careful], Settings(("lag", "greedy"), 20_000, 3))
    for p, alone in enumerate((first, second)):
        got = simulated_blocking(instance, both, plan=p)
        assert got.by_type == pytest.approx(alone.by_type, abs=0.03)
        assert got.value == pytest.approx(alone.value, abs=0.03)


# ------------------------------------------------------------------ the demand of a bound


def simulated(value: float, by_type: tuple[float, ...]) -> Blocking:
    """A blocking as a run would give it."""
    return Blocking(value, "simulated", 0.01, None, by_type)


def test_a_simulated_blocking_too_small_to_be_true_is_raised() -> None:
    """By chance a run drops less than must be dropped in the long run: least feasible B."""
    instance = loss_instance(np.ones((2, 4)), [0.2, 0.3], Deterministic(9))
    demand = demand_at(instance, simulated(0.1, (0.1, 0.1)))
    least = 1 - 4 / (1 + 4.5)
    assert demand.blocking == pytest.approx(least)
    assert textbook.occupancy(instance, least + 1e-9).status == 0
    assert textbook.occupancy(instance, least - 1e-4).status == 2
    assert price(instance, demand).gap < 1e-9
    assert demand_at(instance, simulated(0.5, (0.5, 0.5))) == Demand(0.5)


def test_the_same_by_type_where_k_differs() -> None:
    instance = loss_instance(np.ones((2, 4)), [0.2, 0.3], Deterministic(9), [1, 2])
    demand = demand_at(instance, simulated(0.2, (0.1, 0.3)))
    b = np.array(demand.blocking)
    assert b[0] < b[1]
    assert (1 - b[0]) / (1 - b[1]) == pytest.approx(0.9 / 0.7)
    assert price(instance, demand).gap < 1e-9
    assert textbook.occupancy(instance, b + 1e-9).status == 0
    assert textbook.occupancy(instance, b - 1e-4).status == 2
    enough = demand_at(instance, simulated(0.8, (0.75, 0.85)))
    assert enough.blocking == pytest.approx((0.75, 0.85))
    nobody = demand_at(instance, simulated(1.0, (1.0, 1.0)))  # a short run can drop every task
    assert nobody.blocking == (1.0, 1.0)
    assert price(instance, nobody).value == pytest.approx(0.0, abs=1e-12)


def test_with_forbidden_pairs_the_bound_needs_no_blocking() -> None:
    assert demand_at(forbidding(OVERLOADED), simulated(0.2, (0.2, 0.2))) == AT_MOST
