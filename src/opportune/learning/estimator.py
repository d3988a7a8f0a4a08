"""Regularized logistic regression from departures: fit a table, or keep a fit up to date.

Implements: CQB 2.1 (quoted loss; the norm constraint reconstructed from the summary). Three
estimators, by name: ``exact`` is at the optimum after every outcome; ``growth`` takes proximal
steps (ours, heuristic) and goes to the exact optimum each time the data grew by a factor;
``online`` takes proximal steps only. See ``kernels/logistic_fit.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.logistic import (
    COVARIANCE,
    GRADIENT,
    LEARNED,
    MULTIPLIER,
    PHI,
    ROOM,
    THETA,
    Learner,
    append_outcome,
    new_learner,
    pass_over_data,
)
from opportune.kernels.logistic_fit import (
    ECOLOG,
    EXACT,
    ONLINE,
    Fitting,
    allowed,
    learn,
    refit,
)
from opportune.model.axes import Quantity
from opportune.model.checks import number_problem

Float = NDArray[np.float64]

RIDGE = 0.1
"""Default lambda_0, for features of length up to 1 (measured)."""

GROWTH = 1.2
"""Default factor by which the data grow between two exact fits."""

TOLERANCE = 1e-11
"""Largest entry of the gradient at what counts as the optimum; see ``kernels``' ``allowed``."""

STEPS = 200
"""Steps after which a fit gives up; a handful is usual."""

ESTIMATORS = ("exact", "growth", "online", "ecolog")
"""Names of the estimators; ``ecolog`` is ``online`` that also runs up ECOLog's losses."""


def fitting(
    ridge: float = RIDGE,
    norm_bound: float = math.inf,
    estimator: str = "growth",
    growth: float = GROWTH,
) -> tuple[int, Fitting]:
    """The kernel's estimator and settings for a name.

    Args:
        ridge: lambda_0, above 0.
        norm_bound: S, above 0; infinite for no constraint.
        estimator: One of ``ESTIMATORS``.
        growth: Factor for ``growth``, above 1.

    Raises:
        InputError: Naming the value that is wrong.
    """
    problems = []
    for name, value, least in (("ridge", ridge, 0), ("norm_bound", norm_bound, 0)):
        if not _is_number(value) or not value > least or (name == "ridge" and math.isinf(value)):
            problems.append(Problem(name, shorten(value), f"a number above {least}"))
    if not _is_number(growth) or not growth > 1:
        problems.append(Problem("growth", shorten(growth), "a number above 1"))
    if estimator not in ESTIMATORS:
        problems.append(Problem("estimator", shorten(estimator), "one of " + ", ".join(ESTIMATORS)))
    if problems:
        raise InputError(problems)
    rule = {"exact": EXACT, "ecolog": ECOLOG}.get(estimator, ONLINE)
    factor = float(growth) if estimator == "growth" else math.inf
    return rule, Fitting(float(ridge), float(norm_bound), TOLERANCE, factor, STEPS)


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A fitted logistic model.

    Attributes:
        theta: The estimate.
        covariance: Inverse of the observed information, ridge included.
        multiplier: nu >= 0 of the norm constraint; 0 if it does not bind.
        stationarity: Largest entry of gradient + nu theta: 0 at the optimum.
        converged: Whether that is at most ``TOLERANCE`` (1 + n / 1000) times the largest ||phi||
            where that is above 1.
        n_outcomes: Rows of the table.
    """

    theta: Annotated[Float, Quantity("theta", "x", "logit", "weight of every feature")]
    covariance: Annotated[
        Float, Quantity("H^-1", "x,x", "logit^2", "inverse of the observed information")
    ]
    multiplier: float
    stationarity: float
    converged: bool
    n_outcomes: int

    def logit(self, features: ArrayLike) -> Float:
        """z = <phi, theta> of (..., d) features."""
        return np.asarray(np.asarray(features, dtype=np.float64) @ self.theta)

    def probability(self, features: ArrayLike) -> Float:
        """mu(z) of (..., d) features, strictly inside (0, 1)."""
        return logistic(self.logit(features))

    def width(self, features: ArrayLike) -> Float:
        """Posterior standard deviation of the logit of (..., d) features."""
        phi = np.asarray(features, dtype=np.float64)
        square = np.einsum("...i,ij,...j->...", phi, self.covariance, phi)
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def logistic(z: ArrayLike) -> Float:
    """mu(z), without overflow; strictly inside (0, 1) for finite z."""
    e = np.exp(-np.abs(np.asarray(z, dtype=np.float64)))
    share = np.where(np.asarray(z) >= 0, 1.0, e) / (1.0 + e)
    return np.clip(share, np.finfo(np.float64).tiny, 1.0 - np.finfo(np.float64).epsneg)


def fit_logistic(
    features: ArrayLike,
    outcomes: ArrayLike,
    ridge: float = RIDGE,
    norm_bound: float = math.inf,
) -> LogisticFit:
    """The minimizer of log loss + ridge / 2 ||theta||^2 over ||theta|| <= norm_bound.

    Args:
        features: (n, d) finite numbers.
        outcomes: (n,) of 0, 1, True, False.
        ridge: lambda_0, above 0: also separable outcomes have a finite fit.
        norm_bound: S.

    Raises:
        InputError: If a table is not of that kind.
    """
    problem = number_problem("features", features)
    if problem is not None:
        raise InputError(problem)
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2:
        raise InputError(Problem("features", f"shape {x.shape}", "a table (n, d)"))
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise InputError(Problem(f"features[{row}]", shorten(x[row]), "finite numbers"))
    y = [departed(one, f"outcomes[{i}]") for i, one in enumerate(np.asarray(outcomes).tolist())]
    if len(y) != len(x):
        raise InputError(Problem("outcomes", f"{len(y)} entries", f"{len(x)}, one a row"))
    _, settings = fitting(ridge, norm_bound, "exact")
    learner = new_learner(1, x.shape[1], len(x), settings.ridge, 1.0)
    for row, outcome in zip(x, y, strict=True):
        learner.vector[PHI, 0] = row
        append_outcome(learner, 0, outcome)
    if len(x):
        refit(learner, 0, 1, settings, 2)
    return _fit_of(learner, settings.ridge)


def departed(value: Any, name: str = "outcome") -> float:
    """0.0 or 1.0 from 0, 1, True or False.

    Raises:
        InputError: For anything else: fractions, text, NaN.
    """
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) or not (
        value == 0 or value == 1
    ):
        remedy = "a score between 0 and 1 is no departure: set a threshold"
        raise InputError(Problem(name, shorten(value), "0 or 1", remedy))
    return float(value)


@dataclass
class LogisticEstimator:
    """An estimate that is kept up to date, outcome by outcome.

    Attributes:
        dimension: Length d of the features.
        ridge: lambda_0.
        norm_bound: S.
        estimator: ``exact``, ``growth`` or ``online``.
        growth: Factor of ``growth``.
        capacity: Outcomes there is room for; doubled when they are used up.

    Raises:
        InputError: Naming the value that is wrong.
    """

    dimension: int
    ridge: float = RIDGE
    norm_bound: float = math.inf
    estimator: str = "growth"
    growth: float = GROWTH
    capacity: int = 1024
    _learner: Learner = field(init=False, repr=False)
    _rule: int = field(init=False, repr=False)
    _settings: Fitting = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("dimension", self.dimension), ("capacity", self.capacity)):
            if not is_whole(value) or value < 1:
                raise InputError(Problem(name, shorten(value), "a whole number of at least 1"))
        self._rule, self._settings = fitting(
            self.ridge, self.norm_bound, self.estimator, self.growth
        )
        self._learner = new_learner(1, self.dimension, self.capacity, self._settings.ridge, 1.0)

    @property
    def n_outcomes(self) -> int:
        """Outcomes learned from."""
        return int(self._learner.number[LEARNED])

    def learn(self, features: ArrayLike, outcome: Any) -> None:
        """Learn from one outcome.

        Raises:
            InputError: If a feature is not a finite number or the outcome not 0 or 1; nothing is
                changed then.
        """
        phi = np.asarray(features, dtype=np.float64)
        if phi.shape != (self.dimension,) or not np.isfinite(phi).all():
            expected = f"{self.dimension} finite numbers"
            raise InputError(Problem("features", shorten(features), expected))
        value = departed(outcome)
        if self.n_outcomes == self.capacity:
            self._grow()
        self._learner.vector[PHI, 0] = phi
        learn(self._learner, 0, value, self._settings, (self._rule, False))

    def fit(self) -> LogisticFit:
        """The present estimate; of ``growth`` and ``online`` it is not quite at the optimum."""
        return _fit_of(self._learner, self._settings.ridge)

    def _grow(self) -> None:
        """Move to twice the room."""
        self.capacity *= 2
        old = self._learner
        new = new_learner(1, self.dimension, self.capacity, self._settings.ridge, 1.0)
        new.data[:, : old.data.shape[1]] = old.data
        for kind in ("matrix", "vector", "segment", "number"):
            getattr(new, kind)[...] = getattr(old, kind)
        new.segment[ROOM, 0] = self.capacity
        self._learner = new


def _fit_of(learner: Learner, ridge: float) -> LogisticFit:
    """Theta with the gradient at it: online estimators do not keep that up."""
    n = int(learner.number[LEARNED])
    _, exact = fitting(ridge, estimator="exact")
    pass_over_data(learner, 0, ridge, False)
    theta = learner.vector[THETA, 0].copy()
    multiplier = float(learner.number[MULTIPLIER])
    residue = np.abs(learner.vector[GRADIENT, 0] + multiplier * theta)
    stationarity = float(residue.max(initial=0.0))
    return LogisticFit(
        theta=theta,
        covariance=learner.matrix[COVARIANCE, 0].copy(),
        multiplier=multiplier,
        stationarity=stationarity,
        converged=stationarity <= allowed(exact, learner.number),
        n_outcomes=n,
    )


def _is_number(value: object) -> bool:
    number = isinstance(value, (int, float, np.integer, np.floating))
    return number and not isinstance(value, bool) and not math.isnan(value)  # type: ignore[arg-type]
