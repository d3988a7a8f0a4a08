"""A score for logs without outcomes: how fast a server is, for its type (ours, made up).

s_vr = (n min(2, m_v / m_vr) + 15) / (n + 30), divided by the largest: n services of type v by
server r with mean duration m_vr, m_v the mean of the type; a pair never seen gets one half. The
formula is that of the data-backed instance ``bank-v1``. It values speed, which is not what a
service is worth: whoever uses it says so.

How sure it is: with a = n / (n + 30) the score is off the true ratio by a times the error of the
measured one, and by 1 - a times the distance of the true ratio from one half. A mean of n durations
has the relative error c / sqrt(n), c the coefficient of variation within the pairs of the type, and
so has the ratio (delta method); the distance from one half is taken to be what it is, in the root
of the mean square, among pairs seen often. Approximate. The largest score, by which all are
divided, is taken as it is: it is the unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.model.axes import Quantity

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FASTEST = 2.0
"""Largest ratio that counts."""

PRIOR_WEIGHT, PRIOR = 30.0, 0.5
"""The prior counts as so many services with this ratio."""

OFTEN = 10
"""Services of a pair that say how far ratios lie from the prior."""

NORMAL = 1.959964
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class Speeds:
    """Scores by speed.

    Attributes:
        mean: (V, R) the scores.
        sd: (V, R) their standard deviations.
        low: (V, R) lower ends of the 95 % intervals.
        high: (V, R) upper ends.
        count: (V, R) services that each rests on.
    """

    mean: Annotated[Float, Quantity("s_vr", "V,R", "reward", "speed, made a score")]
    sd: Float
    low: Float
    high: Float
    count: Float


def speed_scores(task_type: Int, server: Int, duration: Float, shape: tuple[int, int]) -> Speeds:
    """Scores by type and server, how sure they are, and how many services each rests on.

    Args:
        task_type: (m,) type of each service that ended.
        server: (m,) its server, -1 unknown: counts for m_v only.
        duration: (m,) how long it took, in any unit.
        shape: Number of types and servers.
    """
    n_types, n_servers = shape
    by_type = np.bincount(task_type, minlength=n_types)
    mean = np.bincount(task_type, weights=duration, minlength=n_types) / np.maximum(by_type, 1)
    known = server >= 0
    place = task_type[known] * n_servers + server[known]
    size = n_types * n_servers
    count = np.bincount(place, minlength=size).reshape(shape).astype(np.float64)
    total = np.bincount(place, weights=duration[known], minlength=size).reshape(shape)
    own = np.divide(total, count, out=np.zeros(shape), where=count > 0)
    whole = np.broadcast_to(mean[:, None], shape)
    ratio = np.divide(whole, own, out=np.full(shape, FASTEST), where=own * FASTEST > whole)
    capped = np.minimum(ratio, FASTEST)
    score = count * capped + PRIOR_WEIGHT * PRIOR
    score = score / (count + PRIOR_WEIGHT)
    variation = _variation(task_type[known], duration[known], own.ravel()[place], n_types)
    own_share = count / (count + PRIOR_WEIGHT)
    measured = own_share * variation[:, None] * capped / np.sqrt(np.maximum(count, 1.0))
    sd = np.hypot(measured, (1.0 - own_share) * _distance(capped, count))
    low = np.maximum(score - NORMAL * sd, 0.0)
    high = np.minimum(score + NORMAL * sd, FASTEST)
    best = score.max()
    return Speeds(score / best, sd / best, low / best, high / best, count)


def _distance(ratio: Float, count: Float) -> float:
    """Root mean square distance of ratios from the prior, of pairs seen often; else the prior."""
    often = count >= OFTEN
    return float(np.sqrt(((ratio[often] - PRIOR) ** 2).mean())) if often.any() else PRIOR


def _variation(task_type: Int, duration: Float, mean: Float, n_types: int) -> Float:
    """(V,) coefficient of variation of durations within pairs; 1 where there are too few."""
    apart = np.divide(duration - mean, mean, out=np.zeros(len(mean)), where=mean > 0)
    n = np.bincount(task_type, minlength=n_types)
    total = np.bincount(task_type, weights=apart**2, minlength=n_types)
    return np.where(n > 1, np.sqrt(total / np.maximum(n, 1)), 1.0)
