"""What a comparison says: bound, percentages, intervals, paired differences, warnings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.comparison import Comparison, bound_at, compare
from opportune.experiments.metrics import half_width
from opportune.experiments.prices import blocking_of
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.certificate import dual_value
from opportune.pricing.demand import AT_MOST, Demand
from opportune.pricing.occupancy import price

SMALL = Settings(("lag", "greedy", "random"), 4_000, 4, seed=2)

MIXED = loss_instance(
    [[1.0, 0.5, 0.2], [0.1, 0.9, 0.4]], [0.1, 0.1], [Deterministic(6), Geometric(4)]
)
"""No exact B: durations differ."""


def forbidding(instance: LossInstance) -> LossInstance:
    """The same with one pair forbidden."""
    allowed = np.ones(instance.match_reward.shape, dtype=bool)
    allowed[0, 2] = False
    return replace(instance, allowed=allowed)


def check_rows(result: Comparison, bounds: np.ndarray) -> None:
    """Every number of every row from the runs themselves; ``bounds`` (n,) by replication."""
    runs, ids = result.runs, result.settings.policy_ids
    samples = 100 * runs.reward.sum(axis=2) / runs.steps / bounds[:, None]
    base = ids.index("lag") if "lag" in ids else 0
    for p, row in enumerate(result.policies):
        reward = runs.reward[:, p].sum() / runs.steps / len(samples)
        assert row.policy == ids[p]
        assert row.reward == pytest.approx(reward, rel=1e-12)
        assert row.percent_of_bound == pytest.approx(100 * reward / result.bound.value, rel=1e-12)
        assert row.half_width == pytest.approx(half_width(samples[:, p]), rel=1e-9)
        assert row.blocking == runs.blocked[:, p].sum() / runs.arrived[:, p].sum()
        tightest = min(one.value for one in result.bounds)
        left = 100 * (tightest - reward) / result.bound.value
        assert row.left_to_gain == pytest.approx(max(0.0, left))
        assert row.difference == pytest.approx(
            row.percent_of_bound - result.policies[base].percent_of_bound, abs=1e-12
        )
        paired = half_width(samples[:, p] - samples[:, base])
        assert row.difference_half_width == pytest.approx(paired, rel=1e-6, abs=1e-9)


def test_with_the_exact_blocking_the_bound_is_proven() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    result = compare(instance, SMALL)
    blocking = exact_blocking(instance)
    assert blocking is not None
    want = price(instance, Demand(blocking))
    bound = result.bound
    assert (bound.name, bound.label, bound.blocking) == ("occ-lp", "proven", blocking)
    assert bound.value == want.dual_value
    assert bound.gap == want.gap < 1e-9
    assert result.bounds[0] == bound
    assert [one.name for one in result.bounds[1:]] == ["hc-lp", "hc-group-lp", "exact"]
    assert sorted((one.value for one in result.bounds), reverse=True) == pytest.approx(
        [one.value for one in result.bounds]
    )
    assert result.priced_at == "zero"
    assert result.warnings == ()
    assert result.blocking.method == "exact"
    check_rows(result, np.full(4, bound.value))


def test_with_a_simulated_blocking_it_is_statistical_and_each_replication_has_its_own() -> None:
    """B_i of replication i prices the interval, the pooled B the center (``lag.md`` section 6)."""
    result = compare(MIXED, SMALL)
    runs = result.runs
    pooled = runs.blocked[:, 0].sum() / runs.arrived[:, 0].sum()
    assert result.blocking.method == "simulated"
    assert result.blocking.value == pytest.approx(pooled)
    assert (result.bound.name, result.bound.label) == ("occ-lp", "statistical")
    assert result.bound.blocking == pytest.approx(pooled)
    relaxation = price(MIXED, Demand(pooled))
    assert result.bound.value == pytest.approx(relaxation.dual_value, rel=1e-12)
    own = runs.blocked[:, 0].sum(axis=1) / runs.arrived[:, 0].sum(axis=1)
    assert len(set(own.tolist())) == 4
    bounds = [dual_value(MIXED, Demand(float(b)), relaxation.demand_price) for b in own]
    check_rows(result, np.array(bounds))


def test_k_per_type_has_blocking_per_type() -> None:
    instance = replace(MIXED, servers_per_task=np.array([1, 2]))
    result = compare(instance, SMALL)
    runs = result.runs
    by_type = runs.blocked[:, 0].sum(axis=0) / runs.arrived[:, 0].sum(axis=0)
    assert result.blocking.by_type == pytest.approx(tuple(by_type))
    relaxation = price(instance, Demand(tuple(by_type.tolist())))
    assert result.bound.value == pytest.approx(relaxation.dual_value, rel=1e-9)
    bounds = []
    for n in range(4):
        own = runs.blocked[n, 0] / runs.arrived[n, 0]
        bounds.append(dual_value(instance, Demand(tuple(own.tolist())), relaxation.demand_price))
    check_rows(result, np.array(bounds))


def test_with_forbidden_pairs_the_bound_needs_no_blocking() -> None:
    instance = forbidding(MIXED)
    result = compare(instance, SMALL)
    assert (result.bound.name, result.bound.label) == ("occ-lp-at-most", "proven")
    assert result.bound.blocking is None
    assert result.bound.value == price(instance, AT_MOST).dual_value
    check_rows(result, np.full(4, result.bound.value))


def test_one_replication_has_an_interval_over_its_batches() -> None:
    result = compare(MIXED, replace(SMALL, replications=1))
    batches = result.runs.reward[0]
    for p, row in enumerate(result.policies):
        percent = 100 * batches[p] / (4_000 / 20) / result.bound.value
        assert row.half_width == pytest.approx(half_width(percent), rel=1e-9)
        assert math.isfinite(row.half_width)
        paired = percent - 100 * batches[0] / (4_000 / 20) / result.bound.value
        assert row.difference_half_width == pytest.approx(half_width(paired), rel=1e-9, abs=1e-9)
    assert result.blocking.half_width == 0.0


def test_differences_are_to_lag_wherever_it_stands_else_to_the_first() -> None:
    last = compare(MIXED, replace(SMALL, policies=("random", "lag")))
    assert last.row("lag").difference == 0.0
    assert last.row("random").difference < 0.0
    without = compare(MIXED, replace(SMALL, policies=("random", "greedy")))
    assert without.row("random").difference == 0.0
    assert without.row("greedy").difference > 0.0
    assert without.row("random").difference_half_width == 0.0


def test_pairing_makes_the_interval_of_a_difference_smaller() -> None:
    result = compare(catalog_instance("lowrank-v1", 0.7), replace(SMALL, replications=8))
    row = result.row("greedy")
    apart = math.hypot(result.row("lag").half_width, row.half_width)
    assert row.difference_half_width < 0.6 * apart


def test_an_overload_is_warned_of_once_and_run_all_the_same() -> None:
    instance = loss_instance(np.eye(3), [0.3, 0.2, 0.3], Geometric(4))
    result = compare(instance, SMALL)
    assert result.priced_at == "blocking"
    assert len(result.warnings) == 1
    assert all(0 < row.percent_of_bound <= 100 + row.half_width for row in result.policies)
    assert result.row("greedy").blocking == pytest.approx(exact_blocking(instance), abs=0.03)
    on_purpose = compare(catalog_instance("priority-v1", 0.4), replace(SMALL, price_at="blocking"))
    assert on_purpose.priced_at == "blocking"


def test_with_as_many_servers_as_a_task_takes_all_policies_are_one() -> None:
    instance = loss_instance([[1.0, 0.5, 0.2]], [0.1], Geometric(12), 3)
    result = compare(instance, Settings(("lag", "greedy", "random"), 20_000, 3))
    assert len({row.reward for row in result.policies}) == 1
    assert result.bound.label == "proven"
    assert result.policies[0].percent_of_bound == pytest.approx(
        100, abs=2 * result.policies[0].half_width
    )


def test_where_there_is_no_reward_there_is_nothing_to_gain() -> None:
    result = compare(loss_instance(np.zeros((1, 2)), [0.1], Geometric(3)), SMALL)
    for row in result.policies:
        assert (row.reward, row.percent_of_bound, row.left_to_gain) == (0.0, 0.0, 0.0)
        assert math.isfinite(row.half_width)


def test_where_nothing_arrives_nothing_is_lost() -> None:
    result = compare(loss_instance(np.eye(2), [0.0, 0.0], Geometric(3)), SMALL)
    assert result.bound.value == 0.0
    assert [row.blocking for row in result.policies] == [0.0] * 3
    assert [row.percent_of_bound for row in result.policies] == [0.0] * 3


def test_the_notes_of_plans_are_in_their_rows() -> None:
    result = compare(MIXED, replace(SMALL, policies=("lag", "whittle")))
    assert result.row("lag").note == ""
    assert "heuristic" in result.row("whittle").note


def test_a_row_that_is_not_there() -> None:
    result = compare(MIXED, SMALL)
    with pytest.raises(InputError, match="one of the rows"):
        result.row("whittle")


def test_a_bound_at_a_known_blocking() -> None:
    instance = catalog_instance("specialist-v1", 0.4)
    blocking = blocking_of(instance)
    bound, relaxation = bound_at(instance, blocking)
    assert bound.value == relaxation.dual_value
    assert relaxation.demand == Demand(blocking.value)


def test_progress_is_told() -> None:
    seen: list[float] = []
    compare(MIXED, SMALL, lambda share, _: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
