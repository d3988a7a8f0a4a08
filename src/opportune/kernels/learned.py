"""Tasks whose scores are hidden: served by a ranking until it is time to price again.

Implements: LAG section 1 (quoted) from event to event, and its extension to a queue (ours,
``learned.md`` 2): servers that become free take the waiting task of largest index. A server taken
at step t is free again at t + D + 1; its outcome is known from then on. In one step services end
first, then waiting tasks begin, then the new task is decided. The ranking holds for a stretch of
tasks; between two stretches the caller learns from the outcomes and prices again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import index_below
from opportune.kernels.jit import jit
from opportune.kernels.streams import NEVER

Float = NDArray[np.float64]
Int = NDArray[np.int64]

OUTCOME, EXPLORE, PICK, SEQUENCE, WINDOW = 20, 21, 22, 23, 24
"""Purposes: uniforms of outcomes, of the forced share, of its picks, of the order of a log, of the
place in a trace."""

NEXT, TIME, WAITING, STARTED, ENDED, SEARCHED = range(6)
"""``LearnedState.number``: next task to arrive, step of the last event, tasks that wait, services
begun, outcomes told, searches among those who wait."""


class HiddenStreams(NamedTuple):
    """All randomness of a run of n tasks, drawn beforehand. K is the largest k."""

    gap: Int  # (n,) steps since the previous arrival
    task_type: NDArray[np.int32]  # (n,)
    row: NDArray[np.int32]  # (n,) row of ``HiddenScores.value``: the type, or the context
    duration: Int  # (n,) steps, by task or by place in the order of starts
    choice: NDArray[np.uint32]  # (n, K) 32-bit fractions that break ties
    outcome: Float  # (n, K) uniforms: success iff below the score
    explore: Float  # (n,) forced iff below the share
    pick: Float  # (n, K) which servers are forced
    key: tuple[np.uint64, np.uint64]  # seed and replication, for policies that draw


class HiddenScores(NamedTuple):
    """What the ranking must not know."""

    value: Float  # (rows, M) expected outcome in [0, 1]
    model: Int  # (R,) column of ``value`` of each server
    drawn: bool  # outcomes are Bernoulli(value); otherwise they are the value itself


class Rules(NamedTuple):
    """How tasks are served; the same for every ranking of a run."""

    allowed: NDArray[np.bool_]  # (V, R)
    servers_per_task: Int  # (V,)
    queue: bool  # tasks wait instead of being dropped
    fifo: bool  # the task that waited longest begins first, whatever its index
    by_start: bool  # the n-th service to begin takes the n-th duration (one law for all types)


class Ranking(NamedTuple):
    """What decides: score - cost, then ``second``, larger first; ``rank``, smaller; then chance."""

    score: Float  # (rows, columns)
    column: Int  # (R,) column of ``score`` of each server
    by_context: bool  # rows are contexts, not types
    cost: Float  # (V, R) opportunity cost
    second: Float  # (V, R)
    rank: Int  # (R,) smaller first
    forced: NDArray[np.bool_]  # (V, R) pairs that the forced share may take
    share: float  # probability that a task is forced


class LearnedState(NamedTuple):
    """What the next event needs; updated in place."""

    busy_until: Int  # (R,)
    serving: Int  # (R,) task in service, -1 for none
    slot: Int  # (R,) which of the task's servers this one is
    waiting: Int  # (n,) tasks that wait, by arrival, the first number[WAITING] of them
    number: Int  # (6,)
    picks: Int  # (3, R) scratch: picked, tied, picked of the best waiting task
    searched: Int  # (V,) scratch: the last search that looked at a type


class LearnedLog(NamedTuple):
    """What happened, by task, and the outcomes in the order in which they were told."""

    chosen: NDArray[np.int32]  # (n, K) servers, -1 where dropped
    start: Int  # (n,) step of the start, -1 where there is none
    finish: Int  # (n,) step at which the servers are free again
    reward: Float  # (n,) sum of values over the servers
    forced: NDArray[np.bool_]  # (n,) whether the forced share decided
    ended_task: NDArray[np.int32]  # (n K,)
    ended_server: NDArray[np.int32]  # (n K,)
    ended_outcome: Float  # (n K,)


@jit
def pick_ranked(
    task: tuple[int, int, int],
    streams: HiddenStreams,
    rules: Rules,
    ranking: Ranking,
    state: LearnedState,
) -> tuple[int, float, float]:
    """The k best free permitted servers of a task into picks[0]; found, sums of index and second.

    ``task`` is (number, step, k). Exact ties of index, second and rank are broken by chance.
    """
    i, time, k = task
    v = streams.task_type[i]
    row = streams.row[i] if ranking.by_context else v
    picks = state.picks
    total, seconds = 0.0, 0.0
    for found in range(k):
        n_tied, best, best_second, best_rank = 0, -np.inf, -np.inf, 0
        for r in range(state.busy_until.shape[0]):
            if state.busy_until[r] > time or not rules.allowed[v, r]:
                continue
            index = ranking.score[row, ranking.column[r]] - ranking.cost[v, r]
            second, rank = ranking.second[v, r], ranking.rank[r]
            if n_tied > 0:
                if index < best:
                    continue
                if index == best:
                    if second < best_second:
                        continue
                    if second == best_second and rank > best_rank:
                        continue
            taken = False
            for j in range(found):
                taken = taken or picks[0, j] == r
            if taken:
                continue
            if n_tied == 0 or index > best or second > best_second or rank < best_rank:
                n_tied, best, best_second, best_rank = 0, index, second, rank
            picks[1, n_tied] = r
            n_tied += 1
        if n_tied == 0:
            return found, total, seconds
        picks[0, found] = picks[1, index_below(streams.choice[i, found], n_tied)]
        total += best
        seconds += best_second
    return k, total, seconds


@jit
def pick_forced(
    task: tuple[int, int, int],
    streams: HiddenStreams,
    rules: Rules,
    ranking: Ranking,
    state: LearnedState,
) -> int:
    """k free pairs of the forced share, uniformly, into picks[0]; how many were found."""
    i, time, k = task
    v = streams.task_type[i]
    picks, n = state.picks, 0
    for r in range(state.busy_until.shape[0]):
        if state.busy_until[r] <= time and rules.allowed[v, r] and ranking.forced[v, r]:
            picks[0, n] = r
            n += 1
    for j in range(min(k, n)):
        other = j + int(streams.pick[i, j] * (n - j))
        picks[0, j], picks[0, other] = picks[0, other], picks[0, j]
    return min(k, n)


@jit
def begin(
    task: tuple[int, int, int],
    streams: HiddenStreams,
    scores: HiddenScores,
    rules: Rules,
    state: LearnedState,
    log: LearnedLog,
) -> None:
    """Start a task on the servers picks[0, :k]."""
    i, time, k = task
    place = state.number[STARTED] if rules.by_start else i
    free_again = time + streams.duration[place] + 1
    state.number[STARTED] += 1
    log.start[i] = time
    log.finish[i] = free_again
    for j in range(k):
        r = state.picks[0, j]
        state.busy_until[r] = free_again
        state.serving[r] = i
        state.slot[r] = j
        log.chosen[i, j] = r
        log.reward[i] += scores.value[streams.row[i], scores.model[r]]


@jit
def begin_waiting(
    time: int,
    streams: HiddenStreams,
    scores: HiddenScores,
    ruled: tuple[Rules, Ranking],
    state: LearnedState,
    log: LearnedLog,
) -> None:
    """Start waiting tasks as long as one of them finds its servers.

    The first of largest total index begins, or with ``fifo`` the first that can. Tasks of a type
    whose index does not depend on a context are alike: only the first of them is looked at.
    """
    rules, ranking = ruled
    picks = state.picks
    searching = True
    while searching and state.number[WAITING] > 0:
        place, best, best_second = -1, -np.inf, -np.inf
        state.number[SEARCHED] += 1
        for w in range(state.number[WAITING]):
            i = state.waiting[w]
            v = streams.task_type[i]
            if not ranking.by_context and state.searched[v] == state.number[SEARCHED]:
                continue
            state.searched[v] = state.number[SEARCHED]
            k = rules.servers_per_task[v]
            found, total, second = pick_ranked((i, time, k), streams, rules, ranking, state)
            if found < k:
                continue
            if place < 0 or total > best or (total == best and second > best_second):
                place, best, best_second = w, total, second
                for j in range(k):
                    picks[2, j] = picks[0, j]
                if rules.fifo:
                    break
        searching = place >= 0
        if searching:
            i = state.waiting[place]
            k = rules.servers_per_task[streams.task_type[i]]
            for j in range(k):
                picks[0, j] = picks[2, j]
            begin((i, time, k), streams, scores, rules, state, log)
            for w in range(place, state.number[WAITING] - 1):
                state.waiting[w] = state.waiting[w + 1]
            state.number[WAITING] -= 1


@jit
def end_services(
    time: int,
    streams: HiddenStreams,
    scores: HiddenScores,
    ruled: tuple[Rules, Ranking],
    state: LearnedState,
    log: LearnedLog,
) -> None:
    """Tell the outcomes of all services that end up to a step, in the order of their ends."""
    n_servers = state.busy_until.shape[0]
    while True:
        end = time + 1
        for r in range(n_servers):
            if state.serving[r] >= 0 and state.busy_until[r] < end:
                end = state.busy_until[r]
        if end > time:
            return
        for r in range(n_servers):
            i = state.serving[r]
            if i >= 0 and state.busy_until[r] == end:
                value = scores.value[streams.row[i], scores.model[r]]
                if scores.drawn:
                    value = 1.0 if streams.outcome[i, state.slot[r]] < value else 0.0
                at = state.number[ENDED]
                log.ended_task[at] = i
                log.ended_server[at] = r
                log.ended_outcome[at] = value
                state.number[ENDED] = at + 1
                state.serving[r] = -1
        state.number[TIME] = end
        if ruled[0].queue:
            begin_waiting(end, streams, scores, ruled, state, log)


@jit
def run_tasks(
    until: int,
    streams: HiddenStreams,
    scores: HiddenScores,
    ruled: tuple[Rules, Ranking],
    state: LearnedState,
    log: LearnedLog,
) -> None:
    """Serve tasks up to number ``until``; where that is all of them, until none waits or is served.

    Servers that have not joined yet have ``busy_until`` = ``NEVER`` and serve nobody.
    """
    rules, ranking = ruled
    arrival = state.number[TIME]
    if rules.queue:
        begin_waiting(arrival, streams, scores, ruled, state, log)  # servers may have joined
    for i in range(state.number[NEXT], until):
        arrival += streams.gap[i]
        end_services(arrival, streams, scores, ruled, state, log)
        state.number[TIME] = arrival
        v = streams.task_type[i]
        task = (i, arrival, rules.servers_per_task[v])
        forced = streams.explore[i] < ranking.share
        found = pick_forced(task, streams, rules, ranking, state) if forced else 0
        if found < task[2]:
            forced = False
            found, _, _ = pick_ranked(task, streams, rules, ranking, state)
        if found == task[2]:
            begin(task, streams, scores, rules, state, log)
            log.forced[i] = forced
        elif rules.queue:
            state.waiting[state.number[WAITING]] = i
            state.number[WAITING] += 1
    state.number[NEXT] = until
    if until == streams.gap.shape[0]:
        end_services(NEVER - 1, streams, scores, ruled, state, log)
