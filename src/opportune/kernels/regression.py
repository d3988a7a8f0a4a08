"""Logistic regressions of several columns, kept up as outcomes come in stretches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit
from opportune.kernels.logistic import (
    INFORMATION,
    PHI,
    Learner,
    append_outcome,
    invert_block,
    pass_over_data,
)
from opportune.kernels.logistic_fit import Fitting, fit_block

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@jit
def learn_rows(learner: Learner, x: Float, column: Int, outcome: Float, fitting: Fitting) -> None:
    """Add outcomes to the columns they belong to and fit these again, exactly.

    Row i of ``x`` (n, p) had ``outcome[i]`` in [0, 1] in ``column[i]``, a block of the learner.
    """
    n_blocks = learner.vector.shape[1]
    touched = np.zeros(n_blocks, dtype=np.bool_)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            learner.vector[PHI, 0, j] = x[i, j]
        append_outcome(learner, column[i], outcome[i])
        touched[column[i]] = True
    for b in range(n_blocks):
        if touched[b]:
            fit_block(learner, b, fitting, False)
            pass_over_data(learner, b, fitting.ridge, False)
            pass_over_data(learner, b, fitting.ridge, True)
            invert_block(learner.matrix, INFORMATION, b)
