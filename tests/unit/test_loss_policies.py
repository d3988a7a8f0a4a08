"""Each policy of the loss model against its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import OverloadError
from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, SAMPLE
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import Plan, loss_policy
from opportune.policies.loss.lag import Lag, tie_order
from opportune.policies.loss.whittle import whittle_index
from opportune.pricing.demand import AT_MOST, Demand
from opportune.pricing.kiid import kiid_weights
from opportune.pricing.occupancy import price
from tests import naive
from tests.instances import Shape, random_instance

SHAPES = [
    Shape(),
    Shape(scores="levels", duration="mixed"),
    Shape(per_type=True, forbidden=True, duration="mixed"),
]


def groups(plan: Plan, v: int) -> list[list[int]]:
    """Permitted servers of a type by level, each group sorted."""
    n = int(plan.tables.n_allowed[v])
    order, level = plan.tables.order[v, 0, :n].tolist(), plan.tables.level[v, 0, :n].tolist()
    return [
        sorted(r for r, one in zip(order, level, strict=True) if one == value)
        for value in sorted(set(level))
    ]


def by_value(instance: LossInstance, values: np.ndarray, v: int, digits: int) -> list[list[int]]:
    """Permitted servers by descending value, equal ones together."""
    permitted = np.flatnonzero(instance.allowed[v])
    rounded = np.round(values[v], digits)
    return [
        [int(r) for r in permitted if rounded[r] == value]
        for value in sorted(set(rounded[permitted].tolist()), reverse=True)
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_greedy_goes_by_match_reward_with_ties_at_random(shape: Shape) -> None:
    rng = np.random.default_rng(81)
    for _ in range(15):
        instance = random_instance(rng, shape)
        plan = loss_policy("greedy").plan(instance)
        for v in range(instance.n_types):
            assert groups(plan, v) == by_value(instance, instance.match_reward, v, 15)


def test_random_ties_all_permitted_servers() -> None:
    rng = np.random.default_rng(82)
    for shape in SHAPES:
        instance = random_instance(rng, shape)
        plan = loss_policy("random").plan(instance)
        for v in range(instance.n_types):
            assert groups(plan, v) == [np.flatnonzero(instance.allowed[v]).tolist()]


@pytest.mark.parametrize(("name", "aware"), [("whittle", False), ("whittle-load-aware", True)])
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_whittle_is_its_formula(name: str, aware: bool, shape: Shape) -> None:
    rng = np.random.default_rng(83)
    for _ in range(15):
        instance = random_instance(rng, shape)
        want = np.array(naive.whittle_index(instance, load_aware=aware))
        plan = loss_policy(name).plan(instance)
        allowed = instance.allowed
        assert plan.index[allowed] == pytest.approx(want[allowed], rel=1e-12, abs=1e-12)
        for v in range(instance.n_types):
            assert groups(plan, v) == by_value(instance, want, v, 11)


def test_whittle_by_hand() -> None:
    """Two types, p = (1/4, 3/4), E[D] = 4: W(0,0) = 1, W(1,0) = .5 - 4 * .25 * .5 = 0."""
    instance = loss_instance([[1.0, 0.0], [0.5, 0.8]], [0.05, 0.15], Geometric(4))
    index = loss_policy("whittle").plan(instance).index
    assert index[:, 0] == pytest.approx([1.0, 0.0])
    assert index[:, 1] == pytest.approx([0.0 - 4 * 0.75 * 0.8, 0.8])
    aware = loss_policy("whittle-load-aware").plan(instance).index
    assert aware[:, 1] == pytest.approx([0.0 - 4 * 0.15 * 0.8, 0.8])


@pytest.mark.parametrize("name", ["whittle", "whittle-load-aware"])
def test_whittle_says_where_it_is_a_heuristic(name: str) -> None:
    mixed = loss_instance(np.eye(2), [0.1, 0.1], [Geometric(3), Deterministic(4)])
    assert "heuristic" in loss_policy(name).plan(mixed).note
    alike = loss_instance(np.eye(2), [0.1, 0.1], [Geometric(4), Deterministic(4)])
    assert loss_policy(name).plan(alike).note == ""


def test_whittle_without_any_arrival() -> None:
    instance = loss_instance(np.eye(2), [0.0, 0.0], Geometric(3))
    assert whittle_index(instance, instance.arrival_rate).tolist() == np.eye(2).tolist()
    assert groups(loss_policy("whittle").plan(instance), 0) == [[0], [1]]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_lag_is_its_definition_at_its_prices(shape: Shape) -> None:
    """P by L, T by w, N by L, ties by pi, from the prices of another way to the twin."""
    rng = np.random.default_rng(84)
    for _ in range(15):
        instance = random_instance(rng, shape, load=0.9 * rng.random() + 0.05)
        prices = price(instance, AT_MOST if shape.forbidden else Demand(0.0))
        plan = loss_policy("lag").plan(instance, prices)
        assert plan.tables.rule == PRIORITY
        scale = instance.match_reward.max() or 1.0
        useful = np.round(instance.arrival_rate @ instance.match_reward, 12)
        pi = sorted(range(instance.n_servers), key=lambda r: (useful[r], r))
        for v in range(instance.n_types):
            index = [round(x / scale, 9) for x in prices.index[v].tolist()]
            weight = [round(x, 9) for x in prices.tie_weight[v].tolist()]
            n = int(plan.tables.n_allowed[v])
            want = [r for r in naive.lag_order(index, weight, pi) if instance.allowed[v, r]]
            assert plan.tables.order[v, 0, :n].tolist() == want


def test_lag_solves_for_itself_or_takes_the_prices_given() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    own = Lag().plan(instance)
    assert own.digest == Lag().plan(instance, price(instance)).digest
    other = replace(price(instance), index=-price(instance).index)
    assert Lag().plan(instance, other).digest != own.digest


def test_lag_keeps_specialists_for_their_own_type() -> None:
    """Specialist: routine calls go to the native specialist first, hard ones to a generalist."""
    plan = Lag().plan(catalog_instance("specialist-v1", 0.7))
    for v in range(5):
        assert plan.tables.order[v, 0, 0] == 2 + v
    assert set(plan.tables.order[5, 0, :2].tolist()) == {0, 1}


def test_lag_cheapest_breaks_equal_indices_by_the_capacity_price() -> None:
    rng = np.random.default_rng(85)
    for name in ("specialist-v1", "priority-v1", "unfriendly-v1"):
        instance = catalog_instance(name, float(rng.choice([0.2, 0.4, 0.7])))
        prices = price(instance)
        order = loss_policy("lag-cheapest").plan(instance, prices).tables.order[:, 0]
        scale, pi = instance.match_reward.max(), tie_order(instance)
        for v in range(instance.n_types):
            keys = [
                (
                    -round(prices.index[v, r] / scale, 9),
                    round(prices.capacity_price[r] / scale, 9),
                    pi[r],
                )
                for r in order[v]
            ]
            assert keys == sorted(keys)


@pytest.mark.parametrize("name", ["lag", "lag-cheapest"])
def test_without_prices_an_overload_is_told(name: str) -> None:
    instance = loss_instance(np.eye(2), [0.4, 0.4], Geometric(3))
    with pytest.raises(OverloadError, match="load"):
        loss_policy(name).plan(instance)
    assert loss_policy(name).plan(instance, price(instance, AT_MOST)).policy == name


@pytest.mark.parametrize(("name", "interior"), [("alg-sc-lp", True), ("alg-sc-lp-vertex", False)])
def test_sampling_by_kiid_with_greedy_behind(name: str, interior: bool) -> None:
    rng = np.random.default_rng(86)
    for shape in SHAPES:
        instance = random_instance(rng, shape, load=0.5)
        plan, greedy = loss_policy(name).plan(instance), loss_policy("greedy").plan(instance)
        weight, _ = kiid_weights(instance, interior)
        assert plan.tables.rule == SAMPLE
        assert np.array_equal(plan.tables.weight, weight)
        for v in range(instance.n_types):
            assert groups(plan, v) == groups(greedy, v)


def test_only_what_needs_it_is_at_random() -> None:
    rules = {
        "lag": PRIORITY,
        "lag-cheapest": PRIORITY,
        "greedy": PRIORITY_TIES,
        "random": PRIORITY_TIES,
        "alg-sc-lp": SAMPLE,
    }
    instance = catalog_instance("specialist-v1", 0.4)
    assert {name: loss_policy(name).plan(instance).tables.rule for name in rules} == rules
    smooth = random_instance(np.random.default_rng(87), Shape(types=3))
    assert loss_policy("greedy").plan(smooth).tables.rule == PRIORITY
