"""HC-LP as it is written, on HiGHS: what the structured interior point must agree with."""

from __future__ import annotations

import math

import numpy as np

from opportune.kernels.markov import headcount_transition, stationary
from opportune.model.loss import LossInstance
from opportune.pricing.lp import Program, solve


def bin_law(n: int, f: float, d: int) -> float:
    """P(Binomial(n, f) = d), 0 outside."""
    if d < 0 or d > n or n < 0:
        return 0.0
    return math.comb(n, d) * f**d * (1.0 - f) ** (n - d)


def stays_busy(n: int, to: int, size: int, rates: tuple[float, float]) -> float:
    """P(busy server stays busy and N moves from n to ``to``); rates are (L, f)."""
    arrival, f = rates
    if n == size:
        return (1 - f) * bin_law(size - 1, f, size - to)
    with_task = arrival * bin_law(n - 1, f, n + 1 - to)
    return (1 - f) * (with_task + (1 - arrival) * bin_law(n - 1, f, n - to))


def hc_lp(instance: LossInstance) -> float:
    """Value of HC-LP, conditional on the headcount, with the backward weights AB and BB.

    Implements: headcount.md (a), (b), (c), quoted. Columns: u[v,r,n], then x[r,n], n = 1..M.
    """
    k = int(instance.servers_per_task[0])
    n_types, n_servers = instance.match_reward.shape
    size = n_servers // k
    lam = instance.arrival_rate
    arrival, f = float(lam.sum()), 1.0 / instance.duration[0].mean
    pi = stationary(headcount_transition(size, arrival, f))

    def u(v: int, r: int, n: int) -> int:
        return (v * n_servers + r) * size + n

    def x(r: int, n: int) -> int:
        return n_types * n_servers * size + r * size + n - 1

    n_columns = (n_types + 1) * n_servers * size
    cost = np.zeros(n_columns)
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def row(coefficients: list[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), column, value) for column, value in coefficients)
        low.append(least)
        high.append(most)

    for v in range(n_types):
        for n in range(size):
            row([(u(v, r, n), 1.0) for r in range(n_servers)], k * lam[v], k * lam[v])
            for r in range(n_servers):
                cost[u(v, r, n)] = pi[n] * instance.match_reward[v, r]
                busy = [(x(r, n), lam[v])] if n else []
                row([(u(v, r, n), 1.0), *busy], -np.inf, lam[v])
    for r in range(n_servers):
        for to in range(1, size + 1):
            parts = {x(r, to): -1.0}
            for n in range(size):
                ab = pi[n] / pi[to] * bin_law(n, f, n + 1 - to)
                for v in range(n_types):
                    parts[u(v, r, n)] = ab
            for n in range(1, size + 1):
                bb = pi[n] / pi[to] * stays_busy(n, to, size, (arrival, f))
                parts[x(r, n)] = parts.get(x(r, n), 0.0) + bb
            row(list(parts.items()), 0.0, 0.0)
    rows, columns, values = zip(*entries, strict=True)
    program = Program(
        cost=cost,
        lower=np.zeros(n_columns),
        upper=np.ones(n_columns),
        row_lower=np.array(low),
        row_upper=np.array(high),
        row=np.array(rows, dtype=np.int64),
        column=np.array(columns, dtype=np.int64),
        value=np.array(values),
    )
    return solve(program, "HC-LP").value
