"""A score for logs without outcomes: how fast a server is, for its type (ours, made up).

s_vr = (n min(2, m_v / m_vr) + 15) / (n + 30), divided by the largest: n services of type v by
server r with mean duration m_vr, m_v the mean of the type; a pair never seen gets one half. The
formula is that of the data-backed instance ``bank-v1``. It values speed, which is not what a
service is worth: whoever uses it says so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FASTEST = 2.0
"""Largest ratio that counts."""

PRIOR_WEIGHT, PRIOR = 30.0, 0.5
"""The prior counts as so many services with this ratio."""


def speed_scores(
    task_type: Int, server: Int, duration: Float, shape: tuple[int, int]
) -> tuple[Float, Float]:
    """Scores by type and server, and how many services each rests on.

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
    score = count * np.minimum(ratio, FASTEST) + PRIOR_WEIGHT * PRIOR
    score = score / (count + PRIOR_WEIGHT)
    return score / score.max(), count
