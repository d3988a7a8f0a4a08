"""Solve HC-LP by a structured interior point: predictor, corrector, centrality corrections.

Mehrotra's method with Gondzio's multiple correctors on the Newton system of
``headcount_newton``. It starts feasible: the random policy gives x = k n / R and u = k lam / R at
every headcount (ours). The central path is that of the LP not divided by pi, so the product of
a pair aims at tau / pi_n; with one tau for all levels the method stalls. Equal servers are merged,
so equal servers get equal prices, and the prices are those of the analytic center of the
optimal face: no vertex, no order of servers decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.pricing.headcount_newton import (
    Factor,
    Point,
    Residual,
    ServerProblem,
    direction,
    factor,
    residual,
)

Float = NDArray[np.float64]

MAX_ITERATIONS = 80
SMOOTH = 0.3
"""Half width, in units of the largest reward, of the smoothed maximum that the dual starts from."""

FEASIBLE = 1e-7
"""Residuals that count as none, in units of reward or of probability."""

STEP = 0.995
"""Share of the way to the border that a step goes."""

CORRECTORS = 3
"""Centrality corrections per factorization, as long as they pay."""


@dataclass(frozen=True, eq=False)
class InteriorSolution:
    """Where the interior point ended.

    Attributes:
        prices: (C, P) a[v,n], 0 at a forced level.
        loss: (G, Q) W.
        value: Primal objective.
        gap: Relative complementarity gap.
        infeasibility: Largest residual.
        iterations: Factorizations made.
    """

    prices: Float
    loss: Float
    value: float
    gap: float
    infeasibility: float
    iterations: int


def solve_interior(problem: ServerProblem, tolerance: float) -> InteriorSolution:
    """Maximize HC-LP until the relative gap is below ``tolerance``, or no step helps.

    The result is whatever was reached: its certificate is computed elsewhere, from the prices.
    """
    point = _start(problem)
    left = residual(problem, point)
    best = _reached(problem, point, left, 0)
    for iteration in range(1, MAX_ITERATIONS + 1):
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                moved = _advance(problem, point, (left, factor(problem, point)))
        except (np.linalg.LinAlgError, FloatingPointError):  # rates of 1e-300: no step from here
            return best
        if moved is None:
            return best
        point = moved
        left = residual(problem, point)
        reached = _reached(problem, point, left, iteration)
        if reached.gap < best.gap or best.infeasibility > FEASIBLE:
            best = reached
        if reached.gap <= tolerance and reached.infeasibility <= FEASIBLE:
            return reached
    return best


def _start(problem: ServerProblem) -> Point:
    """The random policy, and multipliers from a smoothed maximum at the mean reward."""
    chain, rate = problem.chain, problem.rate
    n_servers = float(problem.copies.sum())
    shape = (len(problem.copies), rate.shape[1], len(chain.taken))
    busy = np.tile(chain.k * chain.busy_levels / n_servers, (shape[0], 1))
    taken = np.broadcast_to(chain.k * rate / n_servers, shape)
    free = 1.0 - problem.to_take(busy)[:, None, :]
    mean = np.tensordot(problem.copies, problem.reward[:, :, 0], (0, 0)) / n_servers
    prices = np.where(problem.open, mean[:, None], 0.0)
    loss = np.zeros_like(busy)
    advantage = problem.advantage(prices, loss)
    up = (advantage + np.sqrt(advantage**2 + 4 * SMOOTH**2)) / 2
    point = Point(taken, rate * free - taken, up - advantage, up, busy, loss, prices)
    return _settle(problem, point)


def _settle(problem: ServerProblem, point: Point) -> Point:
    """The forced level follows from the rest: u = lam (1 - x), zu = advantage."""
    if problem.chain.forced is None:
        return point
    free = 1.0 - problem.to_take(point.busy)[:, None, :]
    return replace(
        point,
        taken=np.where(problem.open, point.taken, problem.rate * free),
        slack=np.where(problem.open, point.slack, 0.0),
        low=np.where(problem.open, point.low, 0.0),
        up=np.where(problem.open, point.up, problem.advantage(point.prices, point.loss)),
    )


def _products(problem: ServerProblem, point: Point) -> float:
    """sum_r sum_n pi_n sum_v (u zl + s zu) over the levels with a price."""
    each = point.taken * point.low + point.slack * np.where(problem.open, point.up, 0.0)
    return float(problem.copies @ (each.sum(axis=1) @ problem.chain.take_law))


def _reached(
    problem: ServerProblem, point: Point, left: Residual, iteration: int
) -> InteriorSolution:
    earned = (problem.reward * point.taken).sum(axis=1) @ problem.chain.take_law
    value = float(problem.copies @ earned)
    return InteriorSolution(
        prices=point.prices,
        loss=point.loss,
        value=value,
        gap=_products(problem, point) / max(abs(value), 1e-300),
        infeasibility=left.worst,
        iterations=iteration,
    )


def _advance(problem: ServerProblem, point: Point, at: tuple[Residual, Factor]) -> Point | None:
    """One iteration; None if the step is too short to help."""
    is_open, law = problem.open, problem.chain.take_law
    per_taken = np.divide(1.0, point.taken, out=np.zeros_like(point.taken), where=is_open)
    per_slack = np.divide(1.0, point.slack, out=np.zeros_like(point.slack), where=is_open)
    up = np.where(is_open, point.up, 0.0)
    pairs = 2.0 * problem.copies.sum() * problem.rate.size * np.count_nonzero(is_open)
    gap = _products(problem, point)
    predicted = direction(problem, at, -up, -point.low)
    lengths = _lengths(problem, point, predicted)
    tau = (_products(problem, _move(point, predicted, lengths)) / gap) ** 3 * gap / pairs
    cu = (tau / law - predicted.slack * predicted.up) * per_slack - up
    cl = (tau / law - predicted.taken * predicted.low) * per_taken - point.low
    cu, cl = np.where(is_open, cu, 0.0), np.where(is_open, cl, 0.0)
    chosen = direction(problem, at, cu, cl)
    lengths = _lengths(problem, point, chosen)
    for _ in range(CORRECTORS):
        longer = (min(1.0, lengths[0] + 0.2), min(1.0, lengths[1] + 0.2))
        trial = _move(point, chosen, longer)
        cu = cu + _centrality(law * trial.slack * trial.up, tau) / law * per_slack
        cl = cl + _centrality(law * trial.taken * trial.low, tau) / law * per_taken
        corrected = direction(problem, at, cu, cl)
        reach = _lengths(problem, point, corrected)
        if sum(reach) < sum(lengths) + 0.02:
            break
        chosen, lengths = corrected, reach
    if max(lengths) < 1e-5 or not np.isfinite(sum(lengths)):
        return None
    primal, dual = (1.0 if one >= 1.0 else STEP * one for one in lengths)
    return _settle(problem, _move(point, chosen, (primal, dual)))


def _centrality(products: Float, target: float) -> Float:
    """Gondzio's correction: pull outliers into [target / 10, 10 target], not too hard."""
    wanted = np.clip(products, 0.1 * target, 10 * target) - products
    return np.asarray(np.maximum(wanted, -10 * target))


def _move(point: Point, by: Point, lengths: tuple[float, float]) -> Point:
    primal, dual = lengths
    return Point(
        taken=point.taken + primal * by.taken,
        slack=point.slack + primal * by.slack,
        low=point.low + dual * by.low,
        up=point.up + dual * by.up,
        busy=point.busy + primal * by.busy,
        loss=point.loss + dual * by.loss,
        prices=point.prices + dual * by.prices,
    )


def _lengths(problem: ServerProblem, point: Point, by: Point) -> tuple[float, float]:
    """Longest primal and dual steps, at most 1, that keep u, s and zl, zu nonnegative."""

    def longest(value: Float, change: Float) -> float:
        value, change = value[:, :, problem.open], change[:, :, problem.open]
        falling = change < 0
        return min(1.0, float(np.min(-value[falling] / change[falling], initial=1.0)))

    primal = min(longest(point.taken, by.taken), longest(point.slack, by.slack))
    return primal, min(longest(point.low, by.low), longest(point.up, by.up))
