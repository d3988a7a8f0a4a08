"""A pool split into m sub-pools, each with an owner of its own; servers are re-dealt by period.

Implements: the partition of LAG Definition 4.1 for single servers (ours): at the start of every
period all servers are shuffled and dealt out like cards to m sub-pools, equal servers one after
another, so each sub-pool gets as many of each kind, to within one. A task goes to one sub-pool at
random, and is served by that one's free servers, k of them (not n k as in the definition), or is
dropped; with more than one try it goes on to the next sub-pools first.

A busy server moves with its service: it counts for its new sub-pool from the deal on, where it is
free again when the service ends. Since nobody can use it before, this is the same as if it stayed
with its old owner until then.

Everything else is the ordinary loss system (``kernels.loss``), and the same functions pick: the
list of sub-pool j stands where other plans have the list for headcount j, filled up with a server
number R that is never free. Which sub-pool a task asks first, and the shuffles, are read by
position from the counter-based generator, so runs with different m meet the same tasks.
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
    index_below,
    pick_by_weight,
    pick_first,
    pick_first_tied,
)
from opportune.kernels.group import serve_picks
from opportune.kernels.jit import jit
from opportune.kernels.loss import Trace, Window, World
from opportune.kernels.streams import LossStreams, words

DEAL, ROUTE = 30, 31
"""Purposes of the counter-based draws: the shuffles; which sub-pool a task asks first."""

_2, _3 = np.uint64(2), np.uint64(3)


class Deals(NamedTuple):
    """How servers are dealt and tasks are routed. R servers in G kinds."""

    key: tuple[np.uint64, np.uint64]  # (seed, replication)
    m: int  # sub-pools
    period: int  # steps from one deal to the next; 0: one deal for the whole run
    tries: int  # sub-pools that a task asks, at most m
    kind: NDArray[np.int64]  # (R,) equal servers have the same number below G
    size: NDArray[np.int64]  # (G,) servers of each kind


class SplitState(NamedTuple):
    """What the next step needs; updated in place."""

    busy_until: NDArray[np.int64]  # (R + 1,) the last one stands for no server: never free
    clock: NDArray[np.int64]  # (3,) step of the last arrival (-1 at first), arrivals, deal
    picks: NDArray[np.int64]  # (R + 2,) scratch
    pool_of: NDArray[np.int64]  # (R,) sub-pool of each server
    shuffled: NDArray[np.int64]  # (R,) scratch
    place: NDArray[np.int64]  # (max(G, m),) scratch


@jit
def run_split_arrivals(
    streams: LossStreams,
    tables: tuple[PlanTables, PlanTables],
    deals: Deals,
    setting: tuple[World, Window],
    state: SplitState,
    trace: Trace,
) -> bool:
    """Serve a block of arrivals; return whether the horizon is reached.

    ``tables`` is (whole, lists): the plan of the whole pool, and room for one list per sub-pool,
    ``order`` and ``level`` (V, m, S) with S = ceil(R / m), ``weight`` (V, R + 1) or (V, 0).
    """
    whole, lists = tables
    world, window = setting
    time, arrival = state.clock[0], state.clock[1]
    for i in range(streams.gap.shape[0]):
        if streams.gap[i] >= window.horizon - time:
            state.clock[0] = window.horizon
            return True
        time += streams.gap[i]
        number = time // deals.period if deals.period > 0 else 0
        if number != state.clock[2]:
            deal(number, deals, state)
            list_servers(whole, lists, deals.m, state)
            state.clock[2] = number
        v = streams.task_type[i]
        k = world.servers_per_task[v]
        fraction, _, _, _ = words(deals.key, ROUTE, np.uint64(arrival))
        first = int(index_below(np.uint32(fraction), deals.m))
        arrival += 1
        found, tried = 0, 0
        while found < k and tried < deals.tries:
            task = Task(time, v, (first + tried) % deals.m, k)
            if lists.rule == PRIORITY:
                found = pick_first(lists, state.busy_until, task, state.picks)
            elif lists.rule == PRIORITY_TIES:
                found = pick_first_tied(
                    lists, state.busy_until, task, streams.choice, i, state.picks
                )
            else:
                found = pick_by_weight(
                    lists, state.busy_until, task, streams.choice, i, state.picks
                )
            tried += 1
        counted = time >= window.warm_up
        trace.arrived[v] += counted
        if found < k:
            trace.blocked[v] += counted
        else:
            serve_picks(world, window, state, trace, (time, v, k, time + streams.duration[i] + 1))
    state.clock[0], state.clock[1] = time, arrival
    return False


@jit
def deal(number: int, deals: Deals, state: SplitState) -> None:
    """Deal ``number``: a shuffle, equal servers gathered, then one server to each in turn.

    Kinds go in the order in which the shuffle brings their first server.
    """
    n_servers = deals.kind.shape[0]
    shuffled, place = state.shuffled, state.place
    for r in range(n_servers):
        shuffled[r] = r
    base = np.uint64(number) * ((np.uint64(n_servers) + _3) >> _2)
    four = words(deals.key, DEAL, base)
    for i in range(n_servers):
        if i % 4 == 0:
            four = words(deals.key, DEAL, base + (np.uint64(i) >> _2))
        j = i + index_below(np.uint32(four[i % 4]), n_servers - i)
        shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
    total = 0
    place[:] = -1
    for r in shuffled:
        g = deals.kind[r]
        if place[g] < 0:
            place[g] = total
            total += deals.size[g]
        state.pool_of[r] = place[g] % deals.m
        place[g] += 1


@jit
def list_servers(whole: PlanTables, lists: PlanTables, m: int, state: SplitState) -> None:
    """Each sub-pool's part of the whole list, in the order of the whole list."""
    n_types, nobody = whole.n_allowed.shape[0], state.pool_of.shape[0]
    longest = lists.order.shape[2]
    for v in range(n_types):
        for j in range(m):
            state.place[j] = 0
        for position in range(whole.n_allowed[v]):
            r = whole.order[v, 0, position]
            j = state.pool_of[r]
            lists.order[v, j, state.place[j]] = r
            lists.level[v, j, state.place[j]] = whole.level[v, 0, position]
            state.place[j] += 1
        for j in range(m):
            for position in range(state.place[j], longest):
                lists.order[v, j, position] = nobody
                lists.level[v, j, position] = whole.order.shape[2]
