"""Times of a log as numbers: plain numbers, dates and times, or clocks that start over each day."""

from __future__ import annotations

import math
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


class Times(NamedTuple):
    """A column of times: values (NaN where empty), which cells could not be read."""

    value: Float
    bad: Bool
    dated: bool


def read_times(cells: Sequence[Any]) -> Times:
    """Numbers, or seconds since the year 1 (UTC) of dates; a column may not mix the two.

    Cells of the kind that is rarer in the column are bad.
    """
    value = np.full(len(cells), np.nan)
    dated = np.zeros(len(cells), dtype=np.bool_)
    bad = np.zeros(len(cells), dtype=np.bool_)
    for i, cell in enumerate(cells):
        if is_empty(cell):
            continue
        plain = number(cell)
        if plain is not None and not isinstance(cell, bool):
            value[i] = plain
            bad[i] = not math.isfinite(plain)
            continue
        moment = _moment(cell)
        if moment is None:
            bad[i] = True
        else:
            value[i], dated[i] = _seconds(moment), True
    filled = ~np.isnan(value) & ~bad
    mostly_dates = bool(2 * dated.sum() > filled.sum())
    bad |= filled & (dated != mostly_dates)
    value[bad] = np.nan
    return Times(value, bad, mostly_dates)


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
