"""When servers were there: from the first service of a day to the end of its last (ours).

The log does not say when somebody was on duty and idle before or after; the share is too small by
that. Only logs with days have it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.learning.fit.log import Log

Float = NDArray[np.float64]

MOST_SHARE = 1.0
"""A server is on duty at most all the time."""


def presence(log: Log, n_servers: int) -> Float | None:
    """(R,) share of the log's time that each server was there; None without days.

    Servers without any usable service have share 0.
    """
    if log.day is None:
        return None
    end = log.start + np.where(np.isnan(log.duration), 0.0, log.duration)
    use = (log.server >= 0) & np.isfinite(log.start)
    day = np.floor(log.start[use] / log.day).astype(np.int64)
    n_days = int(day.max(initial=0)) + 1
    place = log.server[use] * n_days + day
    first, last = np.full(n_servers * n_days, np.inf), np.full(n_servers * n_days, -np.inf)
    np.minimum.at(first, place, log.start[use])
    np.maximum.at(last, place, end[use])
    there = np.where(np.isfinite(first), last - first, 0.0).reshape(n_servers, n_days)
    span = max(float(log.arrival[-1] - log.arrival[0]), log.day)
    return np.asarray(np.minimum(there.sum(axis=1) / span, MOST_SHARE))
