"""An occupancy LP by Clarabel, an interior-point method for conic programs, on one thread."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from benchmarks.peers.lp_task import Found, Task, answer, program_of

TOLERANCE = 1e-10


def solve(task: Task, seconds: float, method: str) -> Found | str:
    """Gap and feasibility to 1e-10, in scaled variables."""
    program = program_of(task)
    m, n = program.matrix.shape
    n_types = len(task.rate)
    equal = np.isfinite(program.lower)
    rows = program.matrix.tocsr()
    stacked = sparse.vstack(
        [rows[equal], rows[~equal], -sparse.eye_array(n), sparse.eye_array(n)], format="csc"
    )
    right = np.concatenate([program.upper[equal], program.upper[~equal], np.zeros(n), np.ones(n)])
    cones = [
        clarabel.ZeroConeT(int(equal.sum())),
        clarabel.NonnegativeConeT(m - int(equal.sum()) + 2 * n),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = seconds
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    nothing = sparse.csc_matrix((n, n))
    solver = clarabel.DefaultSolver(nothing, -program.cost, stacked, right, cones, settings)
    solution = solver.solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        return str(solution.status)
    dual = np.empty(m)
    z = np.array(solution.z)  # of the minimization: the derivative of our maximum
    dual[equal], dual[~equal] = z[: equal.sum()], z[equal.sum() : m]
    return Found(float(program.cost @ np.array(solution.x)), dual[:n_types])


if __name__ == "__main__":
    answer(solve)
