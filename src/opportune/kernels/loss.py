"""The loss system from arrival to arrival: steps without an arrival need no work.

Implements: LAG section 1 in the equivalent fast form (quoted): keep ``busy_until[r]``, free
iff ``busy_until[r] <= t``, on assignment ``busy_until[r] = t + D + 1``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import (
    PRIORITY,
    PRIORITY_TIES,
    PlanTables,
    Task,
    pick_by_weight,
    pick_first,
    pick_first_tied,
)
from opportune.kernels.jit import jit
from opportune.kernels.streams import LossStreams


class World(NamedTuple):
    """What the kernel needs of an instance."""

    match_reward: NDArray[np.float64]  # (V, R)
    servers_per_task: NDArray[np.int64]  # (V,)


class Window(NamedTuple):
    """Steps 0 .. warm_up-1 are run but not counted; the run ends before step ``horizon``."""

    warm_up: int
    horizon: int


class LossState(NamedTuple):
    """What the next step needs; updated in place."""

    busy_until: NDArray[np.int64]  # (R,)
    clock: NDArray[np.int64]  # (1,) step of the last arrival handled, -1 at first
    picks: NDArray[np.int64]  # (R + 1,) scratch


class Trace(NamedTuple):
    """What happened in the counted window: estimates of exactly the LP's variables."""

    assigned: NDArray[np.int64]  # (V, R) assignments
    busy_steps: NDArray[np.int64]  # (R,) steps of the window in which the server was busy
    arrived: NDArray[np.int64]  # (V,)
    blocked: NDArray[np.int64]  # (V,) dropped tasks
    reward: NDArray[np.float64]  # (batches,) reward by equal parts of the window


@jit
def headcount(busy_until: NDArray[np.int64], time: int, k: int, levels: int) -> int:
    """Tasks in service (busy servers / k), as an index below ``levels``."""
    if levels == 1:
        return 0
    busy = 0
    for r in range(busy_until.shape[0]):
        busy += busy_until[r] > time
    return min(busy // k, levels - 1)


@jit
def run_arrivals(
    streams: LossStreams,
    tables: PlanTables,
    world: World,
    window: Window,
    state: LossState,
    log: tuple[Trace, NDArray[np.int32]],
) -> int:
    """Serve a block of arrivals; return how many lay before the horizon.

    ``log`` is (trace, chosen): ``chosen`` (n, k) receives the servers of each task, -1 where
    it was dropped; give it no rows to save the time.
    """
    trace, chosen = log
    busy_until, clock, picks = state
    logged = chosen.shape[0] > 0
    levels = tables.order.shape[1]
    n_batches = trace.reward.shape[0]
    steps = window.horizon - window.warm_up
    time = clock[0]
    batch, edge, reward = 0, window.warm_up + steps // n_batches, 0.0
    for i in range(streams.gap.shape[0]):
        if streams.gap[i] >= window.horizon - time:
            clock[0] = window.horizon
            trace.reward[batch] += reward
            return i
        time += streams.gap[i]
        v = streams.task_type[i]
        k = world.servers_per_task[v]
        h = headcount(busy_until, time, k, levels)
        task = Task(time, v, h, k)
        if tables.rule == PRIORITY:
            found = pick_first(tables, busy_until, task, picks)
        elif tables.rule == PRIORITY_TIES:
            found = pick_first_tied(tables, busy_until, task, streams.choice, i, picks)
        else:
            found = pick_by_weight(tables, busy_until, task, streams.choice, i, picks)
        counted = time >= window.warm_up
        if logged:
            for j in range(chosen.shape[1]):
                chosen[i, j] = picks[j] if found == k and j < k else -1
        trace.arrived[v] += counted
        if found < k:
            trace.blocked[v] += counted
            continue
        free_again = time + streams.duration[i] + 1
        busy = min(free_again, window.horizon) - max(time + 1, window.warm_up)
        while time >= edge and batch < n_batches - 1:
            trace.reward[batch] += reward
            reward = 0.0
            batch += 1
            edge = window.warm_up + (batch + 1) * steps // n_batches
        for j in range(k):
            r = picks[j]
            busy_until[r] = free_again
            trace.busy_steps[r] += max(busy, 0)
            trace.assigned[v, r] += counted
            reward += counted * world.match_reward[v, r]
    clock[0] = time
    trace.reward[batch] += reward
    return streams.gap.shape[0]
