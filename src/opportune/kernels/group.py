"""Plans that look at more than who is free: busy servers of each group, or the whole state.

GROUP: the free group of highest rank, which depends on the type, the busy servers of that group
and the tasks in service (one server per task). STATES: a table from the exact state, which
counts the running tasks of each kind, to the kind that the task becomes (see ``states``).
Within a group the first free server is taken: its servers are equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit
from opportune.kernels.loss import Trace, Window, World
from opportune.kernels.streams import LossStreams

GROUP, STATES = 3, 4
"""Rules of a plan, beside those of ``kernels.allocate``."""


class GroupTables(NamedTuple):
    """A rank for every group. G groups, busy servers b of the group, H = M + 1 headcounts."""

    rank: NDArray[np.int32]  # (V, G, B, H) larger goes first, -1 for a forbidden pair
    group_of: NDArray[np.int64]  # (R,)
    copies: NDArray[np.int64]  # (G,) servers of each group
    rule: int


class StateTables(NamedTuple):
    """The kind of running task that each state gives each type. N states, J kinds."""

    action: NDArray[np.int32]  # (N, V) kind, -1 where the task is dropped
    up: NDArray[np.int32]  # (N, J) state with one more task of the kind
    down: NDArray[np.int32]  # (N, J) state with one less
    team: NDArray[np.int64]  # (J, G) servers of each group that a task of the kind takes
    group_of: NDArray[np.int64]  # (R,)
    rule: int


class CountState(NamedTuple):
    """What the next step needs; updated in place."""

    busy_until: NDArray[np.int64]  # (R,)
    clock: NDArray[np.int64]  # (1,) step of the last arrival handled, -1 at first
    picks: NDArray[np.int64]  # (R + 1,) scratch
    busy: NDArray[np.int64]  # (G,) scratch: busy servers, or servers wanted, of each group
    state: NDArray[np.int64]  # (2,) index of the state, and running tasks
    ends: NDArray[np.int64]  # (R,) first step at which a running task is over
    kinds: NDArray[np.int64]  # (R,) its kind; for GROUP scratch


@jit
def _pick_group(tables: GroupTables, state: CountState, time: int, v: int) -> int:
    """One server of the free group of highest rank into picks; 1, or 0 if none is free."""
    n_servers, n_groups = tables.group_of.shape[0], tables.copies.shape[0]
    for g in range(n_groups):
        state.busy[g] = 0
    total = 0
    for r in range(n_servers - 1, -1, -1):
        busy = state.busy_until[r] > time
        g = tables.group_of[r]
        state.busy[g] += busy
        total += busy
        if not busy:
            state.kinds[g] = r  # in the end its first free server
    h = min(total, tables.rank.shape[3] - 1)
    best, chosen = -1, -1
    for g in range(n_groups):
        b = state.busy[g]
        if b < tables.copies[g] and tables.rank[v, g, b, h] > best:
            best, chosen = tables.rank[v, g, b, h], g
    if chosen < 0:
        return 0
    state.picks[0] = state.kinds[chosen]
    return 1


@jit
def _pick_kind(tables: StateTables, state: CountState, time: int, v: int) -> int:
    """Forget the tasks that are over, then the servers of the tabled kind into picks.

    Returns the kind, or -1 if the task is dropped.
    """
    task = 0
    while task < state.state[1]:
        if state.ends[task] <= time:
            state.state[0] = tables.down[state.state[0], state.kinds[task]]
            state.state[1] -= 1
            state.ends[task] = state.ends[state.state[1]]
            state.kinds[task] = state.kinds[state.state[1]]
        else:
            task += 1
    kind = tables.action[state.state[0], v]
    if kind < 0:
        return -1
    for g in range(tables.team.shape[1]):
        state.busy[g] = tables.team[kind, g]
    found = 0
    for r in range(tables.group_of.shape[0]):
        g = tables.group_of[r]
        if state.busy[g] > 0 and state.busy_until[r] <= time:
            state.picks[found] = r
            state.busy[g] -= 1
            found += 1
    return kind


@jit
def serve_picks(
    world: World, window: Window, state: Any, trace: Trace, task: tuple[int, int, int, int]
) -> None:
    """Let the first k picks serve a task (time, type, k, first step at which they are free).

    ``state`` is any one with ``busy_until`` and ``picks``.
    """
    time, v, k, free_again = task
    counted = time >= window.warm_up
    busy = max(min(free_again, window.horizon) - max(time + 1, window.warm_up), 0)
    n_batches = trace.reward.shape[0]
    batch = 0
    if counted:  # the last batch that begins at this step or before
        at = time - window.warm_up
        batch = min(((at + 1) * n_batches - 1) // (window.horizon - window.warm_up), n_batches - 1)
    for j in range(k):
        r = state.picks[j]
        state.busy_until[r] = free_again
        trace.busy_steps[r] += busy
        trace.assigned[v, r] += counted
        trace.reward[batch] += counted * world.match_reward[v, r]


@jit
def run_group_arrivals(
    streams: LossStreams,
    tables: GroupTables,
    world: World,
    window: Window,
    state: CountState,
    log: tuple[Trace, NDArray[np.int32]],
) -> int:
    """As ``run_arrivals``, for a GROUP plan: one server per task."""
    trace, chosen = log
    time = state.clock[0]
    for i in range(streams.gap.shape[0]):
        if streams.gap[i] >= window.horizon - time:
            state.clock[0] = window.horizon
            return i
        time += streams.gap[i]
        v = streams.task_type[i]
        found = _pick_group(tables, state, time, v)
        if chosen.shape[0] > 0:
            chosen[i, 0] = state.picks[0] if found else -1
        trace.arrived[v] += time >= window.warm_up
        if found:
            serve_picks(world, window, state, trace, (time, v, 1, time + streams.duration[i] + 1))
        else:
            trace.blocked[v] += time >= window.warm_up
    state.clock[0] = time
    return streams.gap.shape[0]


@jit
def run_state_arrivals(
    streams: LossStreams,
    tables: StateTables,
    world: World,
    window: Window,
    state: CountState,
    log: tuple[Trace, NDArray[np.int32]],
) -> int:
    """As ``run_arrivals``, for a STATES plan."""
    trace, chosen = log
    time = state.clock[0]
    for i in range(streams.gap.shape[0]):
        if streams.gap[i] >= window.horizon - time:
            state.clock[0] = window.horizon
            return i
        time += streams.gap[i]
        v = streams.task_type[i]
        kind = _pick_kind(tables, state, time, v)
        k = world.servers_per_task[v]
        for j in range(chosen.shape[1] if chosen.shape[0] > 0 else 0):
            chosen[i, j] = state.picks[j] if kind >= 0 and j < k else -1
        trace.arrived[v] += time >= window.warm_up
        if kind >= 0:
            free_again = time + streams.duration[i] + 1
            serve_picks(world, window, state, trace, (time, v, k, free_again))
            state.ends[state.state[1]] = free_again
            state.kinds[state.state[1]] = kind
            state.state[1] += 1
            state.state[0] = tables.up[state.state[0], kind]
        else:
            trace.blocked[v] += time >= window.warm_up
    state.clock[0] = time
    return streams.gap.shape[0]
