"""When servers were there: from the first service of a day to the end of its last (ours).

The log does not say when somebody was on duty and idle before or after; the share is too small by
that. Only logs with days have it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.learning.fit.log import Log
from opportune.model.day import breaks_from_share

Float = NDArray[np.float64]
Int = NDArray[np.int64]


def presence(log: Log, n_servers: int, periods: int) -> Float | None:
    """(P, R) share of the time of each period of the day that each server was there.

    Args:
        log: The log.
        n_servers: Number of servers.
        periods: Periods P of the day.

    Returns:
        None without days. Servers without any usable service have share 0.
    """
    if log.day is None:
        return None
    end = log.start + np.where(np.isnan(log.duration), 0.0, log.duration)
    use = (log.server >= 0) & np.isfinite(log.start)
    day = np.floor(log.start[use] / log.day)
    seen = np.stack([log.server[use].astype(np.float64), day], axis=1)
    days, place = np.unique(seen, axis=0, return_inverse=True)
    first, last = np.full(len(days), np.inf), np.full(len(days), -np.inf)
    np.minimum.at(first, place, log.start[use])
    np.maximum.at(last, place, end[use])
    time = time_by_period(last, log.day, periods) - time_by_period(first, log.day, periods)
    total = np.zeros((n_servers, periods))
    np.add.at(total, days[:, 0].astype(np.int64), time)
    covered = time_by_period(log.arrival[-1:], log.day, periods)
    covered -= time_by_period(log.arrival[:1], log.day, periods)
    share = np.divide(total, covered, out=np.zeros_like(total), where=covered > 0)
    return np.asarray(np.minimum(share, 1.0).T)


def time_by_period(until: Float, day: float, periods: int) -> Float:
    """(n, P) time from 0 to each of ``until`` that lies in each period of the day."""
    length = day / periods
    whole, rest = np.divmod(until, day)
    started = rest[:, None] - length * np.arange(periods)
    return np.asarray(whole[:, None] * length + np.clip(started, 0.0, length))


def absences(share: Float, period_steps: int) -> Int:
    """(n, 3) rows server, from, to of a day on which servers are there for these shares.

    Args:
        share: (P, R) shares of each period.
        period_steps: Steps of a period.
    """
    rows = [np.zeros((0, 3), dtype=np.int64)]
    for p, own in enumerate(share):
        breaks = breaks_from_share(own, 1, period_steps)
        rows.append(breaks + np.array([0, p * period_steps, p * period_steps]))
    return np.concatenate(rows)
