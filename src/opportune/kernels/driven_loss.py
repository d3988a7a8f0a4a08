"""Many replications of the loss system, driven from outside one pick at a time.

Implements: LAG section 1 in the form of ``loss.run_arrivals`` (quoted), cut open where a server is
picked: a system runs until a task finds enough free permitted servers, then waits to be told the
first of them, the second, ... A pick that cannot be (not free, not permitted, picked already, no
server) turns the task away. Streams are those of ``run_arrivals``, block by block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PlanTables, Task, pick
from opportune.kernels.jit import jit
from opportune.kernels.loss import World, headcount
from opportune.kernels.streams import Law, LossStreams, draw_arrivals

Int = NDArray[np.int64]

CLOCK, PLACE, BLOCK_NUMBER, TYPE, DURATION, NEEDED, PICKED, STATUS, LAST = range(9)
"""``Driven.whole``: step now, place in the block, its number, task's type, duration, servers it
needs, picked so far, status, step of the decision before."""

RUNNING, WAITING, ENDED = range(3)
"""Status: looks for the next task; waits for a pick; is over."""

ARRIVED, BLOCKED, REFUSED, SERVED = range(4)
"""``Driven.counts``: tasks; turned away for want of servers; by an impossible pick; served."""


class Driven(NamedTuple):
    """N systems of R servers; updated in place. Streams hold B arrivals each."""

    busy_until: Int  # (N, R)
    busy_since: Int  # (N, R) step of the assignment
    picks: Int  # (N, R + 1) picked for the task that waits, then scratch
    whole: Int  # (N, 9)
    counts: Int  # (N, 4)
    reward: NDArray[np.float64]  # (N,) of the last pick
    key: NDArray[np.uint64]  # (N, 2) seed, replication
    gap: Int  # (N, B)
    task_type: NDArray[np.int32]  # (N, B)
    duration: Int  # (N, B)
    choice: NDArray[np.uint32]  # (N, B, k)


@jit
def draw_blocks(driven: Driven, law: Law) -> None:
    """Draw the next block of every system that has used up its own."""
    size = driven.gap.shape[1]
    for n in range(driven.whole.shape[0]):
        if driven.whole[n, PLACE] < size:
            continue
        streams = LossStreams(
            driven.gap[n], driven.task_type[n], driven.duration[n], driven.choice[n]
        )
        first = driven.whole[n, BLOCK_NUMBER] * size
        draw_arrivals((driven.key[n, 0], driven.key[n, 1]), first, law, streams)
        driven.whole[n, BLOCK_NUMBER] += 1
        driven.whole[n, PLACE] = 0


@jit
def find_tasks(driven: Driven, world: World, allowed: NDArray[np.bool_], horizon: int) -> int:
    """Run every system to its next decision or its end; how many need another block first."""
    whole, counts, short = driven.whole, driven.counts, 0
    size = driven.gap.shape[1]
    for n in range(whole.shape[0]):
        time, place = whole[n, CLOCK], whole[n, PLACE]
        while whole[n, STATUS] == RUNNING and place < size:
            if driven.gap[n, place] >= horizon - time:
                time = horizon
                whole[n, STATUS] = ENDED
                break
            time += driven.gap[n, place]
            v = driven.task_type[n, place]
            free = 0
            for r in range(allowed.shape[1]):
                free += allowed[v, r] and driven.busy_until[n, r] <= time
            counts[n, ARRIVED] += 1
            if free < world.servers_per_task[v]:
                counts[n, BLOCKED] += 1
            else:
                whole[n, STATUS] = WAITING
                whole[n, TYPE], whole[n, NEEDED] = v, world.servers_per_task[v]
                whole[n, DURATION], whole[n, PICKED] = driven.duration[n, place], 0
            place += 1
        whole[n, CLOCK], whole[n, PLACE] = time, place
        short += whole[n, STATUS] == RUNNING
    return short


@jit
def take_picks(driven: Driven, world: World, allowed: NDArray[np.bool_], action: Int) -> None:
    """Give each waiting system a server; with the last one its task begins and earns its reward."""
    whole, picks = driven.whole, driven.picks
    for n in range(whole.shape[0]):
        driven.reward[n] = 0.0
        if whole[n, STATUS] != WAITING:
            continue
        time, v, r = whole[n, CLOCK], whole[n, TYPE], action[n]
        whole[n, LAST] = time
        possible = r >= 0 and r < allowed.shape[1]
        if possible:
            possible = allowed[v, r] and driven.busy_until[n, r] <= time
        for i in range(whole[n, PICKED]):
            possible = possible and picks[n, i] != r
        if not possible:
            driven.counts[n, REFUSED] += 1
            whole[n, STATUS] = RUNNING
            continue
        picks[n, whole[n, PICKED]] = r
        whole[n, PICKED] += 1
        if whole[n, PICKED] < whole[n, NEEDED]:
            continue
        driven.counts[n, SERVED] += 1
        whole[n, STATUS] = RUNNING
        for i in range(whole[n, NEEDED]):
            server = picks[n, i]
            driven.busy_until[n, server] = time + whole[n, DURATION] + 1
            driven.busy_since[n, server] = time
            driven.reward[n] += world.match_reward[v, server]


@jit
def show_systems(
    driven: Driven,
    allowed: NDArray[np.bool_],
    free: NDArray[np.int8],
    busy_for: NDArray[np.float32],
    mask: NDArray[np.int8],
) -> None:
    """Fill who is free (N, R), steps since the assignment of the others, and possible picks."""
    whole = driven.whole
    for n in range(whole.shape[0]):
        time, v = whole[n, CLOCK], whole[n, TYPE]
        open_ = whole[n, STATUS] == WAITING
        for r in range(allowed.shape[1]):
            idle = driven.busy_until[n, r] <= time
            free[n, r] = idle
            busy_for[n, r] = 0.0 if idle else np.float32(time - driven.busy_since[n, r])
            mask[n, r] = open_ and idle and allowed[v, r]
        for i in range(whole[n, PICKED] if open_ else 0):
            mask[n, driven.picks[n, i]] = 0
            free[n, driven.picks[n, i]] = 0


@jit
def planned_picks(driven: Driven, tables: PlanTables, found: Int) -> None:
    """Fill (N,) the server that a plan would pick next, -1 where no task waits.

    Systems whose picks so far are not the plan's are told the plan's pick all the same.
    """
    whole, levels = driven.whole, tables.order.shape[1]
    scratch = np.empty(driven.busy_until.shape[1] + 1, dtype=np.int64)
    for n in range(whole.shape[0]):
        found[n] = -1
        if whole[n, STATUS] != WAITING:
            continue
        time, k = whole[n, CLOCK], whole[n, NEEDED]
        h = headcount(driven.busy_until[n], time, k, levels)
        task = Task(time, whole[n, TYPE], h, k)
        row = whole[n, PLACE] - 1
        pick(tables, driven.busy_until[n], task, driven.choice[n], row, scratch)
        found[n] = scratch[whole[n, PICKED]]
