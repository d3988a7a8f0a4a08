"""One step of the system when every random quantity equals its average: the fluid map G.

Implements: LAG Definitions 4.5 and 4.6 (reconstructed from the text; they are the ones for which
Lemma 4.4(b) holds). With phi_r = x_r0, u_vr(x) = lambda_v waterfill_r(k_v, phi; L(v,.), w_v):
    G_r0(x) = x_r0 - sum_v u_vr + x_r1
    G_ri(x) = x_r,i+1 + sum_v P(D_v = i) u_vr      for 1 <= i < d
    G_rd(x) = sum_v P(D_v = d) u_vr
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import WaterfillTables, waterfill
from opportune.kernels.jit import jit

Float = NDArray[np.float64]


class FluidSystem(NamedTuple):
    """What the fluid map needs of an instance. Types of one duration law share a row of it."""

    tables: WaterfillTables
    arrival_rate: Float  # (V,)
    servers_per_task: NDArray[np.int64]  # (V,)
    match_reward: Float  # (V, R)
    law: NDArray[np.int64]  # (V,) row of probability
    probability: Float  # (laws, d + 1) P(D = i)


class FluidScratch(NamedTuple):
    """Working space; ``rates`` holds u after a step."""

    rates: Float  # (V, R)
    by_law: Float  # (laws, R) u summed over the types of a law
    amount: Float  # (R,)
    free: Float  # (R,)


@jit
def fluid_rates(x: Float, system: FluidSystem, scratch: FluidScratch) -> None:
    """u(x) into ``scratch.rates`` for a state x (R, d+1)."""
    n_types, n_servers = scratch.rates.shape
    tables, free, amount = system.tables, scratch.free, scratch.amount
    scratch.by_law[:] = 0.0
    scratch.rates[:] = 0.0
    for r in range(n_servers):
        free[r] = x[r, 0]
    for v in range(n_types):
        budget = float(system.servers_per_task[v])
        order = tables.order[v, : tables.n_allowed[v]]
        waterfill(budget, free, tables.group[v], order, tables.weight[v], amount)
        for r in order:
            scratch.rates[v, r] = system.arrival_rate[v] * amount[r]
            scratch.by_law[system.law[v], r] += scratch.rates[v, r]


@jit
def fluid_step(x: Float, system: FluidSystem, scratch: FluidScratch) -> float:
    """x (R, d+1) becomes G(x); returns the reward of the step, sum_vr s_vr u_vr(x)."""
    fluid_rates(x, system, scratch)
    n_servers, n_states = x.shape
    reward = 0.0
    for v in range(scratch.rates.shape[0]):
        for r in range(n_servers):
            reward += system.match_reward[v, r] * scratch.rates[v, r]
    for r in range(n_servers):
        x[r, 0] += x[r, 1]
        for i in range(1, n_states - 1):
            x[r, i] = x[r, i + 1]
        x[r, n_states - 1] = 0.0
    for j in range(system.probability.shape[0]):
        for r in range(n_servers):
            rate = scratch.by_law[j, r]
            x[r, 0] = max(x[r, 0] - rate, 0.0)  # it takes at most what is free, but for rounding
            for i in range(1, n_states):
                x[r, i] += system.probability[j, i] * rate
    return reward


@jit
def fluid_path(
    x: Float, system: FluidSystem, scratch: FluidScratch, free: Float, reward: Float
) -> None:
    """Run G from x: ``free`` (T, R) at the beginning of each step, ``reward`` (T,) of each."""
    for t in range(reward.shape[0]):
        for r in range(x.shape[0]):
            free[t, r] = x[r, 0]
        reward[t] = fluid_step(x, system, scratch)


@jit
def fluid_distance(
    x: Float,
    target: Float,
    system: FluidSystem,
    scratch: FluidScratch,
    stop: float,
    distance: Float,
) -> int:
    """Run G from x; ``distance`` (T+1,) to the target after 0, 1, ..., T steps.

    The distance is the total variation between the law of one server's state and its target
    (half the sum of |x_ri - target_ri| over i), averaged over the server types: 0 to 1.
    The run ends when it is at most ``stop``. Returns how many entries were written.
    """
    n_servers, n_states = x.shape
    for t in range(distance.shape[0]):
        total = 0.0
        for r in range(n_servers):
            for i in range(n_states):
                total += abs(x[r, i] - target[r, i])
        distance[t] = total / (2.0 * n_servers)
        if distance[t] <= stop:
            return t + 1
        if t + 1 < distance.shape[0]:
            fluid_step(x, system, scratch)
    return distance.shape[0]
