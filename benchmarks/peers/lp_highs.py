"""An occupancy LP by HiGHS on one thread: ``simplex`` (dual, presolve) or ``ipm`` (crossover)."""

from __future__ import annotations

import highspy
import numpy as np

from benchmarks.peers.lp_task import Found, Task, answer, program_of

TOLERANCE = 1e-9


def solve(task: Task, seconds: float, method: str) -> Found | str:
    """Feasibility and optimality to 1e-9."""
    program = program_of(task)
    highs = highspy._core._Highs()
    for option, value in {
        "output_flag": False,
        "threads": 1,
        "solver": method,
        "time_limit": seconds,
        "primal_feasibility_tolerance": TOLERANCE,
        "dual_feasibility_tolerance": TOLERANCE,
        "ipm_optimality_tolerance": TOLERANCE,
    }.items():
        highs.setOptionValue(option, value)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = program.matrix.shape
    lp.col_cost_ = -program.cost
    lp.col_lower_, lp.col_upper_ = np.zeros(lp.num_col_), np.ones(lp.num_col_)
    lp.row_lower_, lp.row_upper_ = program.lower, program.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = program.matrix.indptr
    lp.a_matrix_.index_ = program.matrix.indices
    lp.a_matrix_.value_ = program.matrix.data
    highs.passModel(lp)
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        return str(highs.modelStatusToString(status))
    solution = highs.getSolution()
    x, dual = np.array(solution.col_value), -np.array(solution.row_dual)
    return Found(float(program.cost @ x), dual[: len(task.rate)])


if __name__ == "__main__":
    answer(solve)
