"""Many replications of the queue with contexts, driven from outside one pair at a time.

Implements: CQB 1.1 (reconstructed display) and 1.4, D = 1{U_t < rate}, in the order of
``queue_run.run_queue``: arrivals of round t - 1 join, Q(t) is counted, one waiting task and a
server are named, the task departs or stays where it is. An impossible pair leaves the round idle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit

Int = NDArray[np.int64]

ROUND, SIZE, JOINED, DEPARTED, IDLE = range(5)
"""``DrivenQueue.whole``: round now, tasks waiting, tasks that have arrived, departures, rounds in
which nobody was served though tasks waited."""


class DrivenQueue(NamedTuple):
    """N queues with K servers; arrivals of a replication are padded to A."""

    waiting: Int  # (N, A) tasks in order of arrival, the first SIZE count
    whole: Int  # (N, 5)
    departed: NDArray[np.int8]  # (N,) whether the last pair's task departed
    tried: NDArray[np.bool_]  # (N, A, K) failed pairs of recorded outcomes, or (N, 0, K)
    n_tasks: Int  # (N,)
    arrival_round: NDArray[np.int32]  # (N, A)
    features: NDArray[np.float32]  # (N, A, F, x)
    rate: NDArray[np.float64]  # (N, A, K)
    uniform: NDArray[np.float64]  # (N, T)


@jit
def join_tasks(queue: DrivenQueue, which: NDArray[np.bool_]) -> None:
    """Tasks that arrived before the present round join, in these replications."""
    whole = queue.whole
    for n in range(whole.shape[0]):
        while which[n] and whole[n, JOINED] < queue.n_tasks[n]:
            task = whole[n, JOINED]
            if queue.arrival_round[n, task] >= whole[n, ROUND]:
                break
            queue.waiting[n, whole[n, SIZE]] = task
            whole[n, SIZE] += 1
            whole[n, JOINED] += 1


@jit
def serve_pairs(
    queue: DrivenQueue, action: Int, which: NDArray[np.bool_], horizon: int, window: int
) -> None:
    """Serve place ``action // K`` by server ``action % K``, and go on to the next round.

    Only the first ``window`` waiting tasks can be named. Replications at the horizon stay.
    """
    whole, n_servers = queue.whole, queue.rate.shape[2]
    once = queue.tried.shape[1] > 0
    for n in range(whole.shape[0]):
        queue.departed[n] = 0
        time, size = whole[n, ROUND], whole[n, SIZE]
        if not which[n] or time >= horizon:
            continue
        place, server = action[n] // n_servers, action[n] % n_servers
        whole[n, ROUND] = time + 1
        possible = action[n] >= 0 and place < min(size, window)
        task = queue.waiting[n, place] if possible else 0
        if possible and once:
            possible = not queue.tried[n, task, server]
        if not possible:
            whole[n, IDLE] += size > 0
            continue
        if queue.uniform[n, time] < queue.rate[n, task, server]:
            queue.departed[n] = 1
            whole[n, DEPARTED] += 1
            for i in range(place, size - 1):
                queue.waiting[n, i] = queue.waiting[n, i + 1]
            whole[n, SIZE] -= 1
        elif once:
            queue.tried[n, task, server] = True


@jit
def show_queues(
    queue: DrivenQueue,
    window: int,
    features: NDArray[np.float32],
    waiting: Int,
    mask: NDArray[np.int8],
) -> None:
    """Fill features (N, W, F, x) of the first W tasks, tasks waiting (N,), possible pairs (N, W K).

    Possible is a waiting task with any server, but for failed pairs of recorded outcomes.
    """
    n_servers = queue.rate.shape[2]
    once = queue.tried.shape[1] > 0
    for n in range(queue.whole.shape[0]):
        size = queue.whole[n, SIZE]
        waiting[n] = size
        for i in range(window):
            there = i < size
            task = queue.waiting[n, i] if there else 0
            for f in range(features.shape[2]):
                for j in range(features.shape[3]):
                    features[n, i, f, j] = queue.features[n, task, f, j] if there else 0.0
            for a in range(n_servers):
                open_ = there and not (once and queue.tried[n, task, a])
                mask[n, i * n_servers + a] = open_
