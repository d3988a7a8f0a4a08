"""Run plans on the tasks of a record: arrivals, types and durations as they were.

All plans see the same tasks. Ties and samples are drawn anew in every replication; nothing else is
random. What a task is worth to a server is looked up by the caller in what was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PRIORITY
from opportune.kernels.loss import Window, World
from opportune.kernels.streams import LossStreams
from opportune.model.loss import LossInstance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import Plan
from opportune.simulate.loss import empty_state_of, empty_trace, serve_block

Int = NDArray[np.int64]

SIZE = 4
"""Blocks of choices begin at multiples of this (``kernels.streams.draw_arrivals``)."""


@dataclass(frozen=True, eq=False)
class RecordedTasks:
    """Tasks in order of arrival.

    Attributes:
        step: (n,) step of arrival, not falling; tasks of one step are decided one after another.
        task_type: (n,) type.
        duration: (n,) steps, at least 1, whoever serves it.
    """

    step: Int
    task_type: Int
    duration: Int


def serve_recorded(
    instance: LossInstance,
    plans: Sequence[Plan],
    tasks: RecordedTasks,
    seed: int = 1,
    replications: int = 1,
) -> list[Int]:
    """Who would have served each task, plan by plan.

    Args:
        instance: The instance; its arrival rates and durations are not used.
        plans: Plans made for it.
        tasks: The tasks.
        seed: Seed of ties and samples.
        replications: How often they are drawn; plans without any are run once.

    Returns:
        For each plan (replications or 1, n, k) servers, -1 where the task was turned away or takes
        fewer than k.
    """
    k = int(instance.servers_per_task.max())
    n = len(tasks.step)
    world = World(instance.match_reward, instance.servers_per_task)
    window = Window(0, int(tasks.step[-1]) + 2 if n else 1)
    law = loss_law(instance)
    found: list[list[Int]] = [[] for _ in plans]
    for replication in range(replications):
        size = -(-max(n, 1) // SIZE) * SIZE
        drawn = draw_block(stream_key(seed, replication), 0, law, k, size)
        streams = LossStreams(
            gap=np.diff(tasks.step, prepend=-1),
            task_type=tasks.task_type.astype(np.int32),
            duration=tasks.duration,
            choice=drawn.choice[:n],
        )
        for plan, rows in zip(plans, found, strict=True):
            fixed = plan.counts is None and plan.tables.rule == PRIORITY
            if replication and fixed:
                continue
            chosen = np.full((n, k), -1, dtype=np.int32)
            state = empty_state_of(plan, instance.n_servers)
            serve_block(plan, streams, (world, window), state, (empty_trace(instance), chosen))
            rows.append(chosen.astype(np.int64))
    return [np.stack(rows) for rows in found]
