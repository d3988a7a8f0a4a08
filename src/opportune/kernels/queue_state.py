"""What a queue remembers from round to round: tasks, estimates, outcomes under way.

Implements: CQB 1.1: an arrival of round t can be served from round t + 1 on. Ours: outcomes that
are learned from later wait in one list per round.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit, jit_in_place
from opportune.kernels.logistic import Float, Learner, new_learner
from opportune.kernels.logistic_fit import NO_ESTIMATOR
from opportune.kernels.queue import QueueStreams, QueueTables
from opportune.kernels.queue_select import Waiting, insert_task

SIZE, JOINED, TURNED, EVALUATED, STALE, OPEN, NEWEST, TAKEN = range(8)
"""``State.whole``: tasks waiting, tasks that have arrived, round-robin turns, tasks evaluated by
the last scan, state of the bounds, whether phase 1 is open, the task that arrived in
the round before (-1 if none), pairs chosen in this round."""

IN_USE, USELESS, FRESH = range(3)
"""Whether the bounds of a long queue are of use: yes; no; since the last scan."""

LENGTH, ANCHOR_RADIUS, ANCHOR_FIT, CHECK, RADIUS, SLACK, WIDEST = range(7)
"""``State.level``: largest ||phi|| so far, radius and refits at the anchor, when the width
criterion is looked at next, radius and slack of this round, largest width of a feature of length
1."""

SUCCESSES, TRIALS, VALUE = range(3)
"""Rows of ``State.tally``: departures and attempts by server, indices without contexts."""


class State(NamedTuple):
    """What the next round needs; updated in place."""

    learner: Learner
    waiting: Waiting
    tally: Float  # (3, K)
    whole: NDArray[np.int64]  # (8,)
    level: Float  # (7,)
    chosen: NDArray[np.int64]  # (3, m) task, server, explored
    bound: Float  # (m,) bounds of the chosen tasks
    head: NDArray[np.int64]  # (2, T + 1) first and last report due by round, or (2, 1), one list
    report: NDArray[np.int64]  # (4, T m) or (4, m) next in the list, task, server, outcome


@jit
def new_state(streams: QueueStreams, tables: QueueTables) -> State:
    """An empty queue before round 1."""
    n_rounds, n_turns = streams.uniform.shape
    n_tasks, n_servers = streams.rate.shape
    capacity = n_rounds * n_turns if tables.estimator != NO_ESTIMATOR else 0
    if tables.count_copies and streams.copies.shape[0] > 0:
        capacity = n_turns * np.int64(streams.copies.sum())
    start = tables.design_start if tables.by_design else tables.fitting.ridge
    delayed = streams.delay.shape[0] > 0
    whole, level = np.zeros(8, dtype=np.int64), np.zeros(7)
    whole[STALE], whole[OPEN] = USELESS, 1
    level[WIDEST] = 1.0 / math.sqrt(start)
    level[CHECK] = 1.0
    return State(
        learner=new_learner(
            n_servers if streams.disjoint else 1,
            streams.features.shape[2],
            capacity,
            tables.fitting.ridge,
            tables.design_start,
        ),
        waiting=Waiting(
            place=np.empty((2, max(n_tasks * n_servers, 1)), dtype=np.int64),
            bound=np.empty(n_tasks),
            used=np.zeros(n_servers, dtype=np.bool_),
            tried=np.zeros((n_tasks if streams.once else 0, n_servers), dtype=np.bool_),
        ),
        tally=np.zeros((3, n_servers)),
        whole=whole,
        level=level,
        chosen=np.empty((3, n_turns), dtype=np.int64),
        bound=np.empty(n_turns),
        head=np.full((2, n_rounds + 1 if delayed else 1), -1, dtype=np.int64),
        report=np.empty((4, n_turns * (n_rounds if delayed else 1)), dtype=np.int64),
    )


@jit_in_place
def join_arrivals(streams: QueueStreams, state: State, time: int) -> None:
    """Tasks that arrived before this round join the queue."""
    whole, features = state.whole, streams.features
    whole[NEWEST] = -1
    while whole[JOINED] < streams.rate.shape[0]:
        task = whole[JOINED]
        if streams.arrival_round[task] >= time:
            break
        insert_task(state.waiting, whole[SIZE], task, math.inf)
        for row in range(features.shape[1]):
            square = 0.0
            for j in range(features.shape[2]):
                square += features[task, row, j] ** 2
            state.level[LENGTH] = max(state.level[LENGTH], math.sqrt(square))
        whole[NEWEST] = task if streams.arrival_round[task] == time - 1 else -1
        whole[JOINED] += 1
        whole[SIZE] += 1


@jit_in_place
def post(state: State, due: int, at: int, outcome: tuple[int, int, float]) -> None:
    """Put an outcome at the end of a list, that of the round in which it is due."""
    head, report = state.head, state.report
    report[0, at] = -1
    report[1, at], report[2, at] = outcome[0], outcome[1]
    report[3, at] = np.int64(outcome[2])
    if head[0, due] < 0:
        head[0, due] = at
    else:
        report[0, head[1, due]] = at
    head[1, due] = at
