"""Gear "barrier": an interior-point method on some or all pairs.

Mehrotra's predictor and corrector (1992) on ``kernels.barrier``: every step solves one system
in the V demand prices, whatever the number of pairs, so a few thousand pairs near the optimal
prices (``pricing.sifting``) cost next to nothing and all of them are affordable. Its limit is
the center of the optimal face: unique, and alike for what is alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import Market, Pairs
from opportune.kernels.barrier import (
    Aim,
    Interior,
    assemble,
    center,
    correct,
    move,
    products,
    recover,
)
from opportune.kernels.cholesky import factor, solve, subtract_product
from opportune.pricing.pairs import Columns
from opportune.pricing.recovery import served_by
from opportune.pricing.search import Search

Float = NDArray[np.float64]

FINE = 1e-13
"""Relative gap at which the LP counts as solved."""

SHARP = 1e-19
"""Relative gap aimed at from there on, step by step a hundred times closer: it is about the mean
product of a rate and its index, so one of the two vanishes and the other tells which."""

MET = 1e-12
"""Servers per task by which a demand may be missed."""

MOST_STEPS = 80

STALLED = 8
"""Steps in a row that gain nothing after which the method has done what it can."""

OFF_CENTER = 0.1
"""Where one of the first steps is cut to less than this, start again from larger products."""

LARGER = 30.0
"""How much larger."""

RIDGE = 1e-14
"""Added to the scaled system's diagonal of 1; a hundred times more where that is too little."""

REFINEMENTS = 2
"""Rounds of iterative refinement of every direction."""

INSIDE = 0.995
"""Share of the way to the boundary that a step goes."""

CUT_OFF = 10.0
"""Second-order corrections are cut off at this multiple of the mean product."""


@dataclass(frozen=True, eq=False)
class Center:
    """Where the method ended.

    Attributes:
        price: (types,) l.
        capacity: (servers,) q.
        rate: (m,) y.
        gap: Relative gap of the LP over these pairs, by the products alone.
        missed: Largest violation of a demand, in servers per task.
    """

    price: Float
    capacity: Float
    rate: Float
    gap: float
    missed: float


class _System:
    """The matrices and vectors that every step writes anew."""

    def __init__(self, search: Search, columns: Columns) -> None:
        n_types, n_servers = search.problem.n_types, search.problem.n_servers
        n, loose = len(columns.pairs.reward), n_types if search.problem.at_most else 0
        zeros = np.zeros
        self.point = Interior(
            zeros(n_types), zeros(loose), zeros(n_servers), zeros(n_servers), *_vectors(n, 4)
        )
        self.step = Interior(
            zeros(n_types), zeros(loose), zeros(n_servers), zeros(n_servers), *_vectors(n, 4)
        )
        rate = search.problem.market.arrival_rate
        part = np.sqrt(rate.max() / rate)
        self.straight = Aim(0.0, part, zeros(n), zeros(n), zeros(loose))
        self.bent = Aim(0.0, part, zeros(n), zeros(n), zeros(loose))
        self.matrix = np.empty((n_types, n_types))
        self.factor = np.empty((n_types, n_types))
        self.right, self.residual = zeros(n_types), zeros(n_types)
        self.sums = zeros((n_servers, 5))
        self.scale = zeros(n_types)

        task_type = columns.pairs.task_type
        self.weight = rate[task_type] * search.problem.market.copies[columns.server]
        plain = 2.0 * float(self.weight.sum()) + float(rate[:loose].sum())
        self.total = 2.0 * float(np.sum(self.weight * part[task_type]))
        self.total += float(np.sum((rate * part)[:loose]))
        self.unit = plain / self.total

    def begin(self, pairs: Pairs, market: Market, prices: tuple[Float, Float], mu: float) -> None:
        """Start at these prices where the mean product, weighted by rates, is mu."""
        self.point.price[:], self.point.capacity[:] = prices
        center(pairs, market, self.point, mu * self.unit, self.straight.part)

    def look(self, search: Search, columns: Columns) -> Center:
        """The point as it is."""
        point, problem = self.point, search.problem
        gap = products(columns.pairs, problem.market, point, self.step, (0.0, 0.0))
        value = float(np.sum(self.weight * columns.pairs.reward * point.rate))
        served = served_by(problem, columns, point.rate)
        served[: len(point.slack)] += point.slack
        return Center(
            point.price.copy(),
            point.capacity.copy(),
            point.rate.copy(),
            gap / max(abs(value), 1e-300),
            float(np.max(np.abs(served - problem.market.demand))),
        )

    def direct(self, pairs: Pairs, market: Market, aim: Aim, anew: bool) -> tuple[float, float]:
        """The direction of an aim; the largest primal and dual steps that stay inside.

        Args:
            pairs: The pairs.
            market: And the rest of the problem.
            aim: Products aimed at.
            anew: Whether the matrix belongs to another point and is to be made and factored.

        Raises:
            ArithmeticError: If the matrix cannot be factored.
        """
        system = (self.matrix, self.right, self.sums)
        assemble(pairs, market, self.point, aim, system, anew)
        ridge = RIDGE
        if anew:
            self.factor[:] = self.matrix
        while anew and factor(self.factor, self.scale, ridge) >= 0:
            ridge *= 100.0
            if not ridge < 1e-6:
                raise ArithmeticError("the system of the barrier is not positive definite")
            self.factor[:] = self.matrix
        self.step.price[:] = self.right
        solve(self.factor, self.scale, self.step.price)
        for _ in range(REFINEMENTS):
            self.residual[:] = self.right
            subtract_product(self.matrix, self.step.price, self.residual)
            solve(self.factor, self.scale, self.residual)
            self.step.price[:] += self.residual
        return recover(pairs, market, self.point, aim, self.sums, self.step)


def _vectors(n: int, how_many: int) -> list[Float]:
    return [np.zeros(n) for _ in range(how_many)]


def find_center(search: Search, columns: Columns, prices: tuple[Float, Float], mu: float) -> Center:
    """Solve the LP over these pairs.

    Args:
        search: The solve; only its time and its problem are used.
        columns: The pairs.
        prices: l (types,) and q (servers,) to start from.
        mu: Products to start from: small where the prices are nearly optimal.

    Returns:
        The best point found; its ``gap`` and ``missed`` tell how good it is.
    """
    market, pairs = search.problem.market, columns.pairs
    system = _System(search, columns)
    system.begin(pairs, market, prices, mu)
    best, idle = system.look(search, columns), 0
    for number in range(MOST_STEPS):
        try:
            length = _advance(system, pairs, market)
        except ArithmeticError:
            break
        if number < 3 and length < OFF_CENTER and mu < 1.0:
            mu *= LARGER
            system.begin(pairs, market, prices, mu)
        now = system.look(search, columns)
        if not np.isfinite(now.gap + now.missed):
            break
        search.tell(f"step {number + 1}, {len(pairs.reward)} pairs, gap over them {now.gap:.1e}")
        solved = best.gap <= FINE and (best.missed <= MET or idle > 0)
        if solved and not now.missed <= 10.0 * max(best.missed, MET):
            break
        better = max(now.gap, now.missed) < 0.9 * max(best.gap, best.missed) or number < 3
        idle = 0 if better else idle + 1
        best = now if better or solved else best
        sharp = solved and (now.gap <= SHARP or length < 0.5)
        if sharp or idle > STALLED or search.out_of_time:
            break
    return best


def _advance(system: _System, pairs: Pairs, market: Market) -> float:
    """One predictor and corrector step; returns the smaller of its two lengths."""
    point, step = system.point, system.step
    primal, dual = system.direct(pairs, market, system.straight, True)
    now = products(pairs, market, point, step, (0.0, 0.0))
    mean = now / system.total
    ahead = products(pairs, market, point, step, (min(1.0, primal), min(1.0, dual)))
    share = min(1.0, max((ahead / now) ** 3, 1e-6))
    aim = system.bent._replace(mu=share * mean)
    correct(pairs, step, aim, CUT_OFF * mean)
    primal, dual = system.direct(pairs, market, aim, False)
    lengths = min(1.0, INSIDE * primal), min(1.0, INSIDE * dual)
    move(point, step, lengths)
    return min(lengths)
