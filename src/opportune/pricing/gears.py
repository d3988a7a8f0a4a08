"""One call that picks the gear by size and structure, and says which it was.

==========  ==================================================================================
full-lp     HiGHS on the whole LP: for small instances, where it takes milliseconds.
dual        Newton's method on the rounded dual: a certified bound at once (``pricing.dual``).
sifting     Barrier over the pairs near the dual's prices, priced out (``pricing.sifting``).
barrier     Barrier over all pairs: where most of them are near (``pricing.interior``).
==========  ==================================================================================

All end with prices, rates and a gap that we compute from them; no solver's word is taken for it.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, SolverError, shorten
from opportune.model.loss import LossInstance
from opportune.pricing import certificate
from opportune.pricing.demand import FULL, Demand
from opportune.pricing.dual import COLD, HOT, WARM, descend, first_prices
from opportune.pricing.lp import solve
from opportune.pricing.pairs import PairProblem, expand, pair_problem
from opportune.pricing.program import occupancy_program
from opportune.pricing.recovery import offer_feasible, rounded_rates
from opportune.pricing.search import Search, Stop, relative_gap
from opportune.pricing.sifting import sift

Float = NDArray[np.float64]
Int = NDArray[np.int64]

AUTO, FULL_LP, DUAL, SIFTING, BARRIER = "auto", "full-lp", "dual", "sifting", "barrier"
GEARS = (AUTO, FULL_LP, DUAL, SIFTING, BARRIER)

SMALL = 2_000
"""Pairs up to which the whole LP goes to HiGHS."""

NEAR = 40.0
"""Pairs with index above minus this many last temperatures are the first to be sifted."""

INFEASIBLE = "Infeasible"
"""Status of the error where the dual value falls below 0: not every task can be served."""


@dataclass(frozen=True, eq=False)
class Certified:
    """Prices and feasible rates of an occupancy LP, and what lies between them.

    Attributes:
        demand_price: (V,) l in reward; NaN for types that do not arrive or get nothing.
        dual_value: D(l), an upper bound in reward per step.
        value: Reward per step of the rates, a lower bound; -inf if none were found.
        pair_type, pair_server: Pairs with a positive rate.
        weight: u / lambda of each.
        gear: Which gear it was.
        solver: The same, more exactly.
        ended: ``gap``, ``time``, ``interrupt`` or ``stalled``.
        seconds: Time it took.
        memory: Peak memory of the process so far in bytes.
    """

    demand_price: Float
    dual_value: float
    value: float
    pair_type: Int
    pair_server: Int
    weight: Float
    gear: str
    solver: str
    ended: str
    seconds: float
    memory: int

    @property
    def gap(self) -> float:
        """(dual value - value) / dual value; infinite without rates."""
        return relative_gap(self.dual_value, self.value)


def certified_prices(
    instance: LossInstance,
    demand: Demand = FULL,
    stop: Stop | None = None,
    gear: str = AUTO,
    start: Float | None = None,
) -> Certified:
    """Prices, rates and a certified gap of OCC-LP.

    Args:
        instance: At least one type must arrive.
        demand: ``FULL``, ``Demand(blocking=B)`` or ``AT_MOST``.
        stop: Gap, time and progress; by default a gap of 1e-9.
        gear: One of ``GEARS``.
        start: (V,) prices in reward to start from, NaN where none is known.

    Raises:
        InputError: If there is no such gear.
        SolverError: With status ``INFEASIBLE`` if not every task can be served; or if HiGHS,
            where it is used, ends without an optimal solution.
    """
    if gear not in GEARS:
        raise InputError(Problem("gear", shorten(gear), f"one of {', '.join(GEARS)}"))
    stop = Stop() if stop is None else stop
    if gear == FULL_LP or (gear == AUTO and instance.allowed.sum() <= SMALL):
        return _full_lp(instance, demand, stop)
    began = time.perf_counter()
    problem = pair_problem(instance, demand)
    if problem.n_types == 0:
        return _nothing_asked(instance, began)
    search = Search(problem, stop, began)
    first = None if start is None else _to_classes(problem, start)
    ended = run(search, gear, first)
    return _certified(search, ended, instance.on_duty)


def run(search: Search, gear: str = AUTO, start: Float | None = None) -> str:
    """Solve a problem given as pairs; the best certified pair is left in ``search``.

    Args:
        search: The problem, and when to stop.
        gear: ``DUAL``, ``SIFTING``, ``BARRIER``, or ``AUTO`` for dual, then sifting.
        start: (types,) prices to start from in units of the problem, NaN where unknown.

    Returns:
        What ended it: ``gap``, ``time``, ``interrupt`` or ``stalled``.

    Raises:
        SolverError: With status ``INFEASIBLE`` if the demand provably cannot be met.
    """
    ended = "stalled"
    try:
        _stages(search, gear, start)
    except KeyboardInterrupt:
        if search.price is None or not search.stop.catch_interrupt:
            raise
        ended = "interrupt"
    if search.infeasible:
        raise SolverError(INFEASIBLE, "OCC-LP: its dual value is below 0")
    if search.rate is None and search.rounding is not None:
        price, capacity, tau = search.rounding
        offer_feasible(search, *rounded_rates(search.problem, (price, capacity), tau))
    if search.done:
        return "gap"
    return "time" if search.out_of_time and ended == "stalled" else ended


def _stages(search: Search, gear: str, start: Float | None) -> None:
    problem = search.problem
    if not problem.pairs.reward.any():
        search.offer_price(np.zeros(problem.n_types), np.zeros(problem.n_servers))
    price, spread = first_prices(problem)
    hot = HOT
    if start is not None:
        known = np.isfinite(start)
        price = np.where(known, start, price)
        hot = WARM if known.all() else HOT
    tau = descend(search, price, hot * spread, COLD * spread)
    if gear == DUAL or search.done or search.out_of_time or search.infeasible:
        return
    sift(search, math.inf if gear == BARRIER else NEAR * tau, tau)


def _to_classes(problem: PairProblem, start: Float) -> Float:
    """(types,) prices of merged types in units of the problem from those of the instance."""
    used = problem.class_of >= 0
    price = np.full(problem.n_types, np.nan)
    price[problem.class_of[used][::-1]] = start[used][::-1] / problem.unit
    return price


def _certified(search: Search, ended: str, on_duty: Float) -> Certified:
    problem = search.problem
    price, _ = search.best_prices
    if search.columns is None or search.rate is None:
        nothing = np.empty(0, dtype=np.int64)
        pairs, share = (nothing, nothing, np.empty(0)), 0.0
    else:
        pairs = expand(problem, search.columns, search.rate)
        share = len(search.rate) / problem.n_pairs
    return Certified(
        demand_price=problem.prices(price),
        dual_value=search.dual_value * problem.unit,
        value=search.value * problem.unit,
        pair_type=pairs[0],
        pair_server=pairs[1],
        weight=pairs[2] * on_duty[pairs[1]],
        gear=search.gear,
        solver=f"{search.gear}, {share:.2%} of {problem.n_pairs:,} pairs",
        ended=ended,
        seconds=search.seconds,
        memory=peak_memory(),
    )


def _nothing_asked(instance: LossInstance, began: float) -> Certified:
    nothing = np.empty(0, dtype=np.int64)
    return Certified(
        demand_price=np.full(instance.n_types, np.nan),
        dual_value=0.0,
        value=0.0,
        pair_type=nothing,
        pair_server=nothing,
        weight=np.empty(0),
        gear=AUTO,
        solver="arithmetic",
        ended="gap",
        seconds=time.perf_counter() - began,
        memory=peak_memory(),
    )


def _full_lp(instance: LossInstance, demand: Demand, stop: Stop) -> Certified:
    """HiGHS, dual simplex; its prices and rates, our dual value."""
    began = time.perf_counter()
    program = occupancy_program(instance, demand)
    solution = solve(program.linear, f"OCC-LP of {instance.name}")
    price = program.demand_price(solution.row_dual, instance)
    if demand.at_most:
        price = np.maximum(price, 0.0)
    weight = np.maximum(solution.x[: len(program.pair_type)], 0.0)
    used = weight > 0
    dual_value = certificate.dual_value(instance, demand, np.nan_to_num(price))
    value = solution.value * program.unit
    return Certified(
        demand_price=price,
        dual_value=dual_value,
        value=value,
        pair_type=program.pair_type[used],
        pair_server=program.pair_server[used],
        weight=weight[used],
        gear=FULL_LP,
        solver=solution.solver,
        ended="gap" if relative_gap(dual_value, value) <= stop.gap else "stalled",
        seconds=time.perf_counter() - began,
        memory=peak_memory(),
    )


def peak_memory() -> int:
    """Peak memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
