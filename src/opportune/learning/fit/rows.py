"""The rows of a log, column by column: what cannot be read is gathered, not raised at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.learning.fit.clock import DAY_SECONDS, compact_dates
from opportune.learning.fit.columns import Columns
from opportune.learning.fit.findings import Findings
from opportune.learning.fit.reader import CONTEXT, RECORDED, WAIT, Reader
from opportune.learning.fit.starts import Clock, ends, starts, who_served
from opportune.model.tables import Sheet, number

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

FREE_SEPARATOR = ";"
"""Between names in a cell of the column ``free``."""


@dataclass(frozen=True, eq=False)
class Rows:
    """One entry per row of the file, times in its own unit.

    Attributes:
        time: When the task arrived.
        task: Its number; rows of one task share it.
        served: Whether somebody served it in this row.
        start: When that began.
        duration: How long it took, NaN where unknown.
        complete: Whether it has ended.
        outcome: What it was worth, NaN where unknown.
        propensity: Probability with which the server was chosen, NaN where unknown.
        dropped: Rows to leave out by a rule.
        task_type: Names of types, None without that column.
        server: Names of servers, empty where nobody is named, None without that column.
        context: (n, c) numbers, None without such columns.
        contexts: Names of those columns.
        free: Names of free servers by semicolons, None without that column.
        recorded: (n, R) outcome of every server, NaN where unknown, None without such columns.
        recorded_servers: Names of those servers.
        has_outcome: Whether there is a column of outcomes.
        day: Units of time in a day, None without days.
        origin: First midnight, where there are days.
    """

    time: Float
    task: Int
    served: Bool
    start: Float
    duration: Float
    complete: Bool
    outcome: Float
    propensity: Float
    dropped: Bool
    task_type: list[str] | None
    server: list[str] | None
    context: Float | None
    contexts: tuple[str, ...]
    free: list[str] | None
    recorded: Float | None
    recorded_servers: tuple[str, ...]
    has_outcome: bool
    day: float | None
    origin: float

    def kept(self, keep: Bool) -> Rows:
        """The rows where ``keep`` is true, tasks numbered anew in order of the file."""
        changed: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                changed[one.name] = value[keep]
            elif isinstance(value, list):
                changed[one.name] = [name for name, stays in zip(value, keep, strict=True) if stays]
        changed["task"] = np.unique(changed["task"], return_inverse=True)[1]
        return replace(self, **changed)


def read_rows(sheet: Sheet, columns: Columns, findings: Findings, too_short: str) -> Rows:
    """The rows of a sheet; what is wrong goes to ``findings``.

    Args:
        sheet: The sheet, with its header.
        columns: Where to find what.
        findings: Where oddities and unusable rows are told.
        too_short: ``refuse``, ``one-step`` or ``drop`` durations of zero or less.

    Raises:
        InputError: Naming all columns that are missing.
    """
    places = _places(sheet, columns)
    reader = Reader(sheet, places, findings, columns.day if "date" in places else None)
    time, day, offset = _arrival_times(reader, columns)
    served, server = who_served(reader, columns.nobody)
    if "server" not in reader.places:  # every server's outcome is on record, nobody's service
        served = np.ones(reader.n, dtype=np.bool_)
    start = starts(reader, Clock(time, offset, day), served)
    duration, complete = _durations(reader, start, served, offset)
    dropped = _short(findings, duration, served & complete, too_short)
    contexts = [reader.numbers(f"{CONTEXT}{name}") for name in columns.context]
    for name, values in zip(columns.context, contexts, strict=True):
        told = ("a number for every task", "fill it in, or leave the column out")
        findings.refuse(name, "no context", np.isnan(values), told)
    task_type = reader.names("task_type")
    if task_type is not None:
        empty = np.array([not name for name in task_type], dtype=np.bool_)
        findings.refuse("task_type", "no type", empty, ("a type for every task", ""))
    outcome, propensity = _outcomes(reader, served)
    free = _free(reader, served, server)
    rows = Rows(
        time=time,
        task=_tasks(reader, time, task_type, server),
        served=served,
        start=start,
        duration=np.where(served, np.maximum(duration, 0.0), np.nan),
        complete=complete,
        outcome=outcome,
        propensity=propensity,
        dropped=dropped,
        task_type=task_type,
        server=server,
        context=np.stack(contexts, axis=1) if contexts else None,
        contexts=columns.context,
        free=free,
        recorded=_recorded(reader, columns),
        recorded_servers=tuple(columns.every_outcome),
        has_outcome="outcome" in reader.places,
        day=day,
        origin=_origin(time, day),
    )
    _note_unused(reader)
    return rows


def without(sheet: Sheet, leave_out: Mapping[str, tuple[str, ...]]) -> tuple[Sheet, Int, str]:
    """The sheet without rows that are no tasks; their lines, and what they held."""
    kept = np.ones(len(sheet.rows), dtype=np.bool_)
    for name, values in leave_out.items():
        place = sheet.column("columns.leave_out", name, name)
        kept &= np.array([str(row[place]) not in values for row in sheet.rows], dtype=np.bool_)
    told = "; ".join(f"{name} is {' or '.join(values)}" for name, values in leave_out.items())
    lines = np.array(sheet.lines, dtype=np.int64)
    rows = [row for row, stays in zip(sheet.rows, kept, strict=True) if stays]
    return replace(sheet, rows=rows, lines=lines[kept].tolist()), lines[~kept], told


def _places(sheet: Sheet, columns: Columns) -> dict[str, int]:
    header = sheet.header or ()
    wanted = columns.named(header) | {f"{CONTEXT}{name}": name for name in columns.context}
    wanted |= {f"{RECORDED}{name}": column for name, column in columns.every_outcome.items()}
    wanted |= {f"{WAIT}{name}": name for name in columns.wait}
    problems: list[Problem] = []
    found: dict[str, int] = {}
    for role, name in wanted.items():
        try:
            found[role] = sheet.column(f"log.{role}", role, name)
        except InputError as error:
            problems += error.problems
    for role in ("time", "server"):
        if role not in wanted and not (role == "server" and columns.every_outcome):
            names = ", ".join(map(repr, header))
            problems.append(
                Problem(
                    f"log.{role}",
                    f"no column; {sheet.file} has {names}",
                    f"to be told which column is the {role}",
                    f"give --columns {role}=...",
                )
            )
    if problems:
        raise InputError(problems)
    return found


def _arrival_times(reader: Reader, columns: Columns) -> tuple[Float, float | None, Float]:
    """Arrival times, units in a day, and what to add to clocks of the same row."""
    found = reader.times("time")
    told = ("when the task arrived", "")
    reader.findings.refuse("time", "no time", np.isnan(found.value) & ~found.bad, told)
    if "date" not in reader.places or columns.day is None:
        day = DAY_SECONDS if found.dated else columns.day
        return found.value, day, np.zeros(reader.n)
    date = reader.times("date")
    absent = np.isnan(date.value) & ~date.bad
    reader.findings.refuse("date", "no date", absent, ("the day of the task", ""))
    offset = date.value / DAY_SECONDS if date.dated else date.value
    compact = None if date.dated else compact_dates(offset)
    if compact is not None:
        written = ~np.isnan(offset)
        reader.findings.note("a date written as one number", written, "read as year, month, day")
        offset = compact
    outside = ~np.isnan(found.value) & ~((found.value >= 0) & (found.value <= columns.day))
    told = (f"a time of the day, from 0 to {columns.day:g}", "")
    reader.findings.refuse("time", "outside the day", outside, told)
    return found.value + offset * columns.day, columns.day, offset * columns.day


def _durations(reader: Reader, start: Float, served: Bool, offset: Float) -> tuple[Float, Bool]:
    """Durations, and whether the service had ended; without an end it is censored."""
    if "duration" in reader.places:
        duration = reader.numbers("duration")
        reader.refuse_large("duration", duration)
    elif "end" in reader.places:
        end = ends(reader, start, offset)
        duration = end - start
    else:
        return np.full(reader.n, np.nan), np.ones(reader.n, dtype=np.bool_)
    complete = ~np.isnan(duration)
    if "complete" in reader.places:
        complete &= reader.numbers("complete") != 0
    reader.findings.note(
        "a duration of a task that nobody served", ~served & (duration > 0), "not used"
    )
    running = served & np.isnan(duration) & ~np.isnan(start)
    last = np.nanmax(np.where(np.isnan(duration), start, start + duration), initial=-np.inf)
    duration = np.where(running, last - start, duration)
    reader.findings.note(
        "the service had not ended",
        served & ~complete & ~np.isnan(duration),
        "censored: what was seen of it counts",
    )
    reader.findings.note(
        "a service of unknown duration", served & np.isnan(duration), "teaches no duration"
    )
    return duration, complete


def _short(findings: Findings, duration: Float, ended: Bool, too_short: str) -> Bool:
    """Which rows to leave out; by the rule, zero and negative durations are refused or kept."""
    dropped = np.zeros(len(duration), dtype=np.bool_)
    done = {"one-step": "counted as one step", "drop": "left out"}
    for what, rows, cells in (
        ("negative duration", ended & (duration < 0), duration),
        ("zero duration", ended & (duration == 0), None),
    ):
        if too_short == "refuse":
            remedy = (
                "--too-short one-step counts them as one step, --too-short drop leaves them out"
            )
            findings.refuse("duration", what, rows, ("durations above 0", remedy), cells)
        else:
            findings.note(what, rows, done[too_short])
            dropped |= rows & (too_short == "drop")
    return dropped


def _outcomes(reader: Reader, served: Bool) -> tuple[Float, Float]:
    outcome, propensity = reader.numbers("outcome"), reader.numbers("propensity")
    reader.findings.note(
        "an outcome of a task that nobody served", ~served & ~np.isnan(outcome), "not used"
    )
    outside = served & ~np.isnan(propensity) & ~((propensity > 0) & (propensity <= 1))
    told = ("a probability above 0 and at most 1", "")
    reader.findings.refuse("propensity", "no such probability", outside, told, propensity)
    return np.where(served, outcome, np.nan), np.where(served, propensity, np.nan)


def _free(reader: Reader, served: Bool, server: list[str]) -> list[str] | None:
    """Names of the servers that were free; the one that was taken must be among them."""
    names = reader.names("free")
    if names is not None:
        taken = np.array(
            [one in told.split(FREE_SEPARATOR) for one, told in zip(server, names, strict=True)],
            dtype=np.bool_,
        )
        expected = "the names of all free servers by semicolons, the one that was taken among them"
        reader.findings.refuse("free", "the server was not free", served & ~taken, (expected, ""))
    return names


def _recorded(reader: Reader, columns: Columns) -> Float | None:
    """(n, R) the outcome of every server."""
    if not columns.every_outcome:
        return None
    value = np.stack(
        [reader.numbers(f"{RECORDED}{name}") for name in columns.every_outcome], axis=1
    )
    reader.findings.note(
        "the outcome of some server is not on record",
        np.asarray(np.isnan(value).any(axis=1)),
        "a policy that picks it there is judged without that task",
    )
    return value


def _tasks(reader: Reader, time: Float, task_type: list[str] | None, server: list[str]) -> Int:
    """The number of each row's task; rows that contradict each other are refused."""
    names = reader.names("task")
    if names is None:
        return np.arange(reader.n)
    empty = np.array([not name for name in names], dtype=np.bool_)
    reader.findings.refuse("task", "no task", empty, ("the name of the task", ""))
    task = np.unique(names, return_inverse=True)[1]
    first: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    differs, twice = np.zeros((2, reader.n), dtype=np.bool_)
    for i, name in enumerate(names):
        j = first.setdefault(name, i)
        same_type = task_type is None or task_type[i] == task_type[j]
        differs[i] = not (same_type and (time[i] == time[j] or np.isnan(time[i] + time[j])))
        twice[i] = (name, server[i]) in seen
        seen.add((name, server[i]))
    told = ("one arrival time and type for all rows of a task", "")
    reader.findings.refuse("task", "another time or type of one task", differs & ~empty, told)
    told = ("different servers in the rows of a task", "")
    reader.findings.refuse("task", "the same task and server again", twice & ~empty, told)
    return np.asarray(task, dtype=np.int64)


def _note_unused(reader: Reader) -> None:
    """Negative numbers in columns that nothing is read from: a sign of how the log was kept."""
    used = set(reader.places.values())
    for place, name in enumerate(reader.sheet.header or ()):
        if place in used:
            continue
        values = [number(row[place]) for row in reader.sheet.rows]
        negative = np.array([value is not None and value < 0 for value in values], dtype=np.bool_)
        reader.findings.note(
            f"a negative number in the column {name!r}", negative, "that column is not used"
        )


def _origin(time: Float, day: float | None) -> float:
    """The first midnight where there are days, else the first time; 0 without any time."""
    first = float(np.min(time[np.isfinite(time)], initial=np.inf))
    if not np.isfinite(first):
        return 0.0
    return first if day is None else float(np.floor(first / day) * day)
