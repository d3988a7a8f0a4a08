"""The loss system where a task's duration depends on the server: each is free again on its own.

As ``kernels.loss``, with one uniform number per task in place of its duration: server r is taken
for the quantile of its law at that number (``model.server_durations``; ours). A kernel of its own,
so that the usual one does not look for laws.
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
from opportune.kernels.loss import LossState, Trace, Window, headcount
from opportune.kernels.streams import (
    DETERMINISTIC,
    DURATION,
    GEOMETRIC,
    LossStreams,
    geometric,
    unit,
    words,
)


class ServerWorld(NamedTuple):
    """What the kernel needs of an instance."""

    match_reward: NDArray[np.float64]  # (V, R)
    servers_per_task: NDArray[np.int64]  # (V,)
    which: NDArray[np.int64]  # (V, R) law of each pair
    kind: NDArray[np.int8]  # (L,) DETERMINISTIC, GEOMETRIC, EMPIRICAL
    steps: NDArray[np.int64]  # (L,) deterministic duration
    log_stay: NDArray[np.float64]  # (L,) log(1 - 1/mean) of a geometric one
    start: NDArray[np.int64]  # (L+1,) where the table of an empirical one starts
    value: NDArray[np.int64]  # (n,) its values, ascending
    below: NDArray[np.float64]  # (n,) probability of this value and those before


@jit
def draw_uniforms(
    key: tuple[np.uint64, np.uint64], first: int, uniform: NDArray[np.float64]
) -> None:
    """The numbers in [0, 1) that durations of arrivals first, first+1, ... are drawn with.

    Those of ``streams.draw_arrivals``; ``first`` must be even.
    """
    n = uniform.shape[0]
    for i in range(0, n, 2):
        d0, d1, d2, d3 = words(key, DURATION, np.uint64(first + i) >> np.uint64(1))
        uniform[i] = unit(d0, d1)
        if i + 1 < n:
            uniform[i + 1] = unit(d2, d3)


@jit
def run_arrivals_by_server(
    streams: tuple[LossStreams, NDArray[np.float64]],
    tables: PlanTables,
    world: ServerWorld,
    window: Window,
    state: LossState,
    log: tuple[Trace, NDArray[np.int32]],
) -> int:
    """Serve a block of arrivals; return how many lay before the horizon.

    ``streams`` is (streams, uniform): gaps, types and choices, and (n,) numbers for durations.
    ``log`` as in ``loss.run_arrivals``.
    """
    arrivals, uniform = streams
    trace, chosen = log
    busy_until, clock, picks = state
    logged = chosen.shape[0] > 0
    levels = tables.order.shape[1]
    n_batches = trace.reward.shape[0]
    steps = window.horizon - window.warm_up
    time = clock[0]
    for i in range(arrivals.gap.shape[0]):
        if arrivals.gap[i] >= window.horizon - time:
            clock[0] = window.horizon
            return i
        time += arrivals.gap[i]
        v = arrivals.task_type[i]
        k = world.servers_per_task[v]
        task = Task(time, v, headcount(busy_until, time, k, levels), k)
        if tables.rule == PRIORITY:
            found = pick_first(tables, busy_until, task, picks)
        elif tables.rule == PRIORITY_TIES:
            found = pick_first_tied(tables, busy_until, task, arrivals.choice, i, picks)
        else:
            found = pick_by_weight(tables, busy_until, task, arrivals.choice, i, picks)
        counted = time >= window.warm_up
        if logged:
            for j in range(chosen.shape[1]):
                chosen[i, j] = picks[j] if found == k and j < k else -1
        trace.arrived[v] += counted
        if found < k:
            trace.blocked[v] += counted
            continue
        batch = 0
        if counted:
            batch = min((time - window.warm_up) * n_batches // steps, n_batches - 1)
        for j in range(k):
            r = picks[j]
            law, u = world.which[v, r], uniform[i]
            if world.kind[law] == DETERMINISTIC:
                duration = world.steps[law]
            elif world.kind[law] == GEOMETRIC:
                duration = np.int64(geometric(u, world.log_stay[law]))
            else:
                low, high = world.start[law], world.start[law + 1] - 1
                while low < high:
                    middle = (low + high) // 2
                    if u < world.below[middle]:
                        high = middle
                    else:
                        low = middle + 1
                duration = world.value[low]
            busy_until[r] = time + duration + 1
            busy = min(busy_until[r], window.horizon) - max(time + 1, window.warm_up)
            trace.busy_steps[r] += max(busy, 0)
            trace.assigned[v, r] += counted
            trace.reward[batch] += counted * world.match_reward[v, r]
    clock[0] = time
    return arrivals.gap.shape[0]
