"""Task types made of contexts: clusters, as many as predict held-out outcomes best (ours).

k-means on standardized contexts (Lloyd 1982, k-means++ starts, Arthur and Vassilvitskii 2007) for
each number of clusters; the shrunk table by cluster and server predicts outcomes held out. The
fewest clusters within one standard error of the least log loss are taken: more would only thin
out the cells.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from opportune.errors import InputError, Problem
from opportune.learning.fit.features import Scaling, scaling_of
from opportune.learning.fit.outcomes import FOLDS, Seen, held_out, point_losses

Float = NDArray[np.float64]
Int = NDArray[np.int64]

CANDIDATES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of clusters that are tried."""

LEAST_TASKS = 20
"""Fewest tasks per cluster on average; more clusters are not tried."""

STARTS = 4
"""Starts of k-means; the one with the tightest clusters is kept."""

STEPS = 30
"""Lloyd steps of a start."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Types made of contexts.

    Attributes:
        task_type: (n,) cluster of each task.
        center: (K, c) centers in features.
        scaling: How contexts become features.
        losses: Held-out loss by number of clusters, and the standard error of its difference to
            the least; empty if the number was given.
    """

    task_type: Int
    center: Float
    scaling: Scaling
    losses: dict[int, tuple[float, float]]

    @property
    def is_most(self) -> bool:
        """Whether it is the largest number of clusters that was tried."""
        return bool(self.losses) and len(self.center) >= max(self.losses)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the types, the largest cluster first."""
        return tuple(f"cluster {i + 1}" for i in range(len(self.center)))


def clustered(context: Float, n_clusters: int, seed: int) -> Clusters:
    """Clusters of contexts, numbered from the largest; empty ones are left out.

    Raises:
        InputError: If there are fewer different contexts than clusters.
    """
    scaling = scaling_of(context)
    x = scaling.features(context)
    different = len(np.unique(x, axis=0))
    if not 1 <= n_clusters <= different:
        told = f"{n_clusters} clusters of {different} different contexts"
        raise InputError(Problem("--types", told, f"a number from 1 to {different}"))
    rng = np.random.default_rng(seed)
    best: tuple[float, Float, Int] | None = None
    for _ in range(STARTS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty cluster is left out below
            center, label = kmeans2(x, n_clusters, iter=STEPS, minit="++", seed=rng)
        tightness = float(((x - center[label]) ** 2).sum())
        if best is None or tightness < best[0]:
            best = (tightness, center, label.astype(np.int64))
    if best is None:
        raise TypeError("no start")
    _, center, label = best
    size = np.bincount(label, minlength=n_clusters)
    order = np.argsort(-size, kind="stable")
    order = order[size[order] > 0]
    place = np.full(n_clusters, -1)
    place[order] = np.arange(len(order))
    return Clusters(place[label], center[order], scaling, {})


def chosen_clusters(context: Float, seen: Seen, seed: int) -> Clusters:
    """As many clusters as predict held-out outcomes best.

    Args:
        context: (n, c) contexts of the tasks.
        seen: The outcomes; its types are not looked at.
        seed: Of starts and of the parts held out.
    """
    n = len(context)
    most = min(len(np.unique(context, axis=0)), max(n // LEAST_TASKS, 1))
    fold = np.random.default_rng(seed).integers(0, FOLDS, n)[seen.task]
    found: dict[int, Clusters] = {}
    points: dict[int, Float] = {}
    for count in (one for one in CANDIDATES if one <= most):
        clusters = clustered(context, count, seed)
        shape = (len(clusters.center), seen.shape[1])
        own = replace(seen, task_type=clusters.task_type, shape=shape)
        found[count] = clusters
        points[count] = point_losses(held_out(own, "table", fold), seen.outcome, seen.bounded)
    best = min(points.values(), key=lambda one: float(one.mean()))
    losses = {
        count: (float(one.mean()), float((one - best).std() / np.sqrt(len(one))))
        for count, one in points.items()
    }
    least = float(best.mean())
    count = next(one for one, (mean, error) in losses.items() if mean - error <= least)
    return replace(found[count], losses=losses)
