"""One path of arrivals, seen by every server alone: values backwards, occupancy forwards.

For ``pricing.headcount_pathwise``: deterministic durations of D steps, the path of arrivals known,
the types of the tasks not. N_t tasks in service, alpha_t = 1 if a task is admitted at t, e_t = 1
if one expires, N_{t+1} = N_t + alpha_t - e_t. L is the probability of an arrival in a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit

Floats = NDArray[np.float64]


class ArrivalPath(NamedTuple):
    """A path of T steps. ``level`` is min(N_t, M); there is room for no task at M."""

    arrived: NDArray[np.int8]  # (T,)
    level: NDArray[np.int32]  # (T,) N_t
    expired: NDArray[np.int8]  # (T,) e_t
    admitted: NDArray[np.int64]  # (n,) steps at which a task is admitted


class Penalty(NamedTuple):
    """What knowing the path is charged; any values give a valid bound."""

    free: Floats  # (G, M, 2) value of a free server if a task arrives minus if not, at (N, e)
    busy: Floats  # (G, D + 1, M + 1) value of a server with j steps left at N tasks
    arrival: float  # L
    size: int  # M
    steps: int  # D
    forced: bool  # every free server is taken at N = M - 1


class Market(NamedTuple):
    """Rewards, prices and shares; ``smooth`` widens the maximum so that it can be derived."""

    reward: Floats  # (G, C)
    prices: Floats  # (C, M)
    share: Floats  # (C,) of the arriving tasks
    smooth: float


@jit
def walk_headcount(
    arrived: NDArray[np.int8], ring: NDArray[np.int8], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.int8]]:
    """N_t, e_t and alpha_t from the arrivals and the admissions of the last D steps (in place).

    ``ring[t % D]`` is alpha of step t - D, and of step t afterwards.
    """
    steps = ring.shape[0]
    n = arrived.shape[0]
    level = np.zeros(n, dtype=np.int32)
    expired = np.zeros(n, dtype=np.int8)
    admitted = np.zeros(n, dtype=np.int8)
    now = 0
    for i in range(steps):
        now += ring[i]
    for t in range(n):
        level[t] = now
        expired[t] = ring[t % steps]
        admitted[t] = arrived[t] == 1 and now < size
        ring[t % steps] = admitted[t]
        now += admitted[t] - expired[t]
    return level, expired, admitted


@jit
def charge_busy(path: ArrivalPath, penalty: Penalty, begin: int, g: int, left: int) -> float:
    """Sum of the penalties of a server with ``left`` steps to go at step ``begin``.

    At each step the conditional mean of its value minus the value: (L - beta) times what an
    arrival changes; nothing is random where no task can be admitted.
    """
    total = 0.0
    for i in range(min(left, path.level.shape[0] - begin)):
        t = begin + i
        if path.level[t] < penalty.size:
            n = path.level[t] - path.expired[t]
            j = left - 1 - i
            step = penalty.busy[g, j, n + 1] - penalty.busy[g, j, n]
            total += (penalty.arrival - path.arrived[t]) * step
    return total


@jit
def charge_all(path: ArrivalPath, penalty: Penalty, charged: Floats) -> None:
    """(G, n) penalties of a task taken at each admission, over its D steps."""
    for g in range(charged.shape[0]):
        for q in range(path.admitted.shape[0]):
            charged[g, q] = charge_busy(path, penalty, path.admitted[q] + 1, g, penalty.steps)


@jit
def values_backward(
    path: ArrivalPath, penalty: Penalty, market: Market, charged: Floats, gap: Floats
) -> Floats:
    """(G,) value of each server over the path, the larger of free and any residual at the start.

    V(t) is the value from step t of a server that is free there, V = 0 behind the end:
        no arrival:  V(t) = V(t+1) + L f          f: ``penalty.free`` at (N_t, e_t)
        arrival:     V(t) = V(t+1) - (1-L) f + sum_v p_v max(s_v - a_v + gap, 0)
    with gap (G, n) = V(t+1+D) - V(t+1) + the penalties while busy, returned for the way forward.
    """
    n_groups, n_types = market.reward.shape
    horizon, steps, size = path.level.shape[0], penalty.steps, penalty.size
    arrival, wide = penalty.arrival, 4.0 * market.smooth**2
    result = np.zeros(n_groups)
    value = np.zeros(horizon + steps + 2)
    for g in range(n_groups):
        q = path.admitted.shape[0] - 1
        for t in range(horizon - 1, -1, -1):
            n = path.level[t]
            if n >= size:
                value[t] = value[t + 1]
                continue
            charge = penalty.free[g, n, path.expired[t]]
            if path.arrived[t] == 0:
                value[t] = value[t + 1] + arrival * charge
                continue
            more = charged[g, q] + value[t + 1 + steps] - value[t + 1]
            gap[g, q] = more
            q -= 1
            gained = 0.0
            for v in range(n_types):
                x = market.reward[g, v] - market.prices[v, n] + more
                if not (penalty.forced and n == size - 1):
                    x = 0.5 * (x + np.sqrt(x * x + wide))
                gained += market.share[v] * x
            value[t] = value[t + 1] + gained - (1.0 - arrival) * charge
        best = value[0]
        for left in range(1, min(steps, horizon) + 1):
            best = max(best, charge_busy(path, penalty, 0, g, left) + value[left])
        result[g] = best
    return result


@jit
def takes_forward(
    path: ArrivalPath,
    penalty: Penalty,
    market: Market,
    gap: Floats,
    copies: Floats,
    taken: Floats,
) -> None:
    """Add to ``taken`` (C, M) the expected takes of all servers by type and headcount.

    A server follows the decisions of :func:`values_backward`; y is its probability of being free.
    """
    n_groups, n_types = market.reward.shape
    horizon, steps = path.level.shape[0], penalty.steps
    wide = 4.0 * market.smooth**2
    back = np.zeros(horizon + steps + 2)
    for g in range(n_groups):
        back[:] = 0.0
        y, last = 1.0, 0
        for q in range(path.admitted.shape[0]):
            t = path.admitted[q]
            for s in range(last, t + 1):
                y += back[s]
            last = t + 1
            n = path.level[t]
            takes = 0.0
            for v in range(n_types):
                x = market.reward[g, v] - market.prices[v, n] + gap[g, q]
                chance = 1.0 if x > 0.0 else 0.0
                if penalty.forced and n == penalty.size - 1:
                    chance = 1.0
                elif wide > 0.0:
                    chance = 0.5 * (1.0 + x / np.sqrt(x * x + wide))
                taken[v, n] += copies[g] * market.share[v] * y * chance
                takes += market.share[v] * chance
            back[t + 1 + steps] += y * takes
            y -= y * takes
