"""Linear programs on HiGHS, quadratic ones on PIQP: the only module that knows a solver.

It owns the options, the solver's status and the sign of duals. A program is *maximized*;
``row_dual[i]`` is the derivative of the optimal value with respect to the bound of row i.
A solve that does not end with status Optimal raises :class:`SolverError`: no numbers
attached to another status ever become prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import piqp
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, diags_array

from opportune.errors import SolverError

Float = NDArray[np.float64]
Int = NDArray[np.int64]

TOLERANCE = 1e-10
"""Primal and dual feasibility tolerance handed to HiGHS (its smallest), in scaled variables."""

SIMPLEX = "simplex"
"""A vertex solution: dual simplex with presolve."""

INTERIOR = "interior"
"""A solution in the relative interior: interior point, no crossover, no presolve."""


QP_TOLERANCE = 1e-13
"""Absolute and relative tolerance handed to PIQP."""

CENTER_TOLERANCE = 1e-9
"""The same for linear programs, where it stalls earlier."""


@dataclass(frozen=True)
class Program:
    """Maximize cost @ x within bounds of columns and rows.

    Attributes:
        cost: (n,) objective.
        lower, upper: (n,) bounds of the columns.
        row_lower, row_upper: (m,) bounds of the rows.
        row, column, value: the matrix, entry by entry.
    """

    cost: Float
    lower: Float
    upper: Float
    row_lower: Float
    row_upper: Float
    row: Int
    column: Int
    value: Float


@dataclass(frozen=True)
class Solution:
    """An optimal solution.

    Attributes:
        x: (n,) columns.
        row_dual: (m,) derivative of the optimal value by the bound of each row.
        value: Objective at x.
        solver: Name and version of the solver and its method.
    """

    x: Float
    row_dual: Float
    value: float
    solver: str


def solve(program: Program, doing: str, method: str = SIMPLEX) -> Solution:
    """Maximize a program with HiGHS.

    Args:
        program: What to maximize.
        doing: Name of the program, for the error message.
        method: ``SIMPLEX`` or ``INTERIOR``.

    Raises:
        SolverError: If the solver ends without an optimal solution.
    """
    # the bare solver class: the public subclass prints a banner to stdout when it is built
    highs = highspy._core._Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("primal_feasibility_tolerance", TOLERANCE)
    highs.setOptionValue("dual_feasibility_tolerance", TOLERANCE)
    if method == INTERIOR:
        highs.setOptionValue("solver", "ipx")
        highs.setOptionValue("run_crossover", "off")
        highs.setOptionValue("presolve", "off")
    else:
        highs.setOptionValue("solver", "simplex")
    highs.passModel(_model(program))
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(highs.modelStatusToString(status), doing)
    solution = highs.getSolution()
    x = np.array(solution.col_value)
    return Solution(
        x=x,
        row_dual=-np.array(solution.row_dual),
        value=float(program.cost @ x),
        solver=f"highs {highs.version()} {method}",
    )


def least_squares(program: Program, curvature: Float, doing: str) -> Float:
    """Minimize curvature @ x**2 / 2 - cost @ x within the bounds of a program, with PIQP.

    (HiGHS' own quadratic solver was tried first and cycled on tied instances.)

    Args:
        program: Bounds, rows and cost.
        curvature: (n,) diagonal of the quadratic part, at least 0.
        doing: Name of the program, for the error message.

    Returns:
        (n,) the minimizer.

    Raises:
        SolverError: If the solver ends without an optimal solution.
    """
    return np.array(_run_piqp(program, curvature, QP_TOLERANCE, doing).result.x)


def solve_to_center(program: Program, doing: str, tolerance: float = CENTER_TOLERANCE) -> Solution:
    """Maximize a program with PIQP: a solution and duals from the middle of the optimal faces.

    HiGHS' interior point ends without a status on some degenerate programs; its simplex gives
    a vertex, whose duals depend on the order of rows.

    Args:
        program: What to maximize.
        doing: Name of the program, for the error message.
        tolerance: Absolute and relative, of feasibility and gap.

    Raises:
        SolverError: If the solver ends without an optimal solution.
    """
    solver = _run_piqp(program, np.zeros(len(program.cost)), tolerance, doing)
    equal, between = _kinds_of_rows(program)
    dual = np.zeros(len(equal))
    dual[equal] = solver.result.y  # PIQP minimizes: its multipliers are our derivatives
    dual[between] = np.asarray(solver.result.z_u) - np.asarray(solver.result.z_l)
    x = np.array(solver.result.x)
    return Solution(
        x=x, row_dual=dual, value=float(program.cost @ x), solver=f"piqp {piqp.__version__}"
    )


def _run_piqp(program: Program, curvature: Float, tolerance: float, doing: str) -> Any:
    """A PIQP solver that has minimized curvature @ x**2 / 2 - cost @ x."""
    shape = (len(program.row_lower), len(program.cost))
    matrix = csc_matrix((program.value, (program.row, program.column)), shape=shape)
    equal, between = _kinds_of_rows(program)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = tolerance
    solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = tolerance
    solver.settings.verbose = False
    solver.setup(
        csc_matrix(diags_array(curvature)),
        -program.cost,
        matrix[equal],
        program.row_lower[equal],
        matrix[between],
        program.row_lower[between],
        program.row_upper[between],
        program.lower,
        program.upper,
    )
    status = solver.solve()
    if status != piqp.PIQP_SOLVED:
        raise SolverError(status.name, doing)
    return solver


def _kinds_of_rows(program: Program) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows that are equations, and other rows with a bound; the rest bind nothing."""
    equal = program.row_lower == program.row_upper
    bounded = np.isfinite(program.row_lower) | np.isfinite(program.row_upper)
    return equal, bounded & ~equal


def _model(program: Program) -> highspy.HighsLp:
    n, m = len(program.cost), len(program.row_lower)
    order = np.lexsort((program.row, program.column))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n, m
    lp.col_cost_ = -program.cost  # HiGHS minimizes; so its duals are minus our derivatives
    lp.col_lower_, lp.col_upper_ = program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    starts = np.searchsorted(program.column[order], np.arange(n + 1))
    lp.a_matrix_.start_ = starts.astype(np.int32)
    lp.a_matrix_.index_ = program.row[order].astype(np.int32)
    lp.a_matrix_.value_ = program.value[order]
    return lp
