"""Kernels of an interior-point method that solves V equations a step, however many pairs.

Per arriving task, y_vr = u_vr / lambda_v, z_vr = phi_r - y_vr. With multipliers alpha of y >= 0
and beta of z >= 0 the optimality conditions of the occupancy LP are

    beta - alpha = L = s - l - E[D] q,   q_r = sum_v lambda_v beta_vr,          (dual)
    sum_r y_vr + t_v = k_v (1 - B_v),    phi_r + sum_v lambda_v E[D_v] y_vr = 1, (primal)
    alpha y = beta z = l t = 0,

t = 0 where every task must be served. Newton's method is run on them with mu / sqrt(lambda_v) in
place of 0: with mu alone a steep range of rates bends the path so much that steps are cut short,
with mu / lambda_v (the plain barrier) rare types come out imprecise. Pairs are eliminated
one by one, then q and phi server by server (two equations); what is left is a symmetric positive
definite system in l: diag(lambda / h summed over r), h = alpha/y + beta/z, less a term of rank
two per server (ours; the elimination is written out in docs/explanation/pricing.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import Market, Pairs, mean_of
from opportune.kernels.jit import jit

Float = NDArray[np.float64]


class Program(NamedTuple):
    """What is maximized: sum lambda (s y - kappa y^2 / 2) over the pairs of a market.

    kappa = 0 is the occupancy LP; s = 0 on tied pairs is the least-squares choice among its
    optimal rates, in which pairs with a positive index take phi whatever it is.
    """

    pairs: Pairs
    market: Market
    curvature: Float  # (V,) kappa
    fixed: NDArray[np.bool_]  # (n,) pairs with y = phi
    loose: NDArray[np.bool_]  # (V,) types whose demand need not be met


class Interior(NamedTuple):
    """A point with everything positive; also a direction of such points."""

    price: Float  # (V,) l
    slack: Float  # (V,) t; 0 where the demand must be met
    capacity: Float  # (R,) q
    free: Float  # (R,) phi
    rate: Float  # (n,) y
    rest: Float  # (n,) z, kept apart from phi - y: it may be far smaller than both
    low: Float  # (n,) alpha
    high: Float  # (n,) beta


class Aim(NamedTuple):
    """Products aimed at: alpha y = mu part_v - low, beta z = mu part_v - high, l t likewise."""

    mu: float
    part: Float  # (V,) sqrt(largest rate / rate): halfway between equal and equally weighted
    low: Float  # (n,) second-order corrections
    high: Float  # (n,)
    slack: Float  # (V,)


@jit
def center(program: Program, point: Interior, mu: float, part: Float) -> None:
    """Fill in phi, y, alpha, beta, t for given l and q: all products are m = mu part_v.

    alpha y = beta (phi - y) = m and beta - alpha = L give y = phi x, x the root of
    1/(1 - x) - 1/x = L phi / m; phi follows from the capacity row by iteration. (The
    curvature is left to the first step.)
    """
    pairs, market, _, fixed, loose = program
    start, task_type, reward, mean = pairs
    rate, _, copies = market
    price, slack, capacity, free, y, z, low, high = point
    for v in range(price.shape[0]):
        slack[v] = 0.0
        if loose[v]:
            price[v] = max(price[v], np.sqrt(mu * part[v]))
            slack[v] = mu * part[v] / price[v]
    for r in range(copies.shape[0]):
        phi = 0.5
        for _ in range(40):
            busy = 1.0
            for p in range(start[r], start[r + 1]):
                v = task_type[p]
                c = (
                    (reward[p] - price[v] - mean_of(mean, v, p) * capacity[r])
                    * phi
                    / (mu * part[v])
                )
                x = 2.0 / (2.0 + abs(c) + np.sqrt(c * c + 4.0))
                x = 1.0 if fixed[p] else 1.0 - x if c > 0.0 else x
                busy += rate[v] * mean_of(mean, v, p) * x
            before, phi = phi, 1.0 / busy
            if abs(phi - before) <= 1e-6 * phi:
                break
        free[r] = phi
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            if fixed[p]:
                y[p], z[p], low[p], high[p] = phi, 0.0, 0.0, 0.0
                continue
            c = (reward[p] - price[v] - mean_of(mean, v, p) * capacity[r]) * phi / (mu * part[v])
            x = 2.0 / (2.0 + abs(c) + np.sqrt(c * c + 4.0))
            y[p], z[p] = phi * (1.0 - x if c > 0.0 else x), phi * (x if c > 0.0 else 1.0 - x)
            low[p], high[p] = mu * part[v] / y[p], mu * part[v] / z[p]


@jit
def assemble(
    program: Program,
    point: Interior,
    aim: Aim,
    system: tuple[Float, Float, Float],
    matrix: bool,
) -> None:
    """The system in l: ``system`` = (H (V, V) its lower triangle, right side (V,), sums (R, 5)).

    The sums of each server are kept for :func:`recover`. H only if ``matrix``.
    """
    pairs, market, curvature, fixed, loose = program
    start, task_type, reward, mean = pairs
    rate, demand, copies = market
    price, slack, capacity, free, y, z, low, high = point
    H, right, sums = system
    n_types = price.shape[0]
    f, g = np.empty(n_types), np.empty(n_types)
    wide = np.zeros((16, n_types))
    n_wide = 0
    if matrix:
        H[:] = 0.0
    for v in range(n_types):
        right[v] = -rate[v] * demand[v]
    for v in range(n_types):
        if not loose[v]:
            continue
        right[v] += rate[v] * (aim.mu * aim.part[v] - aim.slack[v]) / price[v]
        if matrix:
            H[v, v] += rate[v] * slack[v] / price[v]
    for r in range(copies.shape[0]):
        first, m = start[r], copies[r]
        n = start[r + 1] - first
        P, X, Y, a, b = 1.0, 0.0, 0.0, -capacity[r], 1.0 - free[r]
        for i in range(n):
            p = first + i
            v = task_type[p]
            kappa, weight, stiff, down = curvature[v], 0.0, curvature[v], 0.0
            ED = mean_of(mean, v, p)
            f[i], up = rate[v], 0.0
            if not fixed[p]:
                A, B = low[p] / y[p], high[p] / z[p]
                up = (aim.mu * aim.part[v] - aim.low[p]) / y[p]
                down = (aim.mu * aim.part[v] - aim.high[p]) / z[p]
                stiff = A + kappa
                weight = rate[v] / (stiff + B)
                f[i] = weight * B
            # to the last bit as in recover: h is tiny where a pair is tied
            c = up - down + reward[p] - kappa * y[p] - price[v] - ED * capacity[r]
            g[i] = weight * ED
            P += ED * f[i]
            X += f[i] * stiff
            Y += ED * g[i]
            a += rate[v] * down + f[i] * c
            b -= ED * (rate[v] * y[p] + weight * c)
            right[v] += m * (rate[v] * y[p] + weight * c)
            if matrix:
                H[v, v] += m * weight
        size = P * P + X * Y
        sums[r, 0], sums[r, 1], sums[r, 2], sums[r, 3], sums[r, 4] = P, X, Y, a, b
        dq, dphi = (P * a - X * b) / size, (Y * a + P * b) / size
        for i in range(n):
            right[task_type[first + i]] += m * (f[i] * dphi - g[i] * dq)
        if not matrix:
            continue
        if 3 * n < n_types:
            for i in range(n):
                v = task_type[first + i]
                x, w = -m * (X * g[i] + P * f[i]) / size, -m * (P * g[i] - Y * f[i]) / size
                for j in range(i + 1):
                    H[v, task_type[first + j]] += x * g[j] + w * f[j]
            continue
        for i in range(n):
            v = task_type[first + i]
            wide[n_wide, v], wide[n_wide + 1, v] = g[i], f[i]
            wide[n_wide + 8, v] = -m * (X * g[i] + P * f[i]) / size
            wide[n_wide + 9, v] = -m * (P * g[i] - Y * f[i]) / size
        n_wide += 2
        if n_wide == 8:
            _add_wide(H, wide)
            wide[:] = 0.0
            n_wide = 0
    if n_wide > 0:
        _add_wide(H, wide)
    if matrix:
        for v in range(n_types):
            if H[v, v] == 0.0:  # what serves it is all fixed: its row is empty
                H[v, v] = 1.0


@jit
def _add_wide(H: Float, wide: Float) -> None:
    """H += left' right for the rows 8 to 15 (left) and 0 to 7 (right), lower triangle."""
    for i in range(H.shape[0]):
        for c in range(0, 8, 4):
            x0, x1, x2, x3 = wide[c + 8, i], wide[c + 9, i], wide[c + 10, i], wide[c + 11, i]
            for j in range(i + 1):
                H[i, j] += (
                    x0 * wide[c, j]
                    + x1 * wide[c + 1, j]
                    + x2 * wide[c + 2, j]
                    + x3 * wide[c + 3, j]
                )


@jit
def recover(
    program: Program,
    point: Interior,
    aim: Aim,
    sums: Float,
    step: Interior,
) -> tuple[float, float]:
    """The rest of a direction whose ``step.price`` is known; the largest steps that stay inside.

    Returns:
        The largest multiples (at most 1e30) of the primal and of the dual part.
    """
    pairs, market, curvature, fixed, loose = program
    start, task_type, reward, mean = pairs
    rate, _, copies = market
    price, slack, capacity, _, y, z, low, high = point
    primal, dual = 1e30, 1e30
    for v in range(price.shape[0]):
        if not loose[v]:
            continue
        missing = aim.mu * aim.part[v] - aim.slack[v] - slack[v] * step.price[v]
        step.slack[v] = missing / price[v] - slack[v]
        if step.slack[v] < 0.0:
            primal = min(primal, -slack[v] / step.slack[v])
        if step.price[v] < 0.0:
            dual = min(dual, -price[v] / step.price[v])
    for r in range(copies.shape[0]):
        P, X, Y, a, b = sums[r, 0], sums[r, 1], sums[r, 2], sums[r, 3], sums[r, 4]
        size = P * P + X * Y
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            if fixed[p]:
                a -= rate[v] * step.price[v]
                continue
            B = high[p] / z[p]
            weight = rate[v] / (low[p] / y[p] + curvature[v] + B)
            ED = mean_of(mean, v, p)
            a -= weight * B * step.price[v]
            b += weight * ED * step.price[v]
        dq, dphi = (P * a - X * b) / size, (Y * a + P * b) / size
        step.capacity[r], step.free[r] = dq, dphi
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            if fixed[p]:
                step.rate[p] = dphi
                continue
            A, B, ED = low[p] / y[p], high[p] / z[p], mean_of(mean, v, p)
            up = (aim.mu * aim.part[v] - aim.low[p]) / y[p]
            down = (aim.mu * aim.part[v] - aim.high[p]) / z[p]
            kappa = curvature[v]
            c = up - down + reward[p] - kappa * y[p] - price[v] - ED * capacity[r]
            dy = (c - step.price[v] - ED * dq + B * dphi) / (A + kappa + B)
            dz = dphi - dy
            da, db = up - low[p] - A * dy, down - high[p] - B * dz
            step.rate[p], step.rest[p], step.low[p], step.high[p] = dy, dz, da, db
            if dy < 0.0:
                primal = min(primal, -y[p] / dy)
            if dz < 0.0:
                primal = min(primal, -z[p] / dz)
            if da < 0.0:
                dual = min(dual, -low[p] / da)
            if db < 0.0:
                dual = min(dual, -high[p] / db)
    return primal, dual


@jit
def products(
    program: Program, point: Interior, step: Interior, lengths: tuple[float, float]
) -> float:
    """sum lambda (alpha y + beta z + l t) after a step of these lengths (primal, dual)."""
    pairs, market = program.pairs, program.market
    primal, dual = lengths
    total = 0.0
    for v in range(point.slack.shape[0]):
        t = point.slack[v] + primal * step.slack[v]
        total += market.arrival_rate[v] * t * (point.price[v] + dual * step.price[v])
    for r in range(market.copies.shape[0]):
        for p in range(pairs.start[r], pairs.start[r + 1]):
            y = point.rate[p] + primal * step.rate[p]
            z = point.rest[p] + primal * step.rest[p]
            low, high = point.low[p] + dual * step.low[p], point.high[p] + dual * step.high[p]
            weight = market.copies[r] * market.arrival_rate[pairs.task_type[p]]
            total += weight * (low * y + high * z)
    return total


@jit
def correct(program: Program, step: Interior, aim: Aim, most: float) -> None:
    """Second-order corrections (Mehrotra 1992): products of steps, cut off at ``most`` part_v."""
    pairs = program.pairs
    for v in range(step.slack.shape[0]):
        cut = most * aim.part[v]
        aim.slack[v] = min(max(step.price[v] * step.slack[v], -cut), cut)
    for r in range(step.free.shape[0]):
        for p in range(pairs.start[r], pairs.start[r + 1]):
            cut = most * aim.part[pairs.task_type[p]]
            aim.low[p] = min(max(step.low[p] * step.rate[p], -cut), cut)
            aim.high[p] = min(max(step.high[p] * step.rest[p], -cut), cut)
