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
from opportune.kernels.cholesky import factor, solve
from opportune.pricing.pairs import Columns
from opportune.pricing.recovery import served_by
from opportune.pricing.search import Search

Float = NDArray[np.float64]

FINE = 1e-13
"""Relative gap aimed at: far below the one asked for, as the last steps each gain digits."""

MET = 1e-12
"""Servers per task by which a demand may be missed."""

MOST_STEPS = 80

STALLED = 8
"""Steps in a row that gain nothing after which the method has done what it can."""

RIDGE = 1e-14
"""Added to the scaled system's diagonal of 1; a hundred times more where that is too little."""

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
        self.straight = Aim(0.0, zeros(n), zeros(n), zeros(loose))
        self.bent = Aim(0.0, zeros(n), zeros(n), zeros(loose))
        self.matrix = np.empty((n_types, n_types))
        self.right = zeros(n_types)
        self.sums = zeros((n_servers, 5))
        self.scale = zeros(n_types)

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
        while anew and factor(self.matrix, self.scale, ridge) >= 0:
            ridge *= 100.0
            if not ridge < 1e-6:
                raise ArithmeticError("the system of the barrier is not positive definite")
            assemble(pairs, market, self.point, aim, system, anew)
        self.step.price[:] = self.right
        solve(self.matrix, self.scale, self.step.price)
        return recover(pairs, market, self.point, aim, self.sums, self.step)


def _vectors(n: int, how_many: int) -> list[Float]:
    return [np.zeros(n) for _ in range(how_many)]


def find_center(
    search: Search, columns: Columns, prices: tuple[Float, Float], mu: float
) -> Center:
    """Solve the LP over these pairs.

    Args:
        search: The solve; only its time and its problem are used.
        columns: The pairs.
        prices: l (types,) and q (servers,) to start from.
        mu: Products to start from: small where the prices are nearly optimal.

    Returns:
        The best point found; its ``gap`` and ``missed`` tell how good it is.
    """
    problem, pairs, market = search.problem, columns.pairs, search.problem.market
    system = _System(search, columns)
    point = system.point
    point.price[:], point.capacity[:] = prices
    center(pairs, market, point, mu)
    weight = market.arrival_rate[pairs.task_type] * market.copies[columns.server]
    total = 2.0 * float(weight.sum()) + float(market.arrival_rate[: len(point.slack)].sum())
    best, idle = None, 0
    for number in range(MOST_STEPS):
        gap_value = products(pairs, market, point, system.step, (0.0, 0.0))
        value = float(weight @ (pairs.reward * point.rate))
        served = served_by(problem, columns, point.rate)
        served[: len(point.slack)] += point.slack
        now = Center(
            point.price.copy(),
            point.capacity.copy(),
            point.rate.copy(),
            gap_value / max(abs(value), 1e-300),
            float(np.max(np.abs(served - market.demand))),
        )
        if not np.isfinite(now.gap + now.missed):
            break
        idle = 0 if best is None or _better(now, best) else idle + 1
        best = now if idle == 0 else best
        search.tell(f"step {number}, {len(pairs.reward)} pairs, gap over them {now.gap:.1e}")
        if (now.gap <= FINE and now.missed <= MET) or idle > STALLED or search.out_of_time:
            break
        try:
            _advance(system, pairs, market, gap_value / total)
        except ArithmeticError:
            break
    assert best is not None  # noqa: S101
    return best


def _better(now: Center, best: Center) -> bool:
    """Whether the larger of gap and miss has clearly fallen."""
    return max(now.gap, now.missed) < 0.9 * max(best.gap, best.missed)


def _advance(system: _System, pairs: Pairs, market: Market, mean: float) -> None:
    """One predictor and corrector step; ``mean`` is the mean product now."""
    point, step = system.point, system.step
    primal, dual = system.direct(pairs, market, system.straight, True)
    now = products(pairs, market, point, step, (0.0, 0.0))
    ahead = products(pairs, market, point, step, (min(1.0, primal), min(1.0, dual)))
    share = min(1.0, max((ahead / now) ** 3, 1e-6))
    aim = system.bent._replace(mu=share * mean)
    correct(pairs, step, aim, CUT_OFF * mean)
    primal, dual = system.direct(pairs, market, aim, False)
    move(point, step, (min(1.0, INSIDE * primal), min(1.0, INSIDE * dual)))
