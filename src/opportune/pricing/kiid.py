"""KIID-LP: the looser program of Dickerson et al. 2021 that ALG-SC-LP samples from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import SolverError
from opportune.model.loss import LossInstance
from opportune.pricing.lp import INTERIOR, SIMPLEX, solve
from opportune.pricing.program import kiid_program

Float = NDArray[np.float64]


def kiid_weights(instance: LossInstance, interior: bool) -> tuple[Float, float]:
    """Optimal x_vr = u_vr / lambda_v of KIID-LP and its value.

    Args:
        instance: The instance. Where the demand cannot be met in full (overload, forbidden
            pairs) it is met as far as it pays: ``<=`` instead of equality.
        interior: A solution from the interior (HiGHS ipx, no crossover, no presolve: what the
            paper's column was made with, reconstructed) or a vertex.

    Returns:
        x (V, R), 0 on forbidden pairs and types without arrivals, and the value in reward per step.

    Raises:
        SolverError: If the solver fails on both forms.
    """
    if not instance.arrival_rate.any():
        return np.zeros_like(instance.match_reward), 0.0
    method = INTERIOR if interior else SIMPLEX
    program = kiid_program(instance)
    try:
        solution = solve(program.linear, "KIID-LP", method)
    except SolverError:
        program = kiid_program(instance, at_most=True)
        solution = solve(program.linear, "KIID-LP (<=)", method)
    x = program.matrix(solution.x, instance.n_types, instance.n_servers)
    return np.maximum(x, 0.0), solution.value * program.unit
