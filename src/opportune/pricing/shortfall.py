"""The least demand that must go unserved, and the prices that prove it.

max sum_vr u_vr / lambda_v over the rates that capacity and availability allow, at most
k_v lambda_v per type: what is missing to sum_v k_v is the least shortfall; 0 means that every
task can be served. Small instances go to HiGHS, others to the gears of ``pricing.gears``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import SolverError
from opportune.model.loss import LossInstance
from opportune.pricing.demand import FULL
from opportune.pricing.gears import SMALL, run
from opportune.pricing.lp import solve
from opportune.pricing.pairs import serving_problem
from opportune.pricing.program import occupancy_program
from opportune.pricing.recovery import served_by
from opportune.pricing.search import Search, Stop

Float = NDArray[np.float64]
Int = NDArray[np.int64]

EXACT = 1e-10
"""On HiGHS, a shortfall in units of the largest arrival rate that counts as none; by the gears,
a share of the demand of every type, however rare."""

PRECISE = 1e-11
"""Relative gap asked of the gears."""

LOOSE = 1e-7
"""Gap that will do: the prices then still prove what they prove."""

DOING = "the joint feasibility check"


@dataclass(frozen=True, eq=False)
class Shortfall:
    """The least shortfall.

    Attributes:
        none: Whether every task can be served.
        types: (n,) types that arrive.
        missing: (n,) servers per task that each lacks.
        price: (n,) prices p of the proof, at least 0, up to one factor: sum_v k_v p_v exceeds
            what the servers can earn at them, unless nothing is missing.
    """

    none: bool
    types: Int
    missing: Float
    price: Float


def least_shortfall(instance: LossInstance, factor: float = 1.0, gap: float = 0.0) -> Shortfall:
    """The least shortfall with all arrival rates multiplied by ``factor``.

    Args:
        instance: The instance.
        factor: Of its rates.
        gap: Relative gap that will do, where the gears solve it.

    Raises:
        SolverError: If the solver ends without an optimal solution.
    """
    if int(instance.allowed.sum()) > SMALL:
        return _by_gears(instance, factor, gap)
    program = occupancy_program(instance, FULL, factor, shortfall=True)
    solution = solve(program.linear, DOING)
    n = len(program.types)
    return Shortfall(
        none=-solution.value <= EXACT,
        types=program.types,
        missing=np.maximum(solution.x[-n:], 0.0),
        price=np.maximum(-solution.row_dual[:n], 0.0),
    )


def _by_gears(instance: LossInstance, factor: float, gap: float) -> Shortfall:
    problem = serving_problem(instance, factor)
    search = Search(problem, Stop(gap=max(gap, PRECISE)))
    ended = run(search)
    if search.columns is None or search.rate is None or not search.gap <= max(gap, LOOSE):
        raise SolverError(ended, DOING)
    served = served_by(problem, search.columns, search.rate)
    missing = np.maximum(problem.market.demand - served, 0.0)
    price, _ = search.best_prices
    types = np.flatnonzero(problem.class_of >= 0)
    of = problem.class_of[types]
    return Shortfall(
        none=bool(np.all(missing <= EXACT * problem.market.demand)),
        types=types,
        missing=missing[of],
        price=np.maximum(1.0 - instance.arrival_rate[types] * problem.unit * price[of], 0.0),
    )
