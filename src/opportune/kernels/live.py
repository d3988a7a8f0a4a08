"""One decision of the live service: the same pick as in the simulator, and what explains it.

Implements: ours. ``closed[r]`` is 0 for a server that can be picked and 1 for any other: it stands
in for ``busy_until`` at time 0, so that ``allocate.pick`` decides as it does in a simulation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PRIORITY, SAMPLE, PlanTables, Task, pick
from opportune.kernels.jit import jit
from opportune.kernels.streams import CHOICE, words

N_NEXT = 3
"""Servers that are listed beside the picks: who would be next, and who stood before."""


class Explained(NamedTuple):
    """What the kernel writes. R servers, k at most R."""

    picks: NDArray[np.int64]  # (R + 1,) the first k are the choice
    propensity: NDArray[np.float64]  # (R + 1,) of each pick, given the ones before
    chosen: NDArray[np.int64]  # (R,) scratch, all 0 between calls
    following: NDArray[np.int64]  # (N_NEXT,) free servers behind the picks in the order, or -1
    passed: NDArray[np.int64]  # (N_NEXT,) closed servers before the last pick, or -1
    n_free: NDArray[np.int64]  # (1,) permitted servers that can be picked


@jit
def pick_explained(
    tables: PlanTables,
    closed: NDArray[np.int64],
    task: Task,
    choice: NDArray[np.uint32],
    explained: Explained,
) -> int:
    """Pick ``task.k`` servers and say why; returns how many were found (fewer: none is picked).

    ``task.time`` is 0; ``choice`` (1, k) holds 32-bit fractions.
    """
    found = pick(tables, closed, task, choice, 0, explained.picks)
    v, h, k = task.task_type, task.headcount, task.k
    picks, chosen = explained.picks, explained.chosen
    n_picked = k if found >= k else 0
    for j in range(n_picked):
        chosen[picks[j]] = 1
    for j in range(N_NEXT):
        explained.following[j] = -1
        explained.passed[j] = -1
    n_free, n_following, n_passed, still = 0, 0, 0, n_picked
    for position in range(tables.n_allowed[v]):
        r = tables.order[v, h, position]
        if closed[r] != 0:
            if n_passed < N_NEXT and (still > 0 or n_picked == 0):
                explained.passed[n_passed] = r
                n_passed += 1
        else:
            n_free += 1
            if chosen[r] != 0:
                still -= 1
            elif n_following < N_NEXT:
                explained.following[n_following] = r
                n_following += 1
    explained.n_free[0] = n_free
    if n_picked > 0:
        _propensities(tables, closed, task, explained)
    for j in range(n_picked):
        chosen[picks[j]] = 0
    return found


@jit
def _propensities(
    tables: PlanTables, closed: NDArray[np.int64], task: Task, explained: Explained
) -> None:
    """P(pick j | free servers, picks before j in a sample by weight), in the order of the picks.

    A list: 1. Of a tie in which m of n free servers are picked: m / n each. By weight: the share
    of the pick's weight in what was left; where no weight is left, as in a list.
    """
    picks, propensity = explained.picks, explained.propensity
    first = 0
    if tables.rule == SAMPLE:
        v = task.task_type
        total = 0.0
        for position in range(tables.n_allowed[v]):
            r = tables.order[v, task.headcount, position]
            if closed[r] == 0:
                total += tables.weight[v, r]
        left = total
        while first < task.k and tables.weight[v, picks[first]] > 0.0:
            weight = tables.weight[v, picks[first]]
            propensity[first] = min(weight / left, 1.0) if left > weight else 1.0
            left -= weight
            first += 1
    for j in range(first, task.k):
        propensity[j] = 1.0
    if tables.rule != PRIORITY and first < task.k:
        _tie_propensities(tables, closed, task, first, explained)


@jit
def _tie_propensities(
    tables: PlanTables,
    closed: NDArray[np.int64],
    task: Task,
    first: int,
    explained: Explained,
) -> None:
    """m / n for the picks from ``first`` on that share a tie with somebody who was not picked."""
    v, h, k = task.task_type, task.headcount, task.k
    picks, chosen = explained.picks, explained.chosen
    for j in range(first):
        chosen[picks[j]] = 2
    start = 0
    while start < tables.n_allowed[v]:
        level, stop, n, m = tables.level[v, h, start], start, 0, 0
        while stop < tables.n_allowed[v] and tables.level[v, h, stop] == level:
            r = tables.order[v, h, stop]
            if closed[r] == 0 and chosen[r] != 2:
                n += 1
                m += chosen[r]
            stop += 1
        if 0 < m < n:
            for j in range(first, k):
                for position in range(start, stop):
                    if tables.order[v, h, position] == picks[j]:
                        explained.propensity[j] = m / n
        start = stop


@jit
def draw_words(
    key: tuple[np.uint64, np.uint64], first: np.uint64, drawn: NDArray[np.uint32]
) -> None:
    """Fill ``drawn`` (4 n) with words first, first + 1, ... of the stream of choices of a key.

    ``first`` must be a multiple of 4. They are those that a simulation of the same key draws.
    """
    for i in range(0, drawn.shape[0], 4):
        w0, w1, w2, w3 = words(key, CHOICE, (first + np.uint64(i)) >> np.uint64(2))
        drawn[i] = w0
        drawn[i + 1] = w1
        drawn[i + 2] = w2
        drawn[i + 3] = w3


def explained_of(n_servers: int) -> Explained:
    """Room for the explanation of a decision among so many servers."""
    return Explained(
        picks=np.zeros(n_servers + 1, dtype=np.int64),
        propensity=np.zeros(n_servers + 1),
        chosen=np.zeros(n_servers, dtype=np.int64),
        following=np.full(N_NEXT, -1, dtype=np.int64),
        passed=np.full(N_NEXT, -1, dtype=np.int64),
        n_free=np.zeros(1, dtype=np.int64),
    )
