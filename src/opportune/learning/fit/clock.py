"""Times of a log as numbers: plain numbers, dates and times, or clocks that start over each day."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.model.tables import is_empty, number

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

DAY_SECONDS = 86_400.0
"""Units of a day where times are dates: then they are counted in seconds."""


CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?", re.ASCII)
"""``8:05`` or ``23:59:59.5``; ``24:00:00`` is the end of a day."""

COMPACT = (("%y%m%d", 6), ("%Y%m%d", 8))
"""Dates written as one number, and how many digits it has."""


class Times(NamedTuple):
    """A column of times: values (NaN where empty), which cells could not be read, their kind."""

    value: Float
    bad: Bool
    dated: bool
    zoned: bool  # dates with an offset from UTC


def read_times(cells: Sequence[Any], day: float | None = None) -> Times:
    """Numbers, or seconds since the year 1 (UTC) of dates; a column may not mix the two.

    Cells of the kind that is rarer in the column are bad; dates with an offset from UTC and dates
    without one are two kinds.

    Args:
        cells: The cells.
        day: Units in a day, where clocks such as ``8:05:00`` are numbers; None where they are not.
    """
    value = np.full(len(cells), np.nan)
    dated, zoned = np.zeros((2, len(cells)), dtype=np.bool_)
    bad = np.zeros(len(cells), dtype=np.bool_)
    for i, cell in enumerate(cells):
        if is_empty(cell):
            continue
        plain = number(cell) if day is None else _clock(cell, day)
        if plain is not None and not isinstance(cell, bool):
            value[i] = plain
            bad[i] = not math.isfinite(plain)
            continue
        moment = _moment(cell)
        if moment is None:
            bad[i] = True
        else:
            value[i], dated[i], zoned[i] = _seconds(moment), True, moment.tzinfo is not None
    filled = ~np.isnan(value) & ~bad
    mostly_dates = bool(2 * dated.sum() > filled.sum())
    bad |= filled & (dated != mostly_dates)
    mostly_zoned = mostly_dates and bool(2 * zoned.sum() > dated.sum())
    bad |= filled & dated & (zoned != mostly_zoned)
    value[bad] = np.nan
    return Times(value, bad, mostly_dates, mostly_zoned)


def compact_dates(value: Float) -> Float | None:
    """Days since the year 1 of dates written as ``990801`` or ``19990801``; None if they are not.

    Args:
        value: (n,) numbers, NaN where there is none. All must be such dates.
    """
    known = np.unique(value[~np.isnan(value)])
    if not len(known) or np.any(known % 1.0 != 0) or known[0] < 0 or known[-1] >= 1e8:
        return None
    for pattern, digits in COMPACT:
        found = {}
        for one in known:
            try:
                found[one] = datetime.strptime(f"{int(one):0{digits}d}", pattern)
            except ValueError:
                break
        if len(found) == len(known) and known[0] >= 10 ** (digits - 2):
            days = np.array([_seconds(found[one]) / DAY_SECONDS for one in known])
            whole = np.searchsorted(known, value)
            return np.where(np.isnan(value), np.nan, days[np.minimum(whole, len(days) - 1)])
    return None


def unclocked(clock: Float, after: Float, day: float, most_wait: float) -> tuple[Float, Bool, Bool]:
    """Times of a day's clock as times that go on: the day of ``after``, or the next.

    Args:
        clock: (n,) what the clock showed, on the day of ``after``; already with that day added.
        after: (n,) a time it cannot be before.
        day: Units in a day.
        most_wait: A clock before ``after`` is the next day's if it comes within this.

    Returns:
        The times, which were taken for the next day's, and which fit neither day.
    """
    early = clock < after
    tomorrow = early & (clock + day - after <= most_wait)
    return np.where(tomorrow, clock + day, clock), tomorrow, early & ~tomorrow


def _clock(cell: Any, day: float) -> float | None:
    """A number, or a clock in units of a day of so many."""
    match = CLOCK.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None:
        return number(cell)
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * day / DAY_SECONDS


def _moment(cell: Any) -> datetime | None:
    if isinstance(cell, datetime):
        return cell
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    if not isinstance(cell, str):
        return None
    try:
        return datetime.fromisoformat(cell.strip())
    except ValueError:
        return None


def _seconds(moment: datetime) -> float:
    plain = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return (plain - datetime.min) / timedelta(seconds=1)
