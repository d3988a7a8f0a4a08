"""The compiled queue makes the very choices of the slow twin, round by round."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opportune.model.queue import QueueInstance
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_generator import QueueWorld
from opportune.model.queue_pool import PoolOptions, queue_from_data
from opportune.model.queue_streams import queue_streams
from opportune.policies.base import queue_policy
from opportune.simulate.queue import queue_path
from tests import naive_queue as naive

HORIZON = 50


def recorded() -> QueueInstance:
    """Recorded outcomes of three servers on contexts of two entries."""
    rng = np.random.default_rng(3)
    contexts = rng.normal(size=(40, 2))
    outcomes = rng.random((40, 3)) < 0.5
    outcomes[~outcomes.any(axis=1), 1] = True
    return queue_from_data(contexts, outcomes, options=PoolOptions(load=0.8))


WORLDS: dict[str, Any] = {
    "joint": lambda: load_queue(
        "cqb-joint-v1", QueueChoice(horizon=HORIZON, dimension=4, servers=3)
    ),
    "disjoint": lambda: load_queue(
        "cqb-disjoint-v1", QueueChoice(horizon=HORIZON, dimension=3, servers=3)
    ),
    "hard": lambda: load_queue("hard-v1", QueueChoice(horizon=HORIZON, dimension=3, servers=4)),
    "recorded": recorded,
}


def told(world: QueueWorld, ridge: float) -> tuple[float, float, float, float]:
    """kappa, ridge, S and delta = 1 / T."""
    return world.curvature, ridge, world.norm_bound, 1.0 / HORIZON


def slow_policy(name: str, world: QueueWorld) -> naive.Policy:
    """A policy of the twin with the knobs that ``fast_policy`` gives the compiled one."""
    eta = world.slack / 4
    tau = 0.2 * HORIZON, 0.5 * HORIZON
    plain = naive.ucb(0.05, told(world, 1.0))
    return {
        "oracle": naive.oracle,
        "random": naive.random,
        "fifo-random": naive.fifo_random,
        "optimistic": naive.optimistic(0.5, 0.1),
        "greedy-decay": naive.exploring(lambda t: min(1.0, t**-0.5), naive.greedy(0.1)),
        "cqb-eta-2": naive.exploring(naive.three_phases(*tau, eta), plain),
        "eta-forever": naive.exploring(naive.three_phases(tau[0], math.inf, eta), plain),
        "acqb-ucb": naive.exploring(lambda t: min(1.0, t**-0.5), plain),
        "ucb": plain,
    }[name]


KNOBS: dict[str, dict[str, Any]] = {
    "cqb-eta-2": {"fractions": (0.2, 0.5), "scale": 0.05},
    "eta-forever": {"scale": 0.05},
    "acqb-ucb": {"scale": 0.05},
    "ucb": {"scale": 0.05},
}


@pytest.mark.parametrize("name", [*KNOBS, "oracle", "random", "fifo-random", "optimistic"])
@pytest.mark.parametrize("place", WORLDS)
def test_every_choice_is_that_of_the_twin(name: str, place: str) -> None:
    world = WORLDS[place]()
    policy = queue_policy(name)
    knobs = dict(KNOBS.get(name, {}))
    if hasattr(policy, "estimator"):
        knobs["estimator"] = "exact"
    plan = replace(policy, **knobs).plan(world, HORIZON)  # type: ignore[type-var]
    for replication in range(2):
        streams = queue_streams(world, HORIZON, 11, replication)
        fast = queue_path(streams, plan)
        slow = naive.run(streams, slow_policy(name, world))
        assert fast.queue[1:].tolist() == slow.queue
        served = [(-1, -1) if one is None else one for one in slow.served]
        assert [tuple(one) for one in fast.pair[1:, 0].tolist()] == served
        assert (fast.flag[1:, 0, 0] > 0).tolist() == slow.success
