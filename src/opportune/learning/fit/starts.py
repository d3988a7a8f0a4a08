"""Who served and when that began: starts as the log tells them, checked against arrival and wait.

Clocks that start over each day need some care. A start before the arrival belongs to the next day
if that is near; a clock that shows exactly 0 is one that nobody set, unless the wait leads there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.learning.fit.clock import read_times, unclocked
from opportune.learning.fit.reader import WAIT, Reader

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

MOST_WAIT = 0.125
"""A clock that shows less than at the arrival is the next day's if it comes within this share of
a day after it; else it is a mistake."""


LONGEST = 0.5
"""An end that the clock shows before the start is the next day's if the service took no longer than
this share of a day."""


class Clock(NamedTuple):
    """Arrivals, and how clocks of the same row become times."""

    time: Float  # (n,) when the task arrived
    offset: Float  # (n,) what to add to a clock of the row
    day: float | None  # units of a day, None without days


def who_served(reader: Reader, nobody: tuple[str, ...]) -> tuple[Bool, list[str]]:
    """(n,) whether somebody served the task in this row, and who.

    Args:
        reader: The cells.
        nobody: Names that stand for nobody.
    """
    server = reader.names("server") or [""] * reader.n
    none = np.array([name in nobody for name in server], dtype=np.bool_)
    reader.findings.note(
        f"the server is {' or '.join(nobody)}", none, "taken for nobody, whatever else the row says"
    )
    server = ["" if name in nobody else name for name in server]
    named = np.array([bool(name) for name in server], dtype=np.bool_)
    if "start" not in reader.places:
        return named, server
    served = reader.filled("start") & ~none
    reader.findings.note(
        "a server is named but no service began", named & ~served, "counted as not served"
    )
    reader.findings.note(
        "a service without the name of its server",
        served & ~named,
        "its duration counts for the type, not for any server",
    )
    return served, server


def starts(reader: Reader, clock: Clock, served: Bool) -> Float:
    """(n,) when each service began, NaN where unknown."""
    time = clock.time
    due, slack = _due(reader, time)
    if "start" not in reader.places:
        return np.where(served, np.where(np.isnan(due), time, due), np.nan)
    found = reader.times("start").value
    start = np.where(served, found + clock.offset, np.nan)
    known = bool(np.isfinite(due).any())
    instead = "arrival and wait say when it began" if known else "the duration is used"
    early = start < time
    if "date" in reader.places and clock.day is not None:
        at_midnight = np.abs(start + clock.day - due) <= slack
        unset = early & (found == 0) & ~at_midnight
        reader.findings.note(
            "the service began at 0 o'clock, before the task arrived",
            unset,
            f"taken for a clock that was not set; {instead}",
        )
        start = np.where(unset, np.nan, start)
        start, tomorrow, early = unclocked(start, time, clock.day, MOST_WAIT * clock.day)
        reader.findings.note("the service began after midnight", tomorrow, "taken for the next day")
    reader.findings.note(
        "the service began before the task arrived", early, f"the start is not used; {instead}"
    )
    start = np.where(early, np.nan, start)
    reader.findings.note(
        "the service did not begin when the wait was over",
        np.abs(start - due) > slack,
        "the start is used, not the wait",
    )
    return np.where(served & np.isnan(start), due, start)


def ends(reader: Reader, start: Float, offset: Float) -> Float:
    """(n,) when each service ended, NaN where unknown; clocks of the next day are told."""
    end = reader.times("end").value + offset
    if reader.day is None:
        return end
    began = read_times(reader.cells("start"), reader.day).value
    unset = (end < start) & (end == offset) & (began == 0)
    reader.findings.note(
        "the service began and ended at 0 o'clock, before it can have begun",
        unset,
        "taken for clocks that were not set: it took no time",
    )
    end = np.where(unset, start, end)
    end, tomorrow, _ = unclocked(end, start, reader.day, LONGEST * reader.day)
    reader.findings.note("the service ended after midnight", tomorrow, "taken for the next day")
    return end


def _due(reader: Reader, time: Float) -> tuple[Float, Float]:
    """(n,) arrival + waits, NaN where unknown or negative; how far rounding may move it."""
    roles = [role for role in reader.places if role.startswith(WAIT)]
    due = time.copy() if roles else np.full(reader.n, np.nan)
    for role in roles:
        wait = reader.numbers(role)
        reader.findings.note(
            f"a negative wait in the column {role.removeprefix(WAIT)!r}", wait < 0, "not used"
        )
        due = due + np.where(wait < 0, np.nan, wait)
    whole = bool(np.all(due[np.isfinite(due)] % 1.0 == 0.0))
    rounding = (len(roles) + 2) / 2  # half a unit in each of the numbers
    return due, np.full(reader.n, rounding) if whole else 1e-9 * np.abs(due)
