"""Whether every task can be served, how far the load may grow, and what is told if not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import OverloadError
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing.demand import AT_MOST, Demand
from opportune.pricing.feasibility import feasibility, max_load
from opportune.pricing.limit import limit_prices
from opportune.pricing.occupancy import price
from tests import textbook
from tests.instances import Shape, random_instance

SHAPES = [Shape(), Shape(per_type=True), Shape(forbidden=True), Shape(forbidden=True, k=1)]


def at(instance: LossInstance, factor: float) -> LossInstance:
    """All rates times a factor."""
    return replace(instance, arrival_rate=instance.arrival_rate * factor)


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_the_limit_is_where_the_textbook_program_stops(shape: Shape) -> None:
    rng = np.random.default_rng(11)
    tried = 0
    for _ in range(25):
        instance = random_instance(rng, shape)
        limit = max_load(instance)
        factor = limit / instance.load
        if limit == 0.0 or factor * instance.arrival_rate.sum() > 0.99:
            continue
        tried += 1
        below, above = at(instance, factor * (1 - 1e-6)), at(instance, factor * (1 + 1e-5))
        assert textbook.occupancy(below).status == 0
        assert textbook.occupancy(above).status == 2
        assert feasibility(below).feasible
        assert not feasibility(below).at_limit
        assert feasibility(at(instance, factor)).at_limit
        seen = feasibility(above)
        assert not seen.feasible
        assert seen.max_load == pytest.approx(limit, rel=1e-9)
        with pytest.raises(OverloadError) as caught:
            price(above)
        assert caught.value.max_load == pytest.approx(limit, rel=1e-9)
        assert caught.value.problems == seen.problems
    assert tried > 10


def test_without_forbidden_pairs_the_limit_is_arithmetic() -> None:
    one = loss_instance(np.ones((2, 10)), [0.01, 0.02], [Geometric(3), Geometric(9)], [2, 3])
    assert max_load(one) == pytest.approx(0.7)
    assert max_load(replace(one, arrival_rate=np.array([0.01, 0.0]))) == pytest.approx(0.8)
    assert max_load(replace(one, arrival_rate=np.zeros(2))) == pytest.approx(0.7)
    assert feasibility(replace(one, arrival_rate=np.zeros(2))).feasible


def test_the_message_of_a_type_that_falls_short() -> None:
    """The sentence of ``lag.md`` section 2, word for word."""
    instance = loss_instance(
        np.ones((2, 5)),
        [0.5, 0.01],
        Deterministic(5),
        allowed=[[True, True, True, False, False], [True] * 5],
        task_types=["A", "B"],
    )
    with pytest.raises(OverloadError) as caught:
        price(instance)
    assert str(caught.value) == (
        "type A needs 0.5 assignments per step, its 3 permitted servers can give at most 0.4286: "
        "largest feasible rate of A: 0.4, or permit 1 more server"
    )
    assert [problem.field for problem in caught.value.problems] == ["type A"]


def test_what_the_message_promises_is_true() -> None:
    """At the largest feasible rate a type alone is served, and with the servers it asks for."""
    rng = np.random.default_rng(12)
    for _ in range(40):
        k, permitted = int(rng.integers(1, 4)), int(rng.integers(2, 6))
        mean = float(rng.integers(1, 9))
        allowed = np.zeros((1, 30), dtype=bool)
        allowed[0, :permitted] = True
        if permitted <= k:
            continue
        instance = loss_instance(np.ones((1, 30)), [0.9], Geometric(mean), k, allowed=allowed)
        most = (permitted / k - 1.0) / mean
        if feasibility(instance).feasible:
            assert most >= 0.9
            continue
        (problem,) = feasibility(instance).problems
        rate, more = float(problem.remedy.split()[5].strip(",")), problem.remedy.split()[8]
        assert rate == pytest.approx(most, rel=1e-3)
        assert feasibility(replace(instance, arrival_rate=np.array([most]))).feasible
        wider = np.zeros((1, 30), dtype=bool)
        wider[0, : permitted + int(more)] = True
        assert feasibility(replace(instance, allowed=wider)).feasible
        wider[0, permitted + int(more) - 1] = False
        assert not feasibility(replace(instance, allowed=wider)).feasible


def test_types_that_fall_short_only_together_are_all_told() -> None:
    """Either type alone fits on the two servers that both may use, not both at once."""
    instance = loss_instance(
        np.ones((3, 5)),
        [0.12, 0.12, 0.01],
        Deterministic(5),
        allowed=[[True, True, False, False, False]] * 2 + [[True] * 5],
        task_types=["A", "B", "C"],
    )
    with pytest.raises(OverloadError) as caught:
        price(instance)
    (problem,) = caught.value.problems
    assert problem.field == "allowed"
    assert "needs 0.12 assignments per step and can get" in problem.value
    assert "type A" in problem.value or "type B" in problem.value
    assert "type C" not in problem.value
    assert f"largest feasible load {caught.value.max_load:.6g}" in problem.remedy
    percent = float(problem.remedy.split("by ")[1].split(" %")[0])
    assert feasibility(at(instance, 1 - percent / 100)).feasible
    assert not feasibility(at(instance, 1 - percent / 100 + 0.0011)).feasible


def test_the_message_of_a_load_that_is_too_high() -> None:
    """The example of the conventions: load 0.93 with R=30 and k=3."""
    instance = loss_instance(np.ones((1, 30)), [0.1], Geometric(10), 3).with_load(0.93)
    with pytest.raises(OverloadError) as caught:
        price(instance)
    assert str(caught.value) == (
        "load 0.93 is above 1 - k/R = 0.90 (R=30, k=3): "
        "lower the arrival rate by 3.3 % (rounded up), or add 1 server"
    )


@pytest.mark.parametrize(("servers", "k"), [(30, 3), (7, 1), (5, 2)])
@pytest.mark.parametrize("load", [0.96, 1.3, 2.0])
def test_the_remedies_of_a_load_are_enough(servers: int, k: int, load: float) -> None:
    """After lowering by the percentage, or adding the servers, every task can be served."""
    one = loss_instance(np.ones((1, servers)), [0.01], Geometric(200), k)
    instance = replace(one, arrival_rate=one.arrival_rate * (load / one.load))
    (problem,) = feasibility(instance).problems
    percent = float(problem.remedy.split("by ")[1].split(" %")[0])
    more = int(problem.remedy.split("add ")[1].split()[0])
    assert feasibility(at(instance, 1 - percent / 100)).feasible
    assert not feasibility(at(instance, 1 - percent / 100 + 0.0011)).feasible
    for extra, enough in ((more, True), (more - 1, False)):
        bigger = loss_instance(
            np.ones((1, servers + extra)), instance.arrival_rate, Geometric(200), k
        )
        assert feasibility(bigger).feasible == enough


def test_at_most_is_always_feasible() -> None:
    rng = np.random.default_rng(13)
    for _ in range(20):
        instance = random_instance(rng, Shape(forbidden=True, per_type=True))
        instance = at(instance, 0.99 / instance.arrival_rate.sum())
        prices = price(instance, AT_MOST)
        assert prices.gap < 1e-9
        assert np.all(prices.demand_price >= 0)


# ------------------------------------------------------------------ the last feasible load


@pytest.mark.parametrize("per_type", [False, True])
def test_the_largest_prices_at_the_last_feasible_load(per_type: bool) -> None:
    """Closed form: optimal, the limit from below, and nothing larger is optimal."""
    rng = np.random.default_rng(14)
    for _ in range(15):
        k = int(rng.integers(1, 4))
        means = [Geometric(float(m)) for m in rng.integers(20, 120, 3)]
        instance = loss_instance(
            rng.random((3, 8)),
            rng.random(3) / 30,
            means if per_type else means[0],
            k,
        ).with_load(1 - k / 8)
        prices = price(instance)
        assert prices.solver == "arithmetic"
        assert any("last feasible" in notice for notice in prices.notices)
        assert prices.gap < 1e-12
        assert prices.residuals.worst < 1e-12
        assert np.all(prices.index >= -1e-12)
        assert prices.free_fraction == pytest.approx(np.full(8, k / 8))
        value = -textbook.occupancy(at(instance, 1 - 1e-9)).fun
        assert prices.value == pytest.approx(value, rel=1e-6)
        below = price(at(instance, 1 - 1e-5))
        weight = instance.arrival_rate * k
        gain = weight @ (prices.demand_price - below.demand_price)
        assert gain == pytest.approx(0.0, abs=1e-3 * weight.sum())


def test_no_larger_price_is_optimal_at_the_limit() -> None:
    """Raising the prices along any direction that keeps L >= 0 lowers nothing: m is maximal."""
    rng = np.random.default_rng(15)
    for _ in range(20):
        instance = loss_instance(rng.random((4, 6)), rng.random(4) / 40, Geometric(9), 2)
        instance = instance.with_load(1 - 2 / 6)
        largest, _, _ = limit_prices(instance)
        value = price(instance).value
        rate = instance.arrival_rate
        own = float(rate @ largest)
        _, high = textbook.price_range(instance, value, rate)
        assert own == pytest.approx(high, rel=1e-5, abs=1e-6)


def test_within_the_tolerance_the_limit_counts_as_reached() -> None:
    one = loss_instance(np.ones((1, 30)), [0.1], Geometric(10), 3)
    for excess, feasible in ((0.0, True), (5e-9, True), (1e-7, False)):
        assert feasibility(one.with_load(0.9 * (1 + excess))).feasible == feasible
    assert feasibility(one.with_load(0.9 * (1 - 1e-7))).at_limit is False


def test_a_demand_at_blocking_one_serves_nobody() -> None:
    prices = price(loss_instance(np.ones((1, 3)), [0.5], Geometric(10)), Demand(1.0))
    assert prices.value == pytest.approx(0.0, abs=1e-12)
    assert prices.free_fraction == pytest.approx(np.ones(3))
