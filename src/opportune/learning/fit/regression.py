"""Ridge regression of outcomes on features: logistic and linear, with the observed information.

Whole logs at once, with an offset; outcomes may be shares. ``learning.regression`` is the model
that learns as outcomes come in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

Float = NDArray[np.float64]

MOST_STEPS = 100
"""Newton steps before a fit gives up; the loss is strictly convex, so it takes about ten."""

TOLERANCE = 1e-9
"""Largest entry of the gradient, per observation, at which a fit is done."""

SMALLEST_STEP = 1e-8
"""Share of a Newton step below which the loss no longer falls for rounding."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights, and how sure they are.

    Attributes:
        weight: (d,) weights theta.
        covariance: (d, d) inverse of the observed information.
        converged: Whether the gradient vanished, to the tolerance.
    """

    weight: Float
    covariance: Float
    converged: bool


def fit_logistic(
    features: Float, outcome: Float, ridge: float, offset: Float | float = 0.0
) -> Fitted:
    """Weights with the least penalized log loss.

    Implements: argmin sum_i [log(1 + exp(z_i)) - y_i z_i] + (ridge / 2) ||theta||^2,
    z = offset + X theta (CQB 2.1, quoted; that y may be a share is ours). Newton with step halving:
    the penalty makes the loss strictly convex, so separated and collinear data have one finite
    optimum.

    Args:
        features: (n, d) X.
        outcome: (n,) y between 0 and 1.
        ridge: Penalty, above 0.
        offset: (n,) known part of z.
    """
    theta = np.zeros(features.shape[1])
    z = features @ theta + offset
    for _ in range(MOST_STEPS):
        gradient, factor = _newton(features, z, outcome, (theta, ridge))
        if np.abs(gradient).max(initial=0.0) <= TOLERANCE * max(len(outcome), 1):
            break
        loss = _log_loss(z, outcome) + 0.5 * ridge * float(theta @ theta)
        move = cho_solve(factor, gradient)
        share = 1.0
        while True:
            trial = theta - share * move
            moved = features @ trial + offset
            new = _log_loss(moved, outcome) + 0.5 * ridge * float(trial @ trial)
            if new <= loss + 1e-12 * abs(loss) or share < SMALLEST_STEP:
                break
            share /= 2.0
        theta, z = trial, moved
    gradient, factor = _newton(features, z, outcome, (theta, ridge))
    done = bool(np.abs(gradient).max(initial=0.0) <= TOLERANCE * max(len(outcome), 1))
    return Fitted(theta, cho_solve(factor, np.eye(len(theta))), done)


def fit_linear(
    features: Float, outcome: Float, ridge: float, offset: Float | float = 0.0
) -> Fitted:
    """Weights with the least penalized squares; the covariance times the residual variance.

    Implements: theta = (X'X + ridge I)^-1 X'(y - offset); sigma^2 = RSS / (n - degrees of freedom),
    the degrees of freedom tr X (X'X + ridge I)^-1 X' (ridge regression, textbook).
    """
    n, d = features.shape
    gram = features.T @ features
    factor = cho_factor(gram + ridge * np.eye(d))
    theta = cho_solve(factor, features.T @ (outcome - offset))
    inverse = cho_solve(factor, np.eye(d))
    used = float(np.trace(inverse @ gram))
    apart = outcome - offset - features @ theta
    variance = float(apart @ apart) / max(n - used, 1.0)
    return Fitted(theta, inverse * variance, True)


def _newton(
    features: Float, z: Float, outcome: Float, penalty: tuple[Float, float]
) -> tuple[Float, tuple[Float, bool]]:
    """Gradient, and the Cholesky factor of the observed information, at weights and ridge."""
    theta, ridge = penalty
    mean = expit(z)
    gradient = features.T @ (mean - outcome) + ridge * theta
    slope = mean * (1.0 - mean)
    information = features.T @ (slope[:, None] * features) + ridge * np.eye(len(theta))
    return gradient, cho_factor(information)


def _log_loss(z: Float, outcome: Float) -> float:
    return float((np.logaddexp(0.0, z) - outcome * z).sum())
