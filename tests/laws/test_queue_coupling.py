"""Lemmas 6 and 7 of CQB (1.4, 3.5) on shared streams: exact where the coupling makes them exact."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.experiments.queue import ORACLE
from opportune.experiments.queue_switching import switching
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_streams import queue_streams
from opportune.policies.base import queue_policy
from opportune.simulate.queue import queue_path

HORIZON = 60
POLICIES = ("cqb-eta-2", "cqb-eps", "acqb-ts", "optimistic", "greedy-decay", "random", "q-ucb")
WORLDS = ("hard-v1", "cqb-joint-v1", "cqb-disjoint-v1")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("world_id", WORLDS)
def test_the_sum_of_psi_is_the_regret_and_queues_differ_by_one(world_id: str, policy: str) -> None:
    world = load_queue(world_id, QueueChoice(horizon=HORIZON))
    plan = queue_policy(policy).plan(world, HORIZON)
    found = switching(world, plan, HORIZON, (5, 3))
    assert np.array_equal(found.psi.sum(axis=1), found.regret)  # telescoping, to the last bit
    assert found.largest_step <= 1  # Lemma 7: pi_t and pi_{t-1} at every later time
    assert np.isin(found.one_more, (0, 1)).all()
    assert found.gap.min() >= 0


def test_random_service_costs_something_at_every_stage() -> None:
    """The laws above would also hold for a decomposition that is all zeros."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=HORIZON))
    plan = queue_policy("random").plan(world, HORIZON)
    found = switching(world, plan, HORIZON, (40, 1))
    assert found.regret.mean() > 5
    assert found.largest_step == 1
    assert (found.psi != 0).any(axis=0).mean() > 0.5


def test_lemma_6_bounds_what_each_round_costs() -> None:
    """E[psi_t] <= sqrt(E[gap_t^2]) sqrt(E[one more task's effect]), summed in tens of rounds."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=HORIZON))
    plan = queue_policy("random").plan(world, HORIZON)
    found = switching(world, plan, HORIZON, (150, 2))
    used = found.psi[:, :50].reshape(150, 5, 10).sum(axis=2)
    bound = found.bound[:50].reshape(5, 10).sum(axis=1)
    error = used.std(axis=0, ddof=1) / np.sqrt(150)
    assert np.all(used.mean(axis=0) <= bound + 3 * error)
    assert np.all(used.mean(axis=0) >= 0.1 * bound)  # and it is no empty bound


def test_the_effect_of_a_task_dies_out_from_the_end() -> None:
    """E[psi~_t(T)] grows with t: what happened long before the end is forgotten (Lemma 9)."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=HORIZON))
    plan = queue_policy(ORACLE).plan(world, HORIZON)
    more = switching(world, plan, HORIZON, (150, 5)).one_more.mean(axis=0)
    assert more[:10].mean() < 0.1 < more[-5:].mean()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("world_id", ["hard-v1", "hard-v1@1"])
def test_no_policy_is_ever_ahead_of_the_oracle_on_the_hard_pair(world_id: str, policy: str) -> None:
    """All tasks are alike there, so Q(t) >= Q*(t) at every time (CQB section 4, pathwise)."""
    world = load_queue(world_id, QueueChoice(horizon=400))
    plans = [queue_policy(one).plan(world, 400) for one in (policy, ORACLE)]
    for replication in range(10):
        streams = queue_streams(world, 400, 9, replication)
        queue, best = (queue_path(streams, plan).queue for plan in plans)
        assert np.all(queue[1:] >= best[1:])


def test_a_switch_after_the_end_changes_nothing_and_at_0_is_the_oracle() -> None:
    world = load_queue("cqb-disjoint-v1", QueueChoice(horizon=200))
    plan = queue_policy("optimistic").plan(world, 200)
    oracle = queue_policy(ORACLE).plan(world, 200)
    streams = queue_streams(world, 200, 4, 0)
    whole = queue_path(streams, plan)
    assert np.array_equal(queue_path(streams, plan, switch=200).queue, whole.queue)
    never = queue_path(streams, plan, switch=0)
    assert np.array_equal(never.queue, queue_path(streams, oracle).queue)
    assert not np.array_equal(never.queue, whole.queue)
