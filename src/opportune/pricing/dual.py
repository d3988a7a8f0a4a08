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
from opportune.pricing.recovery import offer_feasible, rounded_rates
from opportune.pricing.search import Search

Float = NDArray[np.float64]

HOT, WARM, COLD = 1e-2, 2e-3, 8e-5
"""Temperatures in units of the spread of a type's rewards: to start from nothing, from prices
that were optimal for a similar instance, and to end with."""

COOLING = 5.0
"""From one temperature to the next."""

MOST_HEATINGS = 4
"""How often the first temperature may rise because prices turn out to be far from optimal."""

SHORT = 0.2
"""A first step cut to less than this says that they are."""

LOOSE = 1e-6
"""Where a gap as large as this will do, rates are tried after every temperature."""

SETTLED = 0.02
"""A temperature ends when every type is served its demand within this share of it."""

MOST_STEPS = 15
"""Newton steps per temperature."""

MOST_ROUNDS = 30
"""Conjugate gradient rounds per Newton step."""

RIDGE = 1e-3
"""Added to the curvature, relative to that of a pair in doubt per server demanded."""

BINS = 64


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
    busy = float(problem.demand_weight @ usual_mean(problem) / market.copies.sum())
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


def usual_mean(problem: PairProblem) -> Float:
    """(types,) E[D] of a type, on the mean of its pairs where it depends on the server."""
    pairs = problem.pairs
    if pairs.mean.ndim == 1:
        return pairs.mean
    n = np.bincount(pairs.task_type, minlength=problem.n_types)
    total = np.bincount(pairs.task_type, weights=pairs.mean[:, 0], minlength=problem.n_types)
    return np.asarray(total / np.maximum(n, 1))


def descend(search: Search, price: Float, tau: float, last: float) -> float:
    """Newton's method from these prices at falling temperatures, from tau (or above) to last.

    Offers the prices of every temperature, and feasible rates where a loose gap will do; ends
    early when the gap is closed or the time is up. Returns the last temperature.
    """
    problem, n = search.problem, search.problem.n_pairs
    search.gear = "dual"
    active = Active(
        np.zeros(problem.n_servers + 1, dtype=np.int64),
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.float32),
        np.empty(n, dtype=np.float32),
        np.ones(problem.n_servers),
        problem.pairs.mean if problem.pairs.mean.ndim == 1 else np.empty((n, 1)),
    )
    capacity = np.zeros(problem.n_servers)
    for heating in range(MOST_HEATINGS + 1):
        look = _look(problem, price, capacity, (tau, active))
        look, length = _step(problem, look, (tau, active))
        if length >= SHORT or heating == MOST_HEATINGS:
            break
        tau *= COOLING
    while True:
        look = _settle(search, look, (tau, active))
        search.offer_price(look.price, look.capacity)
        search.rounding = look.price, look.capacity, tau
        if search.stop.gap >= LOOSE:
            rates = rounded_rates(problem, (look.price, look.capacity), tau)
            offer_feasible(search, *rates)
        search.tell(f"bound {search.dual_value * problem.unit:.9g}, temperature {tau:.1e}")
        if search.done or search.out_of_time or search.infeasible or tau <= last:
            return tau
        tau = max(tau / COOLING, last)
        look = _look(problem, look.price, look.capacity, (tau, active))


def _settle(search: Search, look: _Look, rounding: tuple[float, Active]) -> _Look:
    """Newton's method at one temperature."""
    demand = search.problem.market.demand
    for _ in range(MOST_STEPS):
        if np.max(np.abs(look.residual) / demand) < SETTLED or search.out_of_time:
            break
        look, length = _step(search.problem, look, rounding)
        if length == 0.0:
            break
    return look


def _step(problem: PairProblem, look: _Look, rounding: tuple[float, Active]) -> tuple[_Look, float]:
    """One Newton step, shortened until the value falls; with its length, 0 if it never does."""
    tau, active = rounding
    market, rate = problem.market, problem.market.arrival_rate
    floor = RIDGE * rate * market.demand / tau
    extra = rate * look.softness + floor
    diagonal = rate * look.slope[1] + 2.5 * floor
    gradient, step = rate * look.residual, np.empty(problem.n_types)
    newton_step(active, market, tau, (gradient, extra, diagonal), step, MOST_ROUNDS)
    slope, length = float(gradient @ step), 1.0
    while length > 1e-4:
        there = _look(problem, look.price + length * step, look.capacity, rounding)
        if there.value <= look.value + 1e-4 * length * slope + 1e-13 * abs(look.value):
            return there, length
        length *= 0.35
    return _look(problem, look.price, look.capacity, rounding), 0.0


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
