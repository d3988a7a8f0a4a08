"""Scores from contexts: a logistic regression for each server, from the tasks that are kept.

Implements: ``learned.md`` 2, "x" (ours), by ``learning.regression``: mu(theta_r' x) of the scaled
context, ridge .1, an outcome counting as its share of the range. The regression is fitted anew to
its optimum for every publication, from the outcomes in the order of their tasks, so that the order
in which they came makes no difference. A task type has the mean prediction over the contexts of its
tasks: prices need no more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from opportune.learning.regression import ScoreModel
from opportune.service.learner_counts import GRAIN, Counts

Float = NDArray[np.float64]

MOST_ROWS = 50_000
"""Latest outcomes that a regression is fitted to."""


class ContextScores(NamedTuple):
    """What contexts say of V types and R servers, as shares of the range.

    Attributes:
        weight: (R, p) theta, intercept first.
        mean: (V, R) mean prediction.
        deviation: (V, R) what one posterior deviation of the logit makes of it at the mean context.
    """

    weight: Float
    mean: Float
    deviation: Float


def context_scores(counts: Counts, shape: tuple[int, int]) -> ContextScores:
    """Fit the regressions.

    Args:
        counts: What was seen; with features.
        shape: (V, R).
    """
    size = 1 + len(counts.features)
    n_types, n_servers = shape
    rows: list[tuple[tuple[float, ...], int, float]] = []
    seen_x: list[list[tuple[float, ...]]] = [[] for _ in range(n_types)]
    for number in sorted(counts.tasks):
        seen = counts.tasks[number]
        if len(seen.x) == size and seen.task_type < n_types:
            seen_x[seen.task_type].append(seen.x)
            rows += [(seen.x, r, grains / GRAIN) for r, grains in seen.labels if r < n_servers]
    rows = rows[-MOST_ROWS:]
    model = ScoreModel(n_servers, size, max(len(rows), 1))
    if rows:
        x, column, outcome = zip(*rows, strict=True)
        model.learn(np.array(x), np.array(column, dtype=np.int64), np.array(outcome))
    mean, center = np.zeros(shape), np.zeros((n_types, size))
    center[:, 0] = size**-0.5
    for v, contexts in enumerate(seen_x):
        own = np.array(contexts) if contexts else center[v : v + 1]
        mean[v] = model.score(own).mean(axis=0)
        center[v] = own.mean(axis=0)
    deviation = model.score(center, 1.0) - model.score(center)
    return ContextScores(model.theta, mean, deviation)


def predicted(weight: Float, x: Float) -> Float:
    """(R,) mu(theta_r' x), as a share of the range; summed in one fixed order."""
    return np.asarray(expit((weight * x).sum(axis=1)))
