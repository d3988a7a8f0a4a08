"""Slow twins for deterministic durations: the optimum on residual vectors, a server on a path."""

from __future__ import annotations

import itertools

import numpy as np

from opportune.kernels.pathwise import ArrivalPath, Market, Penalty
from opportune.model.loss import LossInstance


def residual_optimum(instance: LossInstance, tolerance: float = 1e-9) -> float:
    """Largest reward per step, by value iteration on the steps left of every server.

    A server taken at t has D steps left at t + 1 (LAG section 1); all durations are D.
    """
    steps = int(instance.duration[0].mean)
    k, n_servers = int(instance.servers_per_task[0]), instance.n_servers
    states: dict[tuple[int, ...], int] = {(0,) * n_servers: 0}
    todo = [(0,) * n_servers]
    moves: dict[int, tuple[int, list[list[tuple[float, int]]]]] = {}
    while todo:
        state = todo.pop()
        quiet = tuple(max(x - 1, 0) for x in state)
        free = [r for r in range(n_servers) if state[r] == 0]
        options: list[list[tuple[float, tuple[int, ...]]]] = []
        for v in range(instance.n_types):
            own = []
            for team in itertools.combinations(free, k):
                after = tuple(steps if r in team else quiet[r] for r in range(n_servers))
                own.append((float(instance.match_reward[v, list(team)].sum()), after))
            options.append(own or [(0.0, quiet)])
        for after in [quiet, *(after for own in options for _, after in own)]:
            if after not in states:
                states[after] = len(states)
                todo.append(after)
        moves[states[state]] = (
            states[quiet],
            [[(reward, states[after]) for reward, after in own] for own in options],
        )
    value = np.zeros(len(states))
    rate = instance.arrival_rate
    idle = 1.0 - rate.sum()
    lazy = 0.5  # an aperiodic chain of the same gain per step of its own
    while True:
        fresh = np.empty_like(value)
        for i, (quiet, options) in moves.items():
            total = idle * value[quiet]
            for v, own in enumerate(options):
                total += rate[v] * max(reward + value[after] for reward, after in own)
            fresh[i] = lazy * total + (1 - lazy) * value[i]
        change = fresh - value
        value = fresh - fresh[0]
        if np.ptp(change) < tolerance * lazy:
            return float(change.max() + change.min()) / 2 / lazy


def server_on_path(path: ArrivalPath, penalty: Penalty, market: Market, g: int) -> float:
    """Best value of one server, step by step over every residual."""
    horizon, steps = len(path.level), penalty.steps
    later = np.zeros(steps + 1)  # V(t+1, j)
    for t in range(horizon - 1, -1, -1):
        n, e, beta = int(path.level[t]), int(path.expired[t]), int(path.arrived[t])
        now = np.zeros(steps + 1)
        room = n < penalty.size
        for j in range(1, steps + 1):
            charge = 0.0
            if room:
                up = penalty.busy[g, j - 1, n + 1 - e] - penalty.busy[g, j - 1, n - e]
                charge = (penalty.arrival - beta) * up
            now[j] = charge + later[j - 1]
        now[0] = later[0]
        if room:
            now[0] += (penalty.arrival - beta) * penalty.free[g, n, e]
            if beta:
                for v in range(len(market.share)):
                    gain = market.reward[g, v] - market.prices[v, n] + later[steps] - later[0]
                    must = penalty.forced and n == penalty.size - 1
                    now[0] += market.share[v] * (gain if must else max(gain, 0.0))
        later = now
    return float(later.max())
