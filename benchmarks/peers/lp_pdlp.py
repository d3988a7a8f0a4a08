"""An occupancy LP by PDLP, the first-order method of OR-tools, on one thread."""

from __future__ import annotations

import numpy as np
from ortools.pdlp import solve_log_pb2, solvers_pb2
from ortools.pdlp.python import pdlp

from benchmarks.peers.lp_task import Found, Task, answer, program_of

TOLERANCE = 1e-8


def solve(task: Task, seconds: float, method: str) -> Found | str:
    """Optimality to 1e-8, absolute and relative."""
    program = program_of(task)
    n = len(program.cost)
    quadratic = pdlp.QuadraticProgram()
    quadratic.resize_and_initialize(n, len(program.lower))
    quadratic.objective_vector = -program.cost
    quadratic.constraint_matrix = program.matrix
    quadratic.constraint_lower_bounds = program.lower
    quadratic.constraint_upper_bounds = program.upper
    quadratic.variable_lower_bounds = np.zeros(n)
    quadratic.variable_upper_bounds = np.ones(n)
    settings = solvers_pb2.PrimalDualHybridGradientParams()
    settings.num_threads = 1
    settings.termination_criteria.time_sec_limit = seconds
    criteria = settings.termination_criteria.simple_optimality_criteria
    criteria.eps_optimal_absolute = criteria.eps_optimal_relative = TOLERANCE
    result = pdlp.primal_dual_hybrid_gradient(quadratic, settings)
    reason = result.solve_log.termination_reason
    if reason != solve_log_pb2.TERMINATION_REASON_OPTIMAL:
        return str(solve_log_pb2.TerminationReason.Name(reason))
    dual = -np.array(result.dual_solution)
    objective = float(program.cost @ np.array(result.primal_solution))
    return Found(objective, dual[: len(task.rate)])


if __name__ == "__main__":
    answer(solve)
