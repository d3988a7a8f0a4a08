"""Slow twins of the pricing kernels, in plain Python, from the formulas and not from the kernels.

Sources: the dual by servers, LAG section 3.2; the rounded dual, the optimality conditions with
the barrier and their Newton equations as ``docs/explanation/pricing.md`` states them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from opportune.kernels.arms import Market, Pairs
from opportune.kernels.barrier import Aim, Interior, Program


@dataclass(frozen=True)
class Pair:
    """One permitted pair."""

    task_type: int
    server: int
    reward: float
    mean: float


def pair_list(pairs: Pairs) -> list[Pair]:
    """All pairs, in order."""
    return [
        Pair(int(pairs.task_type[p]), r, float(pairs.reward[p]), _mean(pairs, p))
        for r in range(len(pairs.start) - 1)
        for p in range(pairs.start[r], pairs.start[r + 1])
    ]


def _mean(pairs: Pairs, p: int) -> float:
    """E[D] of a pair: of its type, or its own."""
    by_type = pairs.mean.ndim == 1
    return float(pairs.mean[pairs.task_type[p]] if by_type else pairs.mean[p, 0])


def arm_value(pairs: Pairs, market: Market, price: np.ndarray, server: int) -> float:
    """The best of all sets of types that a server can accept."""
    own = [pair for pair in pair_list(pairs) if pair.server == server]
    best = 0.0
    for size in range(1, len(own) + 1):
        for chosen in itertools.combinations(own, size):
            rates = [float(market.arrival_rate[pair.task_type]) for pair in chosen]
            gains = [pair.reward - float(price[pair.task_type]) for pair in chosen]
            means = [pair.mean for pair in chosen]
            busy = sum(rate * mean for rate, mean in zip(rates, means, strict=True))
            gain = sum(rate * gain for rate, gain in zip(rates, gains, strict=True))
            best = max(best, gain / (1.0 + busy))
    return best


def rounded_arm(
    pairs: Pairs, market: Market, price: np.ndarray, tau: float, server: int
) -> tuple[float, dict[int, float], float]:
    """q of the rounded dual by bisection, sigma by type, and phi."""
    own = [pair for pair in pair_list(pairs) if pair.server == server]

    def level(pair: Pair, q: float) -> float:
        return pair.reward - float(price[pair.task_type]) - pair.mean * q

    def short(q: float) -> float:
        total = -q
        for pair in own:
            x = level(pair, q) / tau
            soft = max(x, 0.0) + math.log1p(math.exp(-abs(x)))
            total += float(market.arrival_rate[pair.task_type]) * tau * soft
        return total

    low, high = 0.0, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) > 0 else (low, middle)
    share = {pair.task_type: 1.0 / (1.0 + math.exp(-level(pair, low) / tau)) for pair in own}
    busy = sum(
        float(market.arrival_rate[pair.task_type]) * pair.mean * share[pair.task_type]
        for pair in own
    )
    return low, share, 1.0 / (1.0 + busy)


def newton_direction(program: Program, point: Interior, aim: Aim) -> dict[str, np.ndarray]:
    """The Newton step of the optimality conditions in l, t, q, phi, y, alpha, beta at once.

    A type that is not loose has t = 0; a fixed pair has y = phi and a multiplier beta.
    """
    pairs, market, curvature, fixed, loose = program
    listed = pair_list(pairs)
    n, n_types, n_servers = len(listed), len(point.price), len(point.free)
    sizes = [n_types, n_types, n_servers, n_servers, n, n, n]
    ends = np.cumsum(sizes)
    price, t, q, phi, y, low, high = (end - size for end, size in zip(ends, sizes, strict=True))
    jacobian, right, row = np.zeros((ends[-1], ends[-1])), np.zeros(ends[-1]), 0

    def add(coefficients: dict[int, float], missing: float) -> None:
        nonlocal row
        for column, value in coefficients.items():
            jacobian[row, column] += value
        right[row] = missing
        row += 1

    rate, want, copies = market
    for v in range(n_types):  # sum_r y + t = d;  l t = m or t = 0
        mine = [p for p, pair in enumerate(listed) if pair.task_type == v]
        served = sum(copies[listed[p].server] * point.rate[p] for p in mine) + point.slack[v]
        row_of = {y + p: float(copies[listed[p].server]) for p in mine}
        add(row_of | {t + v: 1.0}, float(want[v] - served))
        if loose[v]:
            now = aim.mu * aim.part[v] - aim.slack[v] - point.price[v] * point.slack[v]
            add({price + v: point.slack[v], t + v: point.price[v]}, float(now))
        else:
            add({t + v: 1.0}, 0.0)
    for r in range(n_servers):  # phi + sum lambda E[D] y = 1;  q = sum lambda beta
        mine = [p for p, pair in enumerate(listed) if pair.server == r]
        work = {p: float(rate[listed[p].task_type] * listed[p].mean) for p in mine}
        busy = sum(work[p] * point.rate[p] for p in mine)
        add({phi + r: 1.0} | {y + p: work[p] for p in mine}, float(1.0 - point.free[r] - busy))
        worth = sum(rate[listed[p].task_type] * point.high[p] for p in mine)
        minus = {high + p: -float(rate[listed[p].task_type]) for p in mine}
        add({q + r: 1.0} | minus, float(worth - point.capacity[r]))
    for p, pair in enumerate(listed):  # beta - alpha = L - kappa y, and the products
        v, r = pair.task_type, pair.server
        level = pair.reward - point.price[v] - pair.mean * point.capacity[r]
        row_of = {high + p: 1.0, low + p: -1.0, price + v: 1.0, q + r: pair.mean}
        missing = level - curvature[v] * point.rate[p] - point.high[p] + point.low[p]
        add(row_of | {y + p: float(curvature[v])}, float(missing))
        if fixed[p]:
            add({y + p: 1.0, phi + r: -1.0}, 0.0)
            add({low + p: 1.0}, 0.0)
            continue
        goal = aim.mu * aim.part[v]
        now = point.low[p] * point.rate[p]
        add({low + p: point.rate[p], y + p: point.low[p]}, float(goal - aim.low[p] - now))
        now = point.high[p] * point.rest[p]
        row_of = {high + p: point.rest[p], phi + r: point.high[p], y + p: -point.high[p]}
        add(row_of, float(goal - aim.high[p] - now))
    step = np.linalg.solve(jacobian, right)
    names = ("price", "slack", "capacity", "free", "rate", "low", "high")
    return {
        name: step[end - size : end] for name, size, end in zip(names, sizes, ends, strict=True)
    }
