"""Gear "dual": Newton's method on the rounded dual, at ever lower temperatures.

The rounded dual (``kernels.smoothing``) of OCC-LP lies above the dual by at most about tau times
the number of pairs in doubt, is smooth and convex, and its step comes from conjugate gradients,
so nothing larger than a list of pairs is kept. Every level of temperature gives prices, and any
prices give a certified bound. This gear finds good prices fast; the last digits are left to
``pricing.sifting``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import top_rewards
from opportune.kernels.smoothing import Active, newton_step, smooth_arms
from opportune.pricing.pairs import PairProblem
from opportune.pricing.search import Search

Float = NDArray[np.float64]

LEVELS = (1e-2, 2e-3, 4e-4, 8e-5)
"""Temperatures, in units of the spread of a type's rewards."""

SETTLED = 0.1
"""A level ends when every type is served its demand within this share of it."""

MOST_STEPS = 15
"""Newton steps per level."""

RIDGE = 1e-4
"""Added to the curvature, relative to that of a pair in doubt per server demanded."""

BINS = 64


@dataclass(frozen=True, eq=False)
class Rounded:
    """Where the rounded dual was left.

    Attributes:
        price: (types,) l.
        capacity: (servers,) q of the rounded dual.
        tau: Temperature, in units of the largest reward.
    """

    price: Float
    capacity: Float
    tau: float


@dataclass(frozen=True, eq=False)
class _Look:
    """The rounded dual at a point: value, residual of the demand, curvatures."""

    price: Float
    capacity: Float
    value: float
    residual: Float
    slope: Float
    softness: Float


def first_prices(problem: PairProblem) -> tuple[Float, float]:
    """Prices to start from, and the spread of a type's rewards (the unit of temperatures).

    l_v is about the reward that the servers exceed which would do if they were free as often
    as all are on average, and if their time cost nothing.
    """
    market = problem.market
    busy = float((problem.demand_weight * market.mean_duration).sum() / market.copies.sum())
    wanted = market.demand / max(1.0 - busy, 0.02)
    counts, ends = np.empty((problem.n_types, BINS)), np.empty((3, problem.n_types))
    top_rewards(problem.pairs, market.copies, wanted, counts, ends)
    middle = (np.arange(BINS) + 0.5) / BINS
    total = counts.sum(axis=1)
    mean = counts @ middle / total
    deviation = np.sqrt(np.maximum(counts @ middle**2 / total - mean**2, 0.0)) * (ends[2] - ends[1])
    weight = problem.demand_weight
    spread = float(weight @ deviation / weight.sum()) * np.sqrt(12.0)
    return ends[0].copy(), spread if spread > 1e-6 else 1.0


def descend(search: Search, price: Float, temperatures: tuple[float, ...]) -> Rounded:
    """Newton's method from these prices, one temperature (in units of 1) after another.

    Offers the prices of every level; ends early when the time is up.
    """
    problem = search.problem
    n = problem.n_pairs
    active = Active(
        np.zeros(problem.n_servers + 1, dtype=np.int64),
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.float32),
        np.empty(n, dtype=np.float32),
        np.ones(problem.n_servers),
    )
    capacity = np.zeros(problem.n_servers)
    tau = temperatures[0]
    for tau in temperatures:
        look = _settle(search, _look(problem, price, capacity, (tau, active)), tau, active)
        price, capacity = look.price, look.capacity
        search.offer_price(price, capacity)
        search.tell(f"bound {search.dual_value * problem.unit:.9g} at temperature {tau:.1e}")
        if search.out_of_time or search.infeasible:
            break
    return Rounded(price, capacity, tau)


def _settle(search: Search, look: _Look, tau: float, active: Active) -> _Look:
    """Newton's method at one temperature."""
    problem = search.problem
    market, rate, demand = problem.market, problem.market.arrival_rate, problem.market.demand
    step = np.empty(problem.n_types)
    for _ in range(MOST_STEPS):
        if np.max(np.abs(look.residual) / demand) < SETTLED or search.out_of_time:
            break
        floor = rate * demand / tau
        extra = rate * look.softness + RIDGE * floor
        diagonal = rate * look.slope[1] + 25 * RIDGE * floor
        gradient = rate * look.residual
        newton_step(active, market, tau, (gradient, extra, diagonal), step, 30)
        slope = float(gradient @ step)
        length, before = 1.0, look
        while True:
            trial = before.price + length * step
            look = _look(problem, trial, before.capacity, (tau, active))
            if look.value <= before.value + 1e-4 * length * slope + 1e-13 * abs(before.value):
                break
            length *= 0.35
            if length < 1e-4:
                return _look(problem, before.price, before.capacity, (tau, active))
    return look


def _look(
    problem: PairProblem, price: Float, capacity: Float, rounding: tuple[float, Active]
) -> _Look:
    """The rounded dual at these prices; where l >= 0 is needed, max(l, 0) is rounded as well."""
    tau, active = rounding
    capacity, slope = capacity.copy(), np.empty((2, problem.n_types))
    value = smooth_arms(problem.pairs, problem.market, (price, capacity, tau), active, slope)
    demand = problem.market.demand
    if not problem.at_most:
        value += float(problem.demand_weight @ price)
        softness = np.zeros(problem.n_types)
        return _Look(price, capacity, value, demand - slope[0], slope, softness)
    tail = np.exp(-np.abs(price) / tau)
    share = np.where(price > 0, 1.0, tail) / (1.0 + tail)
    value += float(problem.demand_weight @ (tau * np.log1p(tail) + np.maximum(price, 0.0)))
    softness = demand * share * (1.0 - share) / tau
    return _Look(price, capacity, value, demand * share - slope[0], slope, softness)
