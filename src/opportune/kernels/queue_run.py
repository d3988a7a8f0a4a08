"""The rounds of a queue: arrivals join, reports come in, pairs are chosen, served and learned from.

Implements: CQB 1.1 (dynamics), 3.1 (exploration of the fresh arrival by a uniform server, else the
best index), 1.4 (D = 1{U_t < rate}; pi_t: a policy up to a round, the oracle from there on).
Ours, heuristic: several pairs a round, chosen one after another by the same index; outcomes that
are learned from later, never, or more than once.
"""

from __future__ import annotations

import math

import numpy as np

from opportune.kernels.jit import jit_in_place
from opportune.kernels.logistic import (
    COVARIANCE,
    DESIGN_INVERSE,
    FAILED,
    LEARNED,
    LOSSES,
    PASSES,
    REFIT,
    SAMPLE,
    THETA,
)
from opportune.kernels.logistic_fit import NO_ESTIMATOR, learn
from opportune.kernels.queue import (
    ANY_TASK,
    ARRIVED,
    ATTEMPTS,
    DEPARTED,
    EXPLORED,
    INDEX,
    MEAN_THOMPSON,
    OLDEST_TASK,
    ORACLE,
    PENDING,
    REFITS,
    THOMPSON,
    UNFIT,
    USED,
    QueueLog,
    QueueStreams,
    QueueTables,
    exploration,
    radius_at,
)
from opportune.kernels.queue_draws import draw_beta, draw_theta
from opportune.kernels.queue_select import (
    FEW,
    ROUNDING,
    TASK,
    Features,
    Scan,
    best_pair,
    insert_task,
    is_open,
    move_anchor,
    next_server,
    pick_server,
    remove_task,
    rise_since_anchor,
    take_features,
    widths_are_small,
)
from opportune.kernels.queue_state import (
    ANCHOR_FIT,
    ANCHOR_RADIUS,
    CHECK,
    EVALUATED,
    FRESH,
    IN_USE,
    JOINED,
    LENGTH,
    NEWEST,
    OPEN,
    RADIUS,
    SIZE,
    SLACK,
    STALE,
    SUCCESSES,
    TAKEN,
    TRIALS,
    TURNED,
    USELESS,
    VALUE,
    WIDEST,
    State,
    join_arrivals,
    post,
)


@jit_in_place
def prepare_scan(streams: QueueStreams, tables: QueueTables, state: State, time: int) -> None:
    """Radius, Thompson's draw, anchor and slack for an exploiting round of a learner."""
    learner, whole, level = state.learner, state.whole, state.level
    number = learner.number
    level[SLACK] = math.inf
    radius = radius_at(tables.radius, number[LEARNED], number[LOSSES])
    level[RADIUS] = radius
    if tables.rule == THOMPSON:
        kind = DESIGN_INVERSE if tables.by_design else COVARIANCE
        draw_theta(streams.key, time, learner.matrix, learner.vector, (kind, radius))
        return
    if whole[SIZE] <= FEW:
        whole[STALE] = USELESS
        return
    refitted = number[REFIT] != level[ANCHOR_FIT] and radius > 0.0 and not tables.by_design
    many = whole[EVALUATED] > FEW + whole[SIZE] // 4 and whole[STALE] != FRESH
    if whole[STALE] == USELESS or refitted or many:
        move_anchor(learner, state.waiting, whole[SIZE])
        level[ANCHOR_RADIUS], level[ANCHOR_FIT] = radius, number[REFIT]
        whole[STALE] = FRESH  # the scan that follows evaluates all
    else:
        whole[STALE] = IN_USE
    slack = rise_since_anchor(learner.vector, level[LENGTH], tables.logit) + ROUNDING
    slack += max(0.0, radius - level[ANCHOR_RADIUS]) * level[WIDEST] * level[LENGTH]
    level[SLACK] = slack


@jit_in_place
def mean_server(
    streams: QueueStreams, rule: int, state: State, now: tuple[int, int], task: int
) -> int:
    """The open server of largest index without contexts (8: Q-UCB, Q-ThS); ``now``: round, turn."""
    time, turn = now
    tally = state.tally
    best, n_ties = -math.inf, 0
    for a in range(tally.shape[1]):
        n, successes = tally[TRIALS, a], tally[SUCCESSES, a]
        if rule == MEAN_THOMPSON:
            value = draw_beta(streams.key, (time, a), successes, n - successes)
        elif n == 0.0:
            value = math.inf
        else:
            value = successes / n + math.sqrt(math.log(time) ** 2 / (2.0 * n))
        tally[VALUE, a] = value if is_open(state.waiting, task, a) else -math.inf
        if tally[VALUE, a] > best:
            best, n_ties = tally[VALUE, a], 0
        n_ties += tally[VALUE, a] == best
    if best == -math.inf:
        return -1
    left = int(streams.choice[time, turn] * n_ties)
    for a in range(tally.shape[1]):
        if tally[VALUE, a] == best:
            if left == 0:
                return a
            left -= 1
    return -1


@jit_in_place
def exploit(
    streams: QueueStreams, tables: QueueTables, state: State, rule: int, now: tuple[int, int]
) -> tuple[int, int]:
    """Position and server of the exploiting choice, -1 and -1 if no pair is open."""
    time, turn = now
    whole, waiting = state.whole, state.waiting
    pairs = Features(streams.features, streams.known, streams.disjoint)
    size, fraction = whole[SIZE], streams.choice[time, turn]
    if rule <= ORACLE:
        scan = Scan(
            rule == ORACLE,
            tables.logit,
            THETA if rule == INDEX else SAMPLE,
            DESIGN_INVERSE if tables.by_design else COVARIANCE,
            state.level[RADIUS] if rule == INDEX else 0.0,
            0.0 if rule == ORACLE else state.level[SLACK],
        )
        at, server, whole[EVALUATED] = best_pair(
            pairs, state.learner, scan, waiting, size, fraction
        )
        return at, server
    start = int(fraction * size) if rule == ANY_TASK else 0
    for step in range(size):
        at = (start + step) % size
        task = waiting.place[TASK, at]
        if rule in (ANY_TASK, OLDEST_TASK):
            server = pick_server(waiting, task, streams.server[time, turn])
        else:
            server = mean_server(streams, rule, state, now, task)
        if server >= 0:
            return at, server
    return -1, -1


@jit_in_place
def explore(streams: QueueStreams, tables: QueueTables, state: State, time: int) -> tuple[int, int]:
    """Position and server of the exploring choice, -1 and -1 if this round does not explore."""
    whole, waiting, schedule = state.whole, state.waiting, tables.schedule
    if whole[SIZE] == 0 or (schedule.fresh_only and whole[NEWEST] < 0):
        return -1, -1
    if not streams.explore[time] < exploration(schedule, time, whole[OPEN] == 1):
        return -1, -1
    at = whole[SIZE] - 1 if schedule.fresh_only else 0
    task = waiting.place[TASK, at]
    if schedule.round_robin and time <= schedule.tau_1:
        server = next_server(waiting, task, whole[TURNED] % waiting.used.shape[0])
        whole[TURNED] += 1
    else:
        server = pick_server(waiting, task, streams.server[time, 0])
    return (at, server) if server >= 0 else (-1, -1)


@jit_in_place
def choose_pairs(
    streams: QueueStreams, tables: QueueTables, state: State, time: int, switch: int
) -> None:
    """Take up to m tasks out of the queue, each with a server of its own."""
    whole, waiting, chosen = state.whole, state.waiting, state.chosen
    rule = ORACLE if time > switch else tables.rule
    waiting.used[:] = False
    at, server = -1, -1
    if rule != ORACLE:
        at, server = explore(streams, tables, state, time)
        if (server < 0 or chosen.shape[1] > 1) and rule <= THOMPSON and whole[SIZE] > 0:
            prepare_scan(streams, tables, state, time)
    whole[TAKEN] = 0
    while whole[TAKEN] < chosen.shape[1] and whole[SIZE] > 0:
        n = whole[TAKEN]
        explored = n == 0 and server >= 0
        if not explored:
            at, server = exploit(streams, tables, state, rule, (time, n))
        if server < 0:
            break
        chosen[0, n], chosen[1, n] = waiting.place[TASK, at], server
        chosen[2, n] = explored or rule in (ANY_TASK, OLDEST_TASK)
        state.bound[n] = waiting.bound[at]
        waiting.used[server] = True
        remove_task(waiting, whole[SIZE], at)
        whole[SIZE] -= 1
        whole[TAKEN] += 1


@jit_in_place
def serve_pair(streams: QueueStreams, state: State, now: tuple[int, int], log: QueueLog) -> None:
    """Serve pair number ``turn`` of the round: it departs, or waits on; its outcome is posted."""
    time, turn = now
    counts, waiting, n_turns = log.counts, state.waiting, state.bound.shape[0]
    task, server = state.chosen[0, turn], state.chosen[1, turn]
    departs = streams.uniform[time, turn] < streams.rate[task, server]
    if not departs:
        insert_task(waiting, state.whole[SIZE], task, state.bound[turn])
        state.whole[SIZE] += 1
        if streams.once:
            waiting.tried[task, server] = True
    counts[ATTEMPTS] += 1
    counts[EXPLORED] += state.chosen[2, turn]
    counts[DEPARTED] += departs
    if log.pair.shape[0] > 0:
        log.pair[time, turn, 0], log.pair[time, turn, 1] = task, server
        log.flag[time, turn, 0], log.flag[time, turn, 1] = departs, state.chosen[2, turn]
    counts[PENDING] += 1
    outcome = (task, server, 1.0 if departs else 0.0)
    if state.head.shape[1] == 1:
        post(state, 0, turn, outcome)
        return
    due = int(time + 1 + streams.delay[time])
    if due < state.head.shape[1]:
        post(state, due, time * n_turns + turn, outcome)


@jit_in_place
def learn_due(
    streams: QueueStreams, tables: QueueTables, state: State, time: int, log: QueueLog
) -> None:
    """Learn from the outcomes that are known before round time + 1, as often as reported."""
    pairs = Features(streams.features, streams.known, streams.disjoint)
    how = (tables.estimator, tables.by_design)
    delayed = state.head.shape[1] > 1
    due = time + 1 if delayed else 0
    at = state.head[0, due]
    state.head[0, due] = -1
    while at >= 0:
        task, server = state.report[1, at], state.report[2, at]
        departed = float(state.report[3, at])
        sent = at // state.bound.shape[0] if delayed else time
        copies = np.int64(streams.copies[sent]) if streams.copies.shape[0] > 0 else 1
        for _ in range(copies if tables.count_copies else min(copies, 1)):
            state.tally[SUCCESSES, server] += departed
            state.tally[TRIALS, server] += 1.0
            if tables.estimator != NO_ESTIMATOR:
                b = take_features(pairs, state.learner, task, server)
                learn(state.learner, b, departed, tables.fitting, how)
        log.counts[PENDING] -= copies > 0
        at = state.report[0, at]


@jit_in_place
def run_queue(
    streams: QueueStreams, tables: QueueTables, state: State, switch: int, log: QueueLog
) -> None:
    """Play the rounds 1 .. T-1 from a new state; from round ``switch`` + 1 on by the oracle."""
    whole, level, number, counts = state.whole, state.level, state.learner.number, log.counts
    n_rounds, factor = streams.uniform.shape[0], tables.schedule.width_factor
    pairs = Features(streams.features, streams.known, streams.disjoint)
    for time in range(1, n_rounds):
        join_arrivals(streams, state, time)
        log.queue[time] = whole[SIZE]
        if time == switch + 1:
            for i in range(whole[SIZE]):
                state.waiting.bound[i] = math.inf
        if factor > 0.0 and whole[OPEN] == 1 and number[LEARNED] >= level[CHECK]:
            level[CHECK] = 1.05 * number[LEARNED] + 1.0
            if widths_are_small(pairs, state.learner, whole[JOINED], time, factor):
                whole[OPEN] = 0
        choose_pairs(streams, tables, state, time, switch)
        for turn in range(whole[TAKEN]):
            serve_pair(streams, state, (time, turn), log)
        learn_due(streams, tables, state, time, log)
    join_arrivals(streams, state, n_rounds)
    log.queue[n_rounds] = whole[SIZE]
    counts[ARRIVED] = whole[JOINED]
    counts[USED] = np.int64(number[LEARNED])
    counts[REFITS] = np.int64(number[PASSES])
    counts[UNFIT] = np.int64(number[FAILED])
    for b in range(log.theta.shape[0]):
        for j in range(log.theta.shape[1]):
            log.theta[b, j] = state.learner.vector[THETA, b, j]
