"""The (m,n)-scaled system: m dispatchers, mn servers of every type, counts instead of servers.

Implements: LAG Definition 4.1 and Appendix A (quoted). Every step the mn servers of each type
are split uniformly over the m dispatchers, n to each; a task of type v at a dispatcher takes
n k_v of the free ones there, or is dropped; they share one duration.

State: free servers per type, and a calendar (a ring over steps) of how many return when; so a
step costs O(R) and a task O(R). Arrivals come from the same streams as in the ordinary system
(``kernels.streams``), with *slots* for steps: slot t m + j is dispatcher j at step t, so one
dispatcher gives exactly the ordinary arrivals. What a dispatcher sees of each type is one
hypergeometric draw, given what earlier dispatchers of the step saw; dispatchers without a task
need none. These draws depend on the state, so they are read by position from a counter-based
generator: the draw for server type r at arrival i stands at i R + r, whatever happened before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import WaterfillTables, round_largest_remainder, waterfill
from opportune.kernels.hypergeometric import Urn, hypergeometric
from opportune.kernels.jit import jit
from opportune.kernels.loss import Window
from opportune.kernels.streams import LossStreams, unit, words

PARTITION, START = 20, 21
"""Purposes of the counter-based draws: what a dispatcher sees; the state at the start."""

Counts = NDArray[np.int64]


class ScaledSystem(NamedTuple):
    """An instance at scale (m, n)."""

    key: tuple[np.uint64, np.uint64]  # (seed, replication)
    m: int  # dispatchers
    n: int  # servers of each type that a dispatcher sees; a task takes n k_v of them
    match_reward: NDArray[np.float64]  # (V, R)
    servers_per_task: Counts  # (V,)


class ScaledState(NamedTuple):
    """What the next step needs; updated in place."""

    free: Counts  # (R,) free servers of each type
    calendar: Counts  # (d + 2, R) servers that return at step t, in row t mod (d + 2)
    clock: Counts  # (3,) step opened last (-1 at first), slot of the last arrival, arrivals
    unseen: Counts  # (2, R) servers, and free ones, not yet shown to a dispatcher of this step
    taken: Counts  # (R,) scratch
    seen: NDArray[np.float64]  # (2, R) scratch: free servers seen, amounts


class ScaledTrace(NamedTuple):
    """What happened in the counted window; in servers, so divide by mn."""

    assigned: Counts  # (V, R)
    busy_steps: Counts  # (R,) busy servers, summed over steps
    arrived: Counts  # (V,) tasks
    blocked: Counts  # (V,)
    reward: NDArray[np.float64]  # (batches,) by equal parts of the window
    free_path: Counts  # (steps, R) free servers at every counted step; no rows: not kept
    reward_path: NDArray[np.float64]  # (steps,) reward of every counted step, likewise


@jit
def run_slots(
    streams: LossStreams,
    tables: WaterfillTables,
    system: ScaledSystem,
    window: Window,
    state: ScaledState,
    trace: ScaledTrace,
) -> bool:
    """Serve a block of arrivals; return whether the horizon is reached."""
    m, n = system.m, system.n
    longest = state.calendar.shape[0] - 2
    steps = window.horizon - window.warm_up
    n_batches = trace.reward.shape[0]
    slot, arrival = state.clock[1], state.clock[2]
    for i in range(streams.gap.shape[0]):
        if streams.gap[i] >= window.horizon * m - slot:
            open_steps(window.horizon - 1, system, window, state, trace)
            return True
        slot += streams.gap[i]
        time = slot // m
        open_steps(time, system, window, state, trace)
        v = streams.task_type[i]
        want = n * system.servers_per_task[v]
        order = tables.order[v, : tables.n_allowed[v]]
        found = _look(order, system, arrival, state)
        arrival += 1
        counted = time >= window.warm_up
        trace.arrived[v] += counted
        if found < want:
            trace.blocked[v] += counted
            continue
        seen, amount = state.seen[0], state.seen[1]
        waterfill(float(want), seen, tables.group[v], order, tables.weight[v], amount)
        round_largest_remainder(amount, 1, want, order, state.taken)
        back = (time + min(streams.duration[i], longest) + 1) % (longest + 2)
        reward = 0.0
        for r in order:
            taken = state.taken[r]
            state.free[r] -= taken
            state.calendar[back, r] += taken
            reward += taken * system.match_reward[v, r]
            trace.assigned[v, r] += counted * taken
        if counted:
            trace.reward[(time - window.warm_up) * n_batches // steps] += reward
            if trace.reward_path.shape[0] > 0:
                trace.reward_path[time - window.warm_up] += reward
    state.clock[1], state.clock[2] = slot, arrival
    return False


@jit
def open_steps(
    until: int, system: ScaledSystem, window: Window, state: ScaledState, trace: ScaledTrace
) -> None:
    """Open all steps up to ``until``: servers return, and every dispatcher's view is new."""
    n_rows, n_servers = state.calendar.shape
    everyone = system.m * system.n
    for time in range(state.clock[0] + 1, until + 1):
        row = time % n_rows
        for r in range(n_servers):
            state.free[r] += state.calendar[row, r]
            state.calendar[row, r] = 0
        if time >= window.warm_up:
            for r in range(n_servers):
                trace.busy_steps[r] += everyone - state.free[r]
            if trace.free_path.shape[0] > 0:
                trace.free_path[time - window.warm_up] = state.free
    if until > state.clock[0]:
        state.clock[0] = until
        for r in range(n_servers):
            state.unseen[0, r] = everyone
            state.unseen[1, r] = state.free[r]


@jit
def _look(order: Counts, system: ScaledSystem, arrival: int, state: ScaledState) -> int:
    """What the next dispatcher sees free of each type in ``order``, and their sum.

    Uniform partition, one type after another, one dispatcher after another: given the earlier
    ones, the free among the next n is hypergeometric in what is left.
    """
    found = 0
    n_servers = state.free.shape[0]
    for r in order:
        left, left_free = state.unseen[0, r], state.unseen[1, r]
        here = left_free
        if left > system.n:
            position = np.uint64(arrival) * np.uint64(n_servers) + np.uint64(r)
            urn = Urn(left, left_free, system.n)
            here = hypergeometric(system.key, PARTITION, position, urn)
        state.unseen[0, r] = left - system.n
        state.unseen[1, r] = left_free - here
        state.seen[0, r] = here
        found += here
    return found


@jit
def round_state(
    key: tuple[np.uint64, np.uint64], everyone: int, x: NDArray[np.float64], counts: Counts
) -> None:
    """Whole counts (R, d+1) for shares x (R, d+1): each row sums to ``everyone``, mean exact.

    Floors of everyone x; what is left over is multinomial in proportion to the remainders.
    """
    n_servers, n_states = x.shape
    position = np.uint64(0)
    for r in range(n_servers):
        left, total = everyone, 0.0
        for i in range(n_states):
            counts[r, i] = np.int64(np.floor(everyone * x[r, i]))
            left -= counts[r, i]
            total += everyone * x[r, i] - counts[r, i]
        floors = counts[r].copy()
        for _ in range(left):
            w0, w1, _, _ = words(key, START, position)
            position += np.uint64(1)
            target = unit(w0, w1) * total
            chosen = 0
            for i in range(n_states):
                remainder = everyone * x[r, i] - floors[i]
                chosen = i if remainder > 0.0 else chosen
                if target < remainder:
                    break
                target -= remainder
            counts[r, chosen] += 1
