"""Scores from features: one regularized logistic regression per model (column), fitted exactly.

Implements: ``learned.md`` 2, "x" (ours): mu(x' theta_m), ridge .1, here refitted to its optimum
whenever outcomes come in, with the inverse of the observed information as covariance on the logit
scale. Scores between 0 and 1 count as that share of a success.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from opportune.kernels.logistic import COVARIANCE, THETA, new_learner
from opportune.kernels.logistic_fit import Fitting
from opportune.kernels.regression import learn_rows

Float = NDArray[np.float64]
Int = NDArray[np.int64]

RIDGE = 0.1
"""Penalty ridge / 2 ||theta||^2 on features of norm at most one."""

TOLERANCE = 1e-7
"""Largest entry of the gradient at which a fit counts as done."""


class ScoreModel:
    """What outcomes say of the scores of M columns given features of size p; changed in place."""

    def __init__(self, n_columns: int, size: int, capacity: int, ridge: float = RIDGE) -> None:
        self._learner = new_learner(n_columns, size, capacity, ridge, 1.0)
        self._fitting = Fitting(ridge, math.inf, TOLERANCE, math.inf, 100)

    def learn(self, x: Float, column: Int, outcome: Float) -> None:
        """Add outcomes: row i of ``x`` (n, p) had ``outcome[i]`` in column ``column[i]``."""
        if len(x) > 0:
            learn_rows(self._learner, np.ascontiguousarray(x), column, outcome, self._fitting)

    @property
    def theta(self) -> Float:
        """(M, p) weights."""
        return np.array(self._learner.vector[THETA])

    def score(self, x: Float, optimism: float = 0.0) -> Float:
        """(C, M) expected scores; with ``optimism`` so many standard deviations up on the logit."""
        logit = x @ self._learner.vector[THETA].T
        if optimism != 0.0:
            for column, covariance in enumerate(self._learner.matrix[COVARIANCE]):
                logit[:, column] += optimism * np.sqrt(np.einsum("cp,cp->c", x @ covariance, x))
        return np.asarray(expit(logit))
