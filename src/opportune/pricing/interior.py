"""Gear "barrier": an interior-point method on some or all pairs.

Mehrotra's predictor and corrector (1992) on ``kernels.barrier``: every step solves one system
in the V demand prices, whatever the number of pairs, so a few thousand pairs near the optimal
prices (``pricing.sifting``) cost next to nothing and all of them are affordable. Its limit is
the center of the optimal face: unique, and alike for what is alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import Market, Pairs
from opportune.kernels.barrier import (
    Aim,
    Interior,
    Program,
    assemble,
    center,
    correct,
    products,
    recover,
)
from opportune.kernels.cholesky import elimination_order, factor, solve, subtract_product
from opportune.pricing.pairs import Columns, PairProblem, all_columns
from opportune.pricing.recovery import served_by
from opportune.pricing.search import Search

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

EARLY = 1e-7
"""Relative gap at which it shows whether pairs are missing."""

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

SMALLEST = 1e-12
"""Types whose rewards are all smaller than this count as if one were as large."""

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


@dataclass(frozen=True, eq=False)
class Shape:
    """What makes a program other than the plain LP; None: nothing.

    Attributes:
        curvature: (types,) kappa: sum lambda kappa y^2 / 2 is subtracted.
        fixed: (n,) pairs with y = phi.
        loose: (types,) types whose demand need not be met.
    """

    curvature: Float
    fixed: Bool
    loose: Bool


def linear(problem: PairProblem) -> Shape:
    """The plain LP."""
    return Shape(
        np.zeros(problem.n_types),
        np.zeros(problem.n_pairs, dtype=np.bool_),
        np.full(problem.n_types, problem.at_most),
    )


class System:
    """The matrices and vectors that every step writes anew, for one program."""

    def __init__(self, problem: PairProblem, shape: Shape) -> None:
        n_types, n_servers, n = problem.n_types, problem.n_servers, problem.n_pairs
        rate, part = problem.market.arrival_rate, _parts(problem, shape)
        zeros = np.zeros
        sizes = (n_types, n_types, n_servers, n_servers, n, n, n, n)
        self.problem = problem
        self.program = Program(
            problem.pairs, problem.market, shape.curvature, shape.fixed, shape.loose
        )
        self.point = Interior(*(zeros(size) for size in sizes))
        self.step = Interior(*(zeros(size) for size in sizes))
        self.straight = Aim(0.0, part, zeros(n), zeros(n), zeros(n_types))
        self.bent = Aim(0.0, part, zeros(n), zeros(n), zeros(n_types))
        self.matrix = np.empty((n_types, n_types))
        self.factor = np.empty((n_types, n_types))
        self.right, self.residual = zeros(n_types), zeros(n_types)
        self.sums = zeros((n_servers, 5))
        self.scale = zeros(n_types)
        task_type = problem.pairs.task_type
        copies = np.repeat(problem.market.copies, np.diff(problem.pairs.start))
        self.weight = rate[task_type] * copies
        barred = 2.0 * self.weight * ~shape.fixed
        loose = rate * shape.loose
        self.total = float(np.sum(barred * part[task_type]) + np.sum(loose * part))
        self.unit = float(barred.sum() + loose.sum()) / max(self.total, 1e-300)

    def begin(self, prices: tuple[Float, Float], mu: float) -> None:
        """Start at these prices where the mean product, weighted by rates, is mu."""
        self.point.price[:], self.point.capacity[:] = prices
        center(self.program, self.point, mu * self.unit, self.straight.part)

    def look(self) -> Center:
        """The point as it is."""
        point, problem = self.point, self.problem
        task_type = problem.pairs.task_type
        gap = products(self.program, point, self.step, (0.0, 0.0))
        worth = problem.pairs.reward + self.program.curvature[task_type] * point.rate
        value = float(np.sum(self.weight * worth * point.rate))
        served = served_by(problem, all_columns(problem), point.rate) + point.slack
        return Center(
            point.price.copy(),
            point.capacity.copy(),
            point.rate.copy(),
            gap / max(abs(value), 1e-300),
            float(np.max(np.abs(served - problem.market.demand))),
        )

    def advance(self) -> float:
        """One predictor and corrector step; returns the smaller of its two lengths."""
        point, step = self.point, self.step
        primal, dual = self._direct(self.straight, True)
        now = products(self.program, point, step, (0.0, 0.0))
        mean = now / self.total
        ahead = products(self.program, point, step, (min(1.0, primal), min(1.0, dual)))
        share = min(1.0, max((ahead / now) ** 3, 1e-6))
        aim = self.bent._replace(mu=share * mean)
        correct(self.program, step, aim, CUT_OFF * mean)
        primal, dual = self._direct(aim, False)
        lengths = min(1.0, INSIDE * primal), min(1.0, INSIDE * dual)
        move(point, step, lengths)
        return min(lengths)

    def _direct(self, aim: Aim, anew: bool) -> tuple[float, float]:
        """The direction of an aim; the largest primal and dual steps that stay inside.

        Args:
            aim: Products aimed at.
            anew: Whether the matrix belongs to another point and is to be made and factored.

        Raises:
            ArithmeticError: If the matrix cannot be factored.
        """
        system = (self.matrix, self.right, self.sums)
        assemble(self.program, self.point, aim, system, anew)
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
        return recover(self.program, self.point, aim, self.sums, self.step)


def move(point: Interior, step: Interior, lengths: tuple[float, float]) -> None:
    """Take a step: ``lengths`` of the primal and the dual part.

    (Whole arrays, so nothing is gained by compiling it, and three seconds of compiling are lost.)
    """
    primal, dual = lengths
    for at, change, length in (
        (point.price, step.price, dual),
        (point.slack, step.slack, primal),
        (point.capacity, step.capacity, dual),
        (point.free, step.free, primal),
        (point.rate, step.rate, primal),
        (point.rest, step.rest, primal),
        (point.low, step.low, dual),
        (point.high, step.high, dual),
    ):
        at += length * change


def _parts(problem: PairProblem, shape: Shape) -> Float:
    """(types,) share of mu in a type's products: sqrt(usual worth of its pairs / its rate).

    The plain barrier has 1 / rate, which leaves rare types imprecise; the usual worth alone
    would make all types equally precise, and bends the path where rates differ much. Usual is
    the square of the mean root of the rewards: a single large one does not count for much.
    """
    task_type, rate = problem.pairs.task_type, problem.market.arrival_rate
    roots = np.bincount(task_type, np.sqrt(problem.pairs.reward), minlength=problem.n_types)
    count = np.bincount(task_type, minlength=problem.n_types)
    usual = (roots / np.maximum(count, 1)) ** 2 + shape.curvature
    return np.asarray(np.sqrt(np.maximum(usual, SMALLEST) * rate.max() / rate))


def find_center(
    search: Search,
    columns: Columns,
    prices: tuple[Float, Float],
    mu: float,
    go_on: Callable[[Center], bool] = lambda _: True,
) -> Center:
    """Solve the LP over these pairs.

    Args:
        search: The solve; only its time and its problem are used.
        columns: The pairs.
        prices: l (types,) and q (servers,) to start from.
        mu: Products to start from: small where the prices are nearly optimal.
        go_on: Asked once, at a gap of ``EARLY``, whether the last digits are worth their time.

    Returns:
        The best point found; its ``gap`` and ``missed`` tell how good it is.
    """
    problem, order, place = _reordered(search.problem, columns)

    def watch(number: int, now: Center, ready: bool) -> bool:
        text = f"step {number}, {problem.n_pairs} pairs, gap over them {now.gap:.1e}"
        search.tell(text)
        return not search.out_of_time and (not ready or go_on(_as_before(now, order, place)))

    system = System(problem, linear(problem))
    return _as_before(iterate(system, (prices[0][order], prices[1]), mu, watch), order, place)


def iterate(
    system: System,
    prices: tuple[Float, Float],
    mu: float,
    watch: Callable[[int, Center, bool], bool] = lambda *_: True,
) -> Center:
    """Steps until the program is solved, nothing helps or ``watch`` says no.

    ``watch`` sees the number of the step, the best point so far and, once, at a gap of
    ``EARLY``, that it is ready to be judged.
    """
    system.begin(prices, mu)
    best, idle, asked = system.look(), 0, False
    for number in range(MOST_STEPS):
        try:
            length = system.advance()
        except ArithmeticError:
            break
        if number < 3 and length < OFF_CENTER and mu < 1.0:
            mu *= LARGER
            system.begin(prices, mu)
        now = system.look()
        if not np.isfinite(now.gap + now.missed):
            break
        solved = best.gap <= FINE and (best.missed <= MET or idle > 0)
        if solved and not now.missed <= 10.0 * max(best.missed, MET):
            break
        better = max(now.gap, now.missed) < 0.9 * max(best.gap, best.missed) or number < 3
        idle = 0 if better else idle + 1
        best = now if better or solved else best
        ready = not asked and max(best.gap, best.missed) <= EARLY
        asked = asked or ready
        sharp = solved and (now.gap <= SHARP or length < 0.5)
        if sharp or idle > STALLED or not watch(number + 1, best, ready):
            break
    return best


def _reordered(problem: PairProblem, columns: Columns) -> tuple[PairProblem, Int, Int]:
    """The problem over these pairs, types in an order in which factoring is cheap.

    Returns:
        The problem; the types of the original in the new order; the pairs of ``columns`` in
        the order of its lists.
    """
    pairs, market = columns.pairs, problem.market
    order = elimination_order(pairs.start, pairs.task_type, problem.n_types)
    rank = np.empty(problem.n_types, dtype=np.uint32)
    rank[order] = np.arange(problem.n_types)
    place = np.lexsort((rank[pairs.task_type], columns.server))
    reordered = replace(
        problem,
        pairs=Pairs(
            pairs.start,
            rank[pairs.task_type][place],
            pairs.reward[place],
            pairs.mean[order] if pairs.mean.ndim == 1 else pairs.mean[place],
        ),
        market=Market(
            market.arrival_rate[order],
            market.demand[order],
            market.copies,
        ),
    )
    return reordered, order, place


def _as_before(found: Center, order: Int, place: Int) -> Center:
    """A center of the reordered problem in the order of the original."""
    price, rate = np.empty_like(found.price), np.empty_like(found.rate)
    price[order], rate[place] = found.price, found.rate
    return replace(found, price=price, rate=rate)
