"""What a service is worth: a table by type and server, or a regression on the context (ours).

Models are compared by held-out loss (log loss of outcomes between 0 and 1, else squared error):
five parts of the tasks, each predicted by a fit to the other four. The simplest model within one
standard error of the best is taken. The same held-out predictions say whether the model is
calibrated; where they are off, predictions are recalibrated by shift + slope z (Platt 1999).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from opportune.learning.fit.features import (
    FeatureModel,
    Kind,
    Observations,
    Scaling,
    fit_features,
    scaling_of,
)
from opportune.learning.fit.regression import fit_linear, fit_logistic
from opportune.learning.fit.score_table import Cells, ScoreTable, fit_table, shrink_to

Float = NDArray[np.float64]
Int = NDArray[np.int64]

Model = Literal["table", "joint", "server"]
MODELS: tuple[Model, ...] = ("table", "joint", "server")
"""From the simplest to the richest."""

FOLDS = 5
"""Parts of the tasks, each held out once."""

CALIBRATION_BINS = 10
"""Bins of equal size in which predictions are compared with outcomes."""

RECALIBRATE = 3.0
"""Standard errors by which shift or slope must be off before predictions are recalibrated."""

EDGE = 1e-6
"""Predictions are kept this far from 0 and 1 where logarithms are taken."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Held-out predictions beside outcomes.

    Attributes:
        predicted: (bins,) mean prediction.
        observed: (bins,) mean outcome.
        low: (bins,) lower end of the mean outcome's 95 % interval.
        high: (bins,) upper end.
        slope: Slope of the outcome's z on the predicted z: 1 is calibrated, less is too sure.
        slope_error: Its standard error.
        shift: The shift beside that slope.
        shift_error: Its standard error.
        error: Mean squared error of the predictions (Brier score).
    """

    predicted: Float
    observed: Float
    low: Float
    high: Float
    slope: float
    slope_error: float
    shift: float
    shift_error: float
    error: float

    @property
    def off(self) -> bool:
        """Whether shift or slope are off by more than chance allows."""
        return bool(
            abs(self.slope - 1) > RECALIBRATE * self.slope_error
            or abs(self.shift) > RECALIBRATE * self.shift_error
        )


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of all pairs.

    Attributes:
        table: Scores by type and server with intervals: outcomes of the cell, shrunk to the
            regression's prediction, or to server effect + type effect.
        model: The model taken.
        losses: Held-out loss by model, and the standard error of its difference to the best.
        calibration: Held-out calibration of the model, None with too few outcomes.
        features: The regression, None for the table.
        bounded: Whether outcomes lie between 0 and 1.
        recalibrated: Whether predictions were recalibrated.
    """

    table: ScoreTable
    model: Model
    losses: dict[str, tuple[float, float]]
    calibration: Calibration | None
    features: FeatureModel | None
    bounded: bool
    recalibrated: bool


@dataclass(frozen=True, eq=False)
class Seen:
    """Services with an outcome, and the tasks they belong to.

    Attributes:
        task: (m,) task of each outcome.
        server: (m,) server.
        outcome: (m,) outcome.
        task_type: (n,) type of each task.
        context: (n, c) context of each task, None without.
        shape: Number of types and servers.
    """

    task: Int
    server: Int
    outcome: Float
    task_type: Int
    context: Float | None
    shape: tuple[int, int]

    @property
    def bounded(self) -> bool:
        """Whether all outcomes lie between 0 and 1."""
        return bool(self.outcome.min() >= 0 and self.outcome.max() <= 1)

    def rows(self, keep: NDArray[np.bool_]) -> Seen:
        """Outcomes where ``keep`` is true."""
        return replace(
            self, task=self.task[keep], server=self.server[keep], outcome=self.outcome[keep]
        )


def fit_outcomes(seen: Seen, wanted: Model | Literal["auto"], seed: int) -> Scores:
    """Scores of all pairs of type and server.

    Args:
        seen: The outcomes.
        wanted: The model, or ``auto`` for the one with the least held-out loss.
        seed: Of the parts that are held out.
    """
    models = MODELS if seen.context is not None else MODELS[:1]
    fold = np.random.default_rng(seed).integers(0, FOLDS, len(seen.task_type))[seen.task]
    held: dict[Model, Float] = {}
    if len(seen.outcome) >= 2 * FOLDS:
        held = {model: held_out(seen, model, fold) for model in models}
    losses = _losses(seen, held)
    model: Model = _simplest(losses) if wanted == "auto" else wanted
    calibration = None
    if model in held and len(seen.outcome) >= 10 * CALIBRATION_BINS:
        calibration = calibrate(held[model], seen.outcome, seen.bounded)
    if model == "table":
        return Scores(
            fit_table(table_cells(seen)), "table", losses, calibration, None, seen.bounded, False
        )
    features = _fit_kind(seen, model)
    off = calibration is not None and calibration.off
    if calibration is not None and off:
        features = replace(features, slope=calibration.slope, shift=calibration.shift)
    cells, (target, sd) = table_cells(seen), _cells(seen, features)
    reference = target
    if model in held:
        outside = table_cells(replace(seen, outcome=held[model]), seen.bounded)
        reference = np.where(cells.count > 0, outside.mean, target)
    own = shrink_to(cells, target, sd, reference)
    return Scores(own, model, losses, calibration, features, seen.bounded, off)


def table_cells(seen: Seen, bounded: bool | None = None) -> Cells:
    """Outcomes by type and server."""
    kind = seen.bounded if bounded is None else bounded
    task_type = seen.task_type[seen.task]
    return Cells.of(task_type, seen.server, seen.outcome, seen.shape, bounded=kind)


def held_out(seen: Seen, model: Model, fold: Int) -> Float:
    """(m,) prediction of each outcome by a fit to the other parts."""
    predicted = np.empty(len(seen.outcome))
    for part in np.unique(fold):
        out = fold == part
        if out.all():
            predicted[:] = float(seen.outcome.mean())
            continue
        train = replace(seen.rows(~out), context=seen.context)
        if model == "table":
            table = fit_table(table_cells(train, seen.bounded))
            predicted[out] = table.mean[seen.task_type[seen.task[out]], seen.server[out]]
            continue
        fitted = _fit_kind(train, model, seen.bounded)
        x = _features(seen, fitted.scaling)[seen.task[out]]
        server = seen.server[out]
        values = np.empty(len(server))
        for one in np.unique(server):
            values[server == one] = fitted.predicted(x[server == one], int(one))
        predicted[out] = values
    return predicted


def point_losses(predicted: Float, outcome: Float, bounded: bool) -> Float:
    """(m,) log loss of outcomes between 0 and 1, else squared error."""
    if not bounded:
        return np.asarray((predicted - outcome) ** 2)
    inside = np.clip(predicted, EDGE, 1 - EDGE)
    return np.asarray(-outcome * np.log(inside) - (1 - outcome) * np.log1p(-inside))


def calibrate(predicted: Float, outcome: Float, bounded: bool) -> Calibration:
    """Compare held-out predictions with outcomes."""
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, CALIBRATION_BINS)
    mean = np.array([predicted[part].mean() for part in parts])
    seen = np.array([outcome[part].mean() for part in parts])
    half = ndtri(0.975) * np.array(
        [outcome[part].std(ddof=1) / np.sqrt(len(part)) for part in parts]
    )
    z = logit(np.clip(predicted, EDGE, 1 - EDGE)) if bounded else predicted
    line = np.column_stack([np.ones(len(z)), z])
    fitted = (fit_logistic if bounded else fit_linear)(line, outcome, 1e-6)
    errors = np.sqrt(np.diag(fitted.covariance))
    return Calibration(
        mean,
        seen,
        seen - half,
        seen + half,
        slope=float(fitted.weight[1]),
        slope_error=float(errors[1]),
        shift=float(fitted.weight[0]),
        shift_error=float(errors[0]),
        error=float(np.mean((predicted - outcome) ** 2)),
    )


def _losses(seen: Seen, held: dict[Model, Float]) -> dict[str, tuple[float, float]]:
    """Mean held-out loss by model, and the standard error of its difference to the least one."""
    points = {
        model: point_losses(values, seen.outcome, seen.bounded) for model, values in held.items()
    }
    if not points:
        return {}
    best = min(points.values(), key=lambda one: float(one.mean()))
    return {
        model: (float(one.mean()), float((one - best).std() / np.sqrt(len(one))))
        for model, one in points.items()
    }


def _simplest(losses: dict[str, tuple[float, float]]) -> Model:
    """The first model whose loss is within one standard error of the least."""
    if not losses:
        return "table"
    least = min(mean for mean, _ in losses.values())
    return next(
        model
        for model in MODELS
        if model in losses and losses[model][0] - losses[model][1] <= least
    )


def _fit_kind(seen: Seen, kind: Kind, bounded: bool | None = None) -> FeatureModel:
    context = _context(seen)
    scaling = scaling_of(context)
    data = Observations(
        scaling.features(context)[seen.task],
        seen.server,
        seen.outcome,
        seen.shape[1],
        seen.bounded if bounded is None else bounded,
    )
    return fit_features(data, scaling, kind)


def _features(seen: Seen, scaling: Scaling) -> Float:
    return scaling.features(_context(seen))


def _context(seen: Seen) -> Float:
    if seen.context is None:
        raise TypeError("a regression needs contexts")
    return seen.context


def _cells(seen: Seen, model: FeatureModel) -> tuple[Float, Float]:
    """Mean prediction of each type and server over the type's tasks."""
    features = _features(seen, model.scaling)
    mean, sd = np.zeros(seen.shape), np.zeros(seen.shape)
    for v in range(seen.shape[0]):
        own = features[seen.task_type == v]
        for r in range(seen.shape[1]):
            mean[v, r], sd[v, r] = model.cell(own, r)
    return mean, sd
