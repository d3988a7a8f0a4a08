"""Run queue policies on shared streams, replication by replication.

All plans of a replication see the same arrivals, contexts, departure uniforms and exploration
uniforms, so differences between them are paired. Replications run on threads; the numbers do
not depend on how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from opportune.errors import InputError, whole_problems
from opportune.kernels.queue import (
    ATTEMPTS,
    DEPARTED,
    EXPLORED,
    QueueLog,
    QueueStreams,
    QueueTables,
)
from opportune.kernels.queue_run import run_queue
from opportune.kernels.queue_state import new_state
from opportune.model.queue import MAX_HORIZON
from opportune.model.queue_generator import QueueWorld
from opportune.model.queue_streams import Feedback, queue_streams
from opportune.policies.base import QueuePlan

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FOREVER = 2**62
"""A switch that never comes."""

GRID_POINTS = 60
"""Rounds at which curves are kept, before equal ones are dropped."""

GRID_START = 20
"""First round of a curve, where the run is long enough."""


@dataclass(frozen=True)
class QueueRun:
    """Which replications are run, and how long.

    Attributes:
        horizon: T: rounds 1 .. T-1 are played, Q(T) is the last queue length.
        replications: How many.
        seed: Seed of all streams.
        first: Number of the first replication.
        workers: Threads; they change nothing but the time.
        servers_at_once: Servers that work in a round, each on a task of its own.
        feedback: Late, lost and repeated reports of outcomes.
        switch: Follow the plan in rounds 1 .. switch and the oracle afterwards (CQB 1.4, pi_t);
            None for the plan to the end.

    Raises:
        InputError: Naming the number that is out of range.
    """

    horizon: int
    replications: int = 1
    seed: int = 1
    first: int = 0
    workers: int = 1
    servers_at_once: int = 1
    feedback: Feedback = field(default_factory=Feedback)
    switch: int | None = None

    def __post_init__(self) -> None:
        problems = whole_problems(
            (
                ("horizon", self.horizon, 1, MAX_HORIZON),
                ("replications", self.replications, 1, 2**31),
                ("first", self.first, 0, 2**31),
                ("workers", self.workers, 1, 1024),
                ("switch", 0 if self.switch is None else self.switch, 0, FOREVER),
            )
        )
        if problems:
            raise InputError(problems)


class QueueTrace(NamedTuple):
    """What happened to one plan, over N replications. Queue lengths are at the start of rounds."""

    final_queue: Int  # (N,) Q(T)
    mean_queue: Float  # (N,) mean of Q(1) .. Q(T)
    grid: Int  # (G,) rounds, the last is T
    curve: Int  # (N, G) Q at these rounds
    average: Float  # (N, G) mean of Q(1) .. Q(t)
    attempts: Int  # (N,) tries
    explored: Int  # (N,) tries at random
    departures: Int  # (N,)


Progress = Callable[[float, str], None]
"""Told the share of the work that is done, and a text."""


def simulate_queue(
    world: QueueWorld,
    plans: Sequence[QueuePlan],
    run: QueueRun,
    progress: Progress | None = None,
) -> list[QueueTrace]:
    """Run every plan on the same streams; one trace each, in the order of ``plans``.

    Args:
        world: An instance, or a law of instances, which gives every replication its own.
        plans: Plans made for this world and horizon.
        run: Replications and length.
        progress: Called after each replication, from the calling thread.
    """
    grid = curve_rounds(run.horizon)
    found: list[list[_Summary]] = []
    for summaries in _replications(world, [plan.tables for plan in plans], run, grid):
        found.append(summaries)
        if progress is not None:
            told = f"replication {len(found)} of {run.replications}"
            progress(len(found) / run.replications, told)
    return [_gathered([row[p] for row in found], grid) for p in range(len(plans))]


def queue_path(streams: QueueStreams, plan: QueuePlan, switch: int | None = None) -> QueueLog:
    """One replication in full: every queue length, pair and outcome.

    Args:
        streams: Its randomness.
        plan: The plan.
        switch: As in :class:`QueueRun`.
    """
    log = _empty_log(streams, len(streams.uniform))
    log.pair.fill(-1)
    _play(streams, plan.tables, switch, log)
    return log


def curve_rounds(horizon: int) -> Int:
    """(G,) rounds at which curves are kept: log-spaced from 20, and the last."""
    start = min(GRID_START, horizon)
    spaced = np.geomspace(start, horizon, GRID_POINTS)
    return np.unique(np.round(spaced).astype(np.int64))


class _Summary(NamedTuple):
    """What is kept of one plan in one replication."""

    curve: Int  # (G,)
    average: Float  # (G,)
    counts: Int  # (8,)


def _replications(
    world: QueueWorld, tables: list[QueueTables], run: QueueRun, grid: Int
) -> Iterator[list[_Summary]]:
    def one(replication: int) -> list[_Summary]:
        streams = queue_streams(
            world,
            run.horizon,
            run.seed,
            replication,
            run.servers_at_once,
            run.feedback,
        )
        rounds = np.arange(1, run.horizon + 1)
        summaries = []
        for table in tables:
            log = _empty_log(streams, 0)
            _play(streams, table, run.switch, log)
            queue = log.queue[1:].astype(np.int64)
            average = np.cumsum(queue) / rounds
            summaries.append(_Summary(queue[grid - 1], average[grid - 1], log.counts))
        return summaries

    numbers = range(run.first, run.first + run.replications)
    if run.workers == 1 or run.replications == 1:
        yield from map(one, numbers)
        return
    parallel = Parallel(n_jobs=run.workers, backend="threading", return_as="generator")
    yield from parallel(delayed(one)(number) for number in numbers)


def _play(streams: QueueStreams, tables: QueueTables, switch: int | None, log: QueueLog) -> None:
    state = new_state(streams, tables)
    run_queue(streams, tables, state, FOREVER if switch is None else switch, log)


def _empty_log(streams: QueueStreams, logged: int) -> QueueLog:
    n_rounds, n_turns = streams.uniform.shape
    n_servers, size = streams.rate.shape[1], streams.features.shape[2]
    return QueueLog(
        queue=np.zeros(n_rounds + 1, dtype=np.int32),
        counts=np.zeros(8, dtype=np.int64),
        pair=np.zeros((logged, n_turns, 2), dtype=np.int32),
        flag=np.zeros((logged, n_turns, 2), dtype=np.int8),
        theta=np.zeros((n_servers if streams.disjoint else 1, size)),
    )


def _gathered(rows: list[_Summary], grid: Int) -> QueueTrace:
    curve = np.array([row.curve for row in rows])
    average = np.array([row.average for row in rows])
    counts = np.array([row.counts for row in rows])
    return QueueTrace(
        final_queue=curve[:, -1],
        mean_queue=average[:, -1],
        grid=grid,
        curve=curve,
        average=average,
        attempts=counts[:, ATTEMPTS],
        explored=counts[:, EXPLORED],
        departures=counts[:, DEPARTED],
    )
