"""The policies headcount, headcount-group, optimal and auto: applicability, notes, ties."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.prices import choose_prices
from opportune.kernels.group import GroupTables, StateTables
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import loss_instance
from opportune.policies.base import loss_policy
from opportune.policies.levels import headcount_list, tie_levels
from opportune.policies.loss.headcount import Headcount
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.evaluation import exact_value
from opportune.pricing.exact import optimum
from opportune.pricing.occupancy import price
from opportune.simulate.loss import Run, simulate_plans

CENTER = {0.1: 88.62, 0.2: 88.32, 0.3: 87.21, 0.4: 85.40, 0.7: 85.82, 0.8: 84.48}
"""Priority: the headcount index, percent of OCC-LP(B) (headcount.md, HC center index)."""

ALLOWED = [[True, True, False], [True, True, True]]


def test_priority_by_headcount() -> None:
    for load, percent in CENTER.items():
        instance = catalog_instance("priority-v1", load)
        blocking = exact_blocking(instance)
        assert blocking is not None
        reference = price(instance, Demand(blocking)).dual_value
        tables = loss_policy("headcount").plan(instance).tables
        assert tables.order.shape == (2, 9, 8)
        value = 100 * exact_value(instance, tables).value / reference
        assert value == pytest.approx(percent, abs=0.0051)


def test_near_ties_are_ties_and_are_not_resolved_by_number() -> None:
    index = np.array([[[0.5, 0.2], [0.5 + 4e-7, 0.2 + 3e-6], [0.1, 0.2]]])  # (1, 3, 2)
    first = headcount_list(index, np.array([0, 1, 2]), 1.0).order
    second = headcount_list(index, np.array([2, 1, 0]), 1.0).order
    assert first[0].tolist() == [[0, 1, 2], [1, 0, 2], [1, 0, 2]]
    assert second[0].tolist() == [[1, 0, 2], [1, 2, 0], [1, 2, 0]]
    levels = tie_levels(np.array([1.0, -np.inf, 1.0 - 1e-7, -np.inf]), 1.0)
    assert levels.tolist() == [0, 1, 0, 1]


def test_the_tie_of_priority_at_load_3_costs_six_points_the_wrong_way() -> None:
    instance = catalog_instance("priority-v1", 0.3)
    chosen = exact_value(instance, loss_policy("headcount").plan(instance).tables).value
    order = loss_policy("headcount").plan(instance).tables.order
    assert set(order[0, 1, :6].tolist()) == set(range(2, 8))  # six handlers before the two
    wrong = order.copy()
    wrong[0, 1] = np.roll(order[0, 1], 2)
    tables = loss_policy("headcount").plan(instance).tables._replace(order=wrong)
    assert exact_value(instance, tables).value < 0.95 * chosen


def test_each_says_why_it_cannot_be_used() -> None:
    rng = np.random.default_rng(1)
    forbidden = loss_instance(rng.random((2, 3)), [0.1, 0.1], Geometric(4), allowed=ALLOWED)
    timed = loss_instance(rng.random((2, 3)), [0.1, 0.1], Deterministic(4))
    pairs = loss_instance(rng.random((2, 4)), [0.1, 0.1], Geometric(4), 2)
    for policy, instance, reason in (
        ("headcount", forbidden, "forbidden pairs"),
        ("headcount-group", forbidden, "forbidden pairs"),
        ("headcount-group", timed, "no two servers are equal"),
        ("headcount-group", pairs, "a task takes 2 servers"),
        ("optimal", timed, "not memoryless"),
    ):
        with pytest.raises(InputError, match=reason) as error:
            loss_policy(policy).plan(instance)
        assert {problem.field for problem in error.value.problems} == {"policy"}
        assert policy in str(error.value)


def test_auto_names_its_choice() -> None:
    rng = np.random.default_rng(2)
    small = catalog_instance("priority-v1", 0.5)
    plan = loss_policy("auto").plan(small)
    assert plan.note == "optimal: exact, 21 states"
    assert isinstance(plan.counts, StateTables)
    value = exact_value(small, plan.counts).value
    assert value == pytest.approx(optimum(small).value, rel=1e-10)

    grouped = loss_instance(
        np.repeat(rng.random((3, 6)), 6, axis=1), [0.05] * 3, Geometric(60)
    ).with_load(0.6)
    plan = loss_policy("auto").plan(grouped)
    assert isinstance(plan.counts, GroupTables)
    assert plan.note.startswith("headcount-group: equal servers")

    different = loss_instance(rng.random((3, 30)), [0.05] * 3, Geometric(60)).with_load(0.6)
    plan = loss_policy("auto").plan(different)
    assert plan.counts is None
    assert plan.note.startswith("headcount: a moderate LP")

    timed = catalog_instance("unfriendly-v1", 0.5)
    note = loss_policy("auto").plan(timed).note
    assert "surrogate: priced as if durations were memoryless with mean 43" in note

    closed = loss_instance(rng.random((2, 3)), [0.1, 0.1], Deterministic(4), allowed=ALLOWED)
    assert loss_policy("auto").plan(closed).note == "lag: forbidden pairs"


def test_a_surrogate_index_is_halfway_to_lag() -> None:
    instance = catalog_instance("lowrank-v1", 0.6)
    prices, _ = choose_prices(instance)
    lag = loss_policy("lag").plan(instance, prices)
    half = Headcount().plan(instance, prices)
    alone, static = Headcount(share=1.0), Headcount(share=0.0)
    np.testing.assert_allclose(
        2 * half.index, alone.plan(instance, prices).index + lag.index, atol=1e-9
    )
    assert "index 0.5 LAG + 0.5 headcount" in half.note
    order = static.plan(instance, prices).tables.order
    assert np.all(order == order[:, :1])  # the headcount does not matter


@pytest.mark.parametrize("load", [0.4, 0.7])
def test_auto_is_not_below_lag_where_durations_are_fixed(load: float) -> None:
    """Low-rank, where the surrogate alone loses: paired over five runs."""
    instance = catalog_instance("lowrank-v1", load)
    prices, _ = choose_prices(instance)
    plans = [loss_policy(one).plan(instance, prices) for one in ("lag", "auto")]
    gain = []
    for i in range(5):
        runs = simulate_plans(instance, plans, Run(150_000, 2_000, seed=4, replication=i))
        gain.append(runs[1].reward.sum() / runs[0].reward.sum() - 1)
    assert np.mean(gain) > 0.0005
    assert np.mean(gain) > 3 * np.std(gain, ddof=1) / np.sqrt(5)


def test_without_prices_under_overload_the_headcount_stands_alone() -> None:
    instance = catalog_instance("unfriendly-v1", 1.2)
    plan = loss_policy("headcount").plan(instance)
    assert plan.note.endswith("with mean 43")
