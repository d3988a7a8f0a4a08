"""Faults seen in other people's learning tools, as inputs here (section D of the cases).

Each test names the report it comes from. Where the estimator alone is concerned, its own tests
have the rest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.queue import QueueSettings, compare_queue
from opportune.model.contexts import ContextPool
from opportune.model.queue import QueueInstance
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_pool import PoolOptions, queue_from_data
from opportune.model.queue_streams import Feedback, queue_streams
from opportune.policies.base import queue_policies_by_id, queue_policy
from opportune.simulate.queue import queue_path

LEARNERS = ("optimistic", "greedy-decay", "cqb-eta-2", "cqb-eps", "acqb-ts", "q-ucb", "q-ths")


def alike(rates: list[float], arrival_rate: float = 0.4, **more: Any) -> QueueInstance:
    """Servers of these rates for every task: one context, an intercept alone."""
    weight = [[math.log(rate / (1 - rate))] for rate in rates]
    options = PoolOptions(arrival_rate=arrival_rate, standardize=False, intercept=False, **more)
    return queue_from_data([[1.0]], weight=weight, options=options)


@pytest.mark.parametrize("policy", ["optimistic", "cqb-opt", "q-ths"])
def test_equal_servers_share_the_work_before_any_feedback(policy: str) -> None:
    """mabwiser 96: all arms tied and the first always won, for a thousand late rounds."""
    world = alike([0.6] * 5)
    counts = np.zeros(5)
    for replication in range(10):
        streams = queue_streams(world, 1000, 1, replication, feedback=Feedback(delay=1_000_000))
        late = streams._replace(delay=np.full(1000, 1000, dtype=np.int32))
        server = queue_path(late, queue_policy(policy).plan(world, 1000)).pair[1:, 0, 1]
        counts += np.bincount(server[server >= 0], minlength=5)
    expected = counts.sum() / 5
    assert float(((counts - expected) ** 2 / expected).sum()) < 30  # chi-square, 4 degrees, 5e-6


@pytest.mark.parametrize("policy", ["optimistic", "greedy-decay", "cqb-opt"])
def test_without_features_the_better_server_is_learned(policy: str) -> None:
    """vowpal_wabbit 1436: contexts without features, and the first was always predicted."""
    options = PoolOptions(arrival_rate=0.4)
    outcomes = np.zeros((100, 2), dtype=int)
    outcomes[:20, 0], outcomes[20:, 1] = 1, 1  # success 0.2 and 0.8, all contexts zero
    world = queue_from_data(
        np.zeros((100, 3)), outcomes, options=replace(options, feedback="fitted")
    )
    assert world.replicate(1, 0).norm_bound < 3
    policies: Any = queue_policy(policy)
    plan = policies.plan(world, 2000)
    late = []
    for replication in range(5):
        log = queue_path(queue_streams(world, 2000, 2, replication), plan)
        server = log.pair[500:, 0, 1]
        late.append((server[server >= 0] == 1).mean())
    assert np.mean(late) >= 0.9


@pytest.mark.parametrize("policy", LEARNERS)
def test_failure_alone_ends_well_and_the_growth_is_told(policy: str) -> None:
    """contextualbandits 7: all-failure feedback stopped the sampler."""
    world = alike([1e-9, 1e-9], arrival_rate=0.3)
    result = compare_queue(world, QueueSettings((policy,), horizon=500, replications=4))
    row = result.row(policy)
    assert row.final_queue == pytest.approx(150, abs=40)
    assert math.isfinite(row.mean_queue)
    assert any("grows without end" in text for text in result.warnings)
    assert any(f"the queue of {policy} grows to the end" in text for text in result.warnings)


@pytest.mark.parametrize("policy", LEARNERS)
def test_the_first_outcome_leaves_all_servers_comparable(policy: str) -> None:
    """mab2rec 17: with one observation an index was NaN, so that nothing could be chosen."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=8))
    plan = queue_policy(policy).plan(world, 8)
    for replication in range(30):
        streams = queue_streams(world, 8, 6, replication)
        log = queue_path(streams, plan)
        busy = log.queue[1:8] > 0
        assert np.array_equal(log.pair[1:, 0, 0] >= 0, busy)  # served whenever something waits
        assert np.array_equal(log.pair[1:, 0, 1] >= 0, busy)


def test_exploration_of_zero_and_one_is_kept() -> None:
    """vowpal_wabbit 3680 and litellm 12108: zero is a probability like any other."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=400))
    policy: Any = queue_policy("cqb-eta-2")
    never = replace(policy, fractions=(0.0, 0.0)).plan(world, 400)
    always = replace(policy, fractions=(1.0, 1.0)).plan(world, 400)
    streams = queue_streams(world, 400, 1, 0)
    log = queue_path(streams, never)
    assert not (log.flag[:, 0, 1] > 0).any()
    log = queue_path(streams, always)
    fresh = np.zeros(400, dtype=bool)
    fresh[streams.arrival_round[streams.arrival_round < 399] + 1] = True
    assert np.array_equal((log.flag[1:, 0, 1] > 0), fresh[1:])
    chosen = log.pair[1:, 0, 1][fresh[1:]]
    assert np.array_equal(chosen, (streams.server[1:, 0][fresh[1:]] * 5).astype(int))


@pytest.mark.parametrize("policy", ["optimistic", "cqb-opt", "acqb-ts"])
def test_certain_servers_overflow_nothing(policy: str) -> None:
    """pybandits 126: a probability of exactly 0 or 1 gave infinite odds."""
    weight = [[800.0], [-800.0]]
    options = PoolOptions(
        arrival_rate=0.9, standardize=False, intercept=False, curvature=50.0, slack=0.1
    )
    world = queue_from_data([[1.0]], weight=weight, options=options)
    result = compare_queue(world, QueueSettings((policy,), horizon=300, replications=3))
    assert math.isfinite(result.row(policy).excess)
    if policy == "optimistic":  # a radius for weights of norm 1131 leaves the others in doubt
        assert result.row(policy).final_queue < 30


@pytest.mark.parametrize("policy", ["optimistic", "cqb-opt"])
def test_lost_reports_are_never_taken_for_success(policy: str) -> None:
    """mwt-ds 90: what if the click never comes?"""
    world = alike([0.2, 0.8])
    plan = queue_policy(policy).plan(world, 1500)
    streams = queue_streams(world, 1500, 3, 0)
    silent = streams._replace(copies=np.zeros(1500, dtype=np.int8))
    log = queue_path(silent, plan)
    assert np.abs(log.theta).max() == 0.0  # nothing was reported, so nothing is learned
    some = queue_streams(world, 1500, 3, 0, feedback=Feedback(lost=0.3))
    server = queue_path(some, plan).pair[500:, 0, 1]
    assert (server[server >= 0] == 1).mean() > 0.9


@pytest.mark.parametrize("policy", ["optimistic", "cqb-eta-2", "random", "q-ths"])
def test_no_arrivals_end_at_the_horizon(policy: str) -> None:
    """inference-sim 202: rate 0 made an endless loop."""
    for rate in (0.0, 1e-300):
        world = alike([0.5, 0.6], arrival_rate=rate)
        row = compare_queue(world, QueueSettings((policy,), horizon=200)).row(policy)
        assert (row.final_queue, row.mean_queue, row.exploration_share) == (0, 0, 0)


def test_an_unstable_queue_is_announced_before_the_run() -> None:
    """salabim 21: the shipped example's clerk could never catch up."""
    world = alike([0.5, 0.7], arrival_rate=0.9)
    result = compare_queue(world, QueueSettings(("optimistic",), horizon=600, replications=4))
    (text,) = (one for one in result.warnings if "without end" in one)
    for number in ("0.9", "0.7", "slack -0.2"):
        assert number in text
    assert result.row("optimistic").final_queue > 80
    fine = compare_queue(alike([0.5, 0.7]), QueueSettings(("optimistic",), replications=2))
    assert fine.warnings == ()


@pytest.mark.parametrize("workers", [2, 4])
def test_replications_are_the_same_for_any_number_of_workers(workers: int) -> None:
    """RocketPy 1053, ridepy 186: parallel replications shared streams."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=300))
    ids = ("optimistic", "acqb-ts", "q-ths")
    one, more = (
        compare_queue(world, QueueSettings(ids, replications=8, workers=n)) for n in (1, workers)
    )
    for policy in ids:
        first, second = one.traces[policy], more.traces[policy]
        assert np.array_equal(first.final_queue, second.final_queue)
        assert np.array_equal(first.curve, second.curve)
        assert np.array_equal(first.average, second.average)
        assert len({tuple(row) for row in first.average.tolist()}) == 8  # no two are equal
    assert one.rows == more.rows


@pytest.mark.parametrize("outcome", [0.7, -1, 2, math.nan, "1", None])
def test_departure_feedback_is_zero_or_one(outcome: object) -> None:
    """contextualbandits 52 and 69: rewards other than 0 and 1 were accepted."""
    with pytest.raises(InputError) as caught:
        ContextPool(np.zeros((2, 1, 1)), [[1, 0], [outcome, 1]])  # type: ignore[arg-type]
    assert caught.value.problems[0].field.startswith("outcomes")
    assert ContextPool(np.zeros((2, 1, 1)), [[1, 0], [True, 1]]).outcome is not None  # type: ignore[arg-type]


def test_every_policy_runs_on_every_kind_of_instance() -> None:
    outcomes = np.eye(3, dtype=int)[[0, 1, 2, 1]]
    recorded = queue_from_data(
        np.arange(8.0).reshape(4, 2), outcomes, options=PoolOptions(load=0.6, horizon=60)
    )
    worlds = [recorded, *(load_queue(one, QueueChoice(horizon=60)) for one in ("hard-v1",))]
    worlds += [load_queue(one, QueueChoice(horizon=60)) for one in ("cqb-joint-v1",)]
    for world in worlds:
        result = compare_queue(world, QueueSettings(("all",), replications=2))
        assert [row.policy for row in result.rows] == list(queue_policies_by_id())
        for row in result.rows:
            assert math.isfinite(row.excess)
            assert 0 <= row.exploration_share <= 1
