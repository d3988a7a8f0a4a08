"""Where queue length regret comes from: switch from the policy to the oracle round by round.

pi_t follows the policy in rounds 1, ..., t and the oracle afterwards; all share one stream
(CQB 1.4). psi_t = Q_t(T) - Q_{t-1}(T) is what the decision of round t costs at the end, and the
sum over t is Q(T) - Q*(T) exactly. Lemma 6 bounds E[psi_t] by the product of the root mean square
gap between the best success rate and the chosen one, and the root of the mean effect of one task
more. Takes a run of every pi_t: for short horizons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.experiments.queue import ORACLE
from opportune.experiments.settings import Progress
from opportune.kernels.queue import QueueStreams
from opportune.model.queue_generator import QueueWorld
from opportune.model.queue_streams import queue_streams
from opportune.policies.base import QueuePlan, queue_policy
from opportune.simulate.queue import queue_path

Float = NDArray[np.float64]

LONGEST = 2000
"""Longest horizon: the work grows with its square."""


@dataclass(frozen=True, eq=False)
class Switching:
    """What each round's decision costs, over replications. Axes: replication, round 1 to T - 1.

    Attributes:
        psi: (n, T - 1) Q_t(T) - Q_{t-1}(T), exact.
        gap: (n, T - 1) best success rate of the waiting tasks minus that of the chosen pair.
        one_more: (n, T - 1) effect at T of one task more after round t, both sides going on with
            the oracle on the same stream: 0 or 1, 0 where nothing waits.
        regret: (n,) Q(T) - Q*(T).
        largest_step: Largest difference of the queues of pi_t and pi_{t-1} at any time (Lemma 7
            says 1).
    """

    psi: NDArray[np.int64]
    gap: Float
    one_more: NDArray[np.int64]
    regret: NDArray[np.int64]
    largest_step: int

    @property
    def bound(self) -> Float:
        """(T - 1,) Lemma 6: sqrt(E[gap_t^2]) sqrt(E[one more task's effect])."""
        gap = np.sqrt((self.gap**2).mean(axis=0))
        return np.asarray(gap * np.sqrt(self.one_more.mean(axis=0)))


def switching(
    world: QueueWorld,
    plan: QueuePlan,
    horizon: int,
    run: tuple[int, int],
    progress: Progress | None = None,
) -> Switching:
    """Decompose the regret of a plan by the round that causes it.

    Args:
        world: Instance or generator; outcomes must be drawn, not recorded.
        plan: The policy's plan.
        horizon: T, at most 2,000.
        run: Replications and seed.
        progress: Called with the share of the work done.

    Raises:
        InputError: If the horizon is too long or outcomes are recorded.
    """
    if not 2 <= horizon <= LONGEST:
        raise InputError(Problem("horizon", str(horizon), f"from 2 to {LONGEST}"))
    if world.replays:
        told = "recorded outcomes"
        raise InputError(Problem("instance", told, "drawn outcomes: Lemmas 6 and 7 need them"))
    replications, seed = run
    oracle = queue_policy(ORACLE).plan(world, horizon)
    psi, gaps, more, regret = [], [], [], []
    largest = 0
    for replication in range(replications):
        streams = queue_streams(world, horizon, seed, replication)
        queues = [queue_path(streams, oracle).queue.astype(np.int64)]
        for t in range(1, horizon):
            switched = queue_path(streams, plan, switch=t).queue.astype(np.int64)
            largest = max(largest, int(np.abs(switched - queues[-1])[1:].max()))
            queues.append(switched)
        ends = np.array([queue[horizon] for queue in queues])
        path = queue_path(streams, plan)
        gap, one_more = _on_the_way(streams, path.pair[:, 0], path.flag[:, 0, 0] > 0)
        psi.append(np.diff(ends))
        gaps.append(gap)
        more.append(one_more)
        regret.append(int(path.queue[horizon]) - int(ends[0]))
        if progress is not None:
            progress((replication + 1) / replications, f"run {replication + 1} of {replications}")
    return Switching(np.array(psi), np.array(gaps), np.array(more), np.array(regret), largest)


def _on_the_way(
    streams: QueueStreams, pair: NDArray[np.int32], departed: NDArray[np.bool_]
) -> tuple[Float, NDArray[np.int64]]:
    """Gap of each round's choice, and what one task more would do at the end."""
    horizon = len(streams.uniform)
    best = streams.rate.max(axis=1)
    gap = np.zeros(horizon - 1)
    one_more = np.zeros(horizon - 1, dtype=np.int64)
    waiting: list[int] = []
    arrived = 0
    for t in range(1, horizon):
        while arrived < len(best) and streams.arrival_round[arrived] < t:
            waiting.append(arrived)
            arrived += 1
        if not waiting:
            continue
        task, server = (int(i) for i in pair[t])
        easiest = max(waiting, key=lambda i: best[i])
        gap[t - 1] = best[easiest] - streams.rate[task, server]
        without = [i for i in waiting if i != easiest]
        both = (_end(streams, best, (t, tasks)) for tasks in (waiting, without))
        one_more[t - 1] = next(both) - next(both)
        if departed[t]:
            waiting.remove(task)
    return gap, one_more


def _end(streams: QueueStreams, best: Float, state: tuple[int, Sequence[int]]) -> int:
    """Q(T) when the oracle goes on after round t with the tasks that wait then."""
    after, tasks = state
    horizon = len(streams.uniform)
    waiting = list(tasks)
    arrived = int(np.searchsorted(streams.arrival_round, after))
    for t in range(after + 1, horizon):
        while arrived < len(best) and streams.arrival_round[arrived] < t:
            waiting.append(arrived)
            arrived += 1
        if waiting:
            task = max(waiting, key=lambda i: best[i])
            if streams.uniform[t, 0] < best[task]:
                waiting.remove(task)
    return len(waiting) + int((streams.arrival_round[arrived:] < horizon).sum())
