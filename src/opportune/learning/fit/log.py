"""A log of tasks and services as arrays: read, checked, and every oddity told.

Rows of a file are services; rows of one task (``columns.task``) are one arrival. Times are in the
log's own unit, from 0 at the first midnight (where there are days) or at the first arrival.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.learning.fit.columns import Columns
from opportune.learning.fit.findings import FIRST_LINES, Finding, Findings
from opportune.learning.fit.oddities import note_oddities
from opportune.learning.fit.rows import FREE_SEPARATOR, Rows, read_rows, without
from opportune.model.axes import Quantity
from opportune.model.sources import SHEET_FILES, is_file, neighbors
from opportune.model.spelling import did_you_mean
from opportune.model.tables import Sheet, read_sheet

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


MOST_DAYS = 100_000
"""Longest log with days; one of more is read in a wrong unit."""


@dataclass(frozen=True)
class LogRules:
    """What to do with rows that are not as they should be.

    Attributes:
        bad_rows: Refuse the log for rows that cannot be used, or drop them with a finding each.
        too_short: Durations of zero or less: refuse, count as one step, or drop the row.
        missing_outcome: A service that ended without an outcome teaches nothing, or counts as 0.
    """

    bad_rows: Literal["refuse", "drop"] = "refuse"
    too_short: Literal["refuse", "one-step", "drop"] = "refuse"
    missing_outcome: Literal["discard", "zero"] = "discard"


@dataclass(frozen=True, eq=False)
class Log:
    """Tasks by arrival, and the services they got.

    Attributes:
        name: Name of the file.
        digest: SHA-256 of its bytes, the first 16 digits.
        n_rows: Rows of the file, without its header.
        arrival: (n,) when each task arrived, ascending.
        task_type: (n,) its type, None without types.
        context: (n, c) what is known of it, None without context columns.
        task: (m,) the task of each service.
        server: (m,) the server, -1 where the log does not name one.
        start: (m,) when it began, NaN where unknown.
        duration: (m,) how long it took or was seen to take, NaN where unknown.
        complete: (m,) whether it had ended; else ``duration`` is censored.
        outcome: (m,) what it was worth, NaN where unknown.
        propensity: (m,) with what probability the server was chosen, NaN where unknown.
        task_types: Names of the types.
        servers: Names of the servers.
        contexts: Names of the context columns.
        day: Units of time in a day, None without days.
        findings: Oddities, and what was done about each.
        recorded: (n, R) what each server was, or would have been, worth; NaN where unknown, None
            where the log does not have it.
        free: (m, R) servers that were free when each service began, None if the log does not say.
    """

    name: str
    digest: str
    n_rows: int
    arrival: Annotated[Float, Quantity("t_i", "n", "log's unit", "arrival time of a task")]
    task_type: Int | None
    context: Float | None
    task: Int
    server: Int
    start: Float
    duration: Float
    complete: Bool
    outcome: Float
    propensity: Float
    task_types: tuple[str, ...]
    servers: tuple[str, ...]
    contexts: tuple[str, ...]
    day: float | None
    findings: tuple[Finding, ...]
    recorded: Float | None = None
    free: Bool | None = None

    @property
    def n_tasks(self) -> int:
        """Number of tasks that arrived."""
        return len(self.arrival)

    @property
    def served(self) -> Int:
        """(n,) services of each task; 0 where nobody served it."""
        return np.bincount(self.task, minlength=self.n_tasks)


def read_log(
    path: str | Path, columns: Columns | None = None, rules: LogRules | None = None
) -> Log:
    """Read a log.

    Args:
        path: A CSV or Parquet file.
        columns: Where to find what; the usual names if None.
        rules: What to do with bad rows; refuse them if None.

    Raises:
        InputError: All problems of the log together: what is wrong, in how many rows, where.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    path = Path(path)
    columns = Columns() if columns is None else columns
    rules = LogRules() if rules is None else rules
    whole = _sheet(path)
    sheet, left_out, told = without(whole, columns.leave_out)
    if not sheet.rows:
        raise InputError(Problem("log", f"{path.name}: all rows are left out", "at least one task"))
    findings = Findings(path.name, np.array(sheet.lines, dtype=np.int64))
    if len(left_out):
        lines = tuple(int(line) for line in left_out[:FIRST_LINES])
        findings.found.append(Finding(told, len(left_out), lines, "left out as asked"))
    rows = read_rows(sheet, columns, findings, rules.too_short)
    keep = findings.usable(rules.bad_rows == "drop") & ~rows.dropped
    if not keep.any():
        raise InputError(Problem("log", f"{path.name}: no row is left", "at least one task"))
    kept = rows.kept(keep)
    findings.lines = findings.lines[keep]
    note_oddities(kept, findings)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return _assembled((path.name, digest, len(whole.rows)), kept, findings, rules)


def _sheet(path: Path) -> Sheet:
    if path.suffix.lower() not in SHEET_FILES:
        expected = "a file ending in " + ", ".join(SHEET_FILES)
        raise InputError(Problem("log", str(path), expected))
    if not is_file(path):
        near = neighbors(path)
        expected = "a plain file, no pipe or folder" if path.name in near else "a file that exists"
        hint = "" if path.name in near else did_you_mean(path.name, near)
        raise InputError(Problem("log", str(path), expected, hint or "check the path"))
    return read_sheet("log", path, path.name).with_header("log")


def _assembled(
    source: tuple[str, str, int], rows: Rows, findings: Findings, rules: LogRules
) -> Log:
    """Tasks in order of arrival, and services pointing to them."""
    first = np.unique(rows.task, return_index=True)[1]  # first row of each task
    order = first[np.argsort(rows.time[first], kind="stable")]
    place = np.empty(len(first), dtype=np.int64)
    place[rows.task[order]] = np.arange(len(order))
    served = np.flatnonzero(rows.served)
    served = served[np.argsort(place[rows.task[served]], kind="stable")]
    types, type_names = _coded(rows.task_type)
    servers, server_names = _coded(rows.server, _named(rows))
    outcome = rows.outcome[served]
    recorded, free = _recorded(rows, server_names), _free(rows, server_names)
    if recorded is not None and servers is not None and not rows.has_outcome:
        outcome = np.where(servers[served] >= 0, recorded[served, servers[served]], np.nan)
    if rules.missing_outcome == "zero" and rows.has_outcome:
        outcome = np.where(np.isnan(outcome) & rows.complete[served], 0.0, outcome)
    origin = rows.origin if rows.day is not None else float(rows.time[order[0]])
    _check_days(rows.time[order], rows.day)
    return Log(
        name=source[0],
        digest=source[1],
        n_rows=source[2],
        arrival=rows.time[order] - origin,
        task_type=None if types is None else types[order],
        context=None if rows.context is None else rows.context[order],
        task=place[rows.task[served]],
        server=np.full(len(served), -1) if servers is None else servers[served],
        start=rows.start[served] - origin,
        duration=rows.duration[served],
        complete=rows.complete[served],
        outcome=outcome,
        propensity=rows.propensity[served],
        task_types=type_names,
        servers=server_names,
        contexts=rows.contexts,
        day=rows.day,
        findings=tuple(findings.found),
        recorded=None if recorded is None else recorded[order],
        free=None if free is None else free[served],
    )


def _check_days(time: Float, day: float | None) -> None:
    """Refuse a log of more days than anybody kept one."""
    if day is not None and not (time[-1] - time[0]) / day <= MOST_DAYS:
        raise InputError(
            Problem(
                "log.time",
                f"from {time[0]:g} to {time[-1]:g}: {(time[-1] - time[0]) / day:.3g} days",
                f"at most {MOST_DAYS:g} days",
                "is the unit of time the one of 'day'?",
            )
        )


def _named(rows: Rows) -> tuple[str, ...]:
    """Servers that are named elsewhere than by a service.

    Raises:
        InputError: If the outcome of every server is on record, but not that of one that served.
    """
    free = {name for cell in rows.free or () for name in cell.split(FREE_SEPARATOR)}
    seen = {*(rows.server or ()), *free} - {""}
    missing = sorted(seen - set(rows.recorded_servers))
    if rows.recorded is not None and missing:
        told = (
            "no column for "
            + ", ".join(missing[:FIRST_LINES])
            + ", ..." * (len(missing) > FIRST_LINES)
        )
        raise InputError(Problem("columns.every_outcome", told, "a column for every server"))
    return (*rows.recorded_servers, *free)


def _recorded(rows: Rows, servers: tuple[str, ...]) -> Float | None:
    """(rows, R) outcomes of all servers, in the order of their names."""
    if rows.recorded is None:
        return None
    return rows.recorded[:, [rows.recorded_servers.index(name) for name in servers]]


def _free(rows: Rows, servers: tuple[str, ...]) -> Bool | None:
    """(rows, R) who was free."""
    if rows.free is None:
        return None
    place = {name: r for r, name in enumerate(servers)}
    free = np.zeros((len(rows.free), len(servers)), dtype=np.bool_)
    for i, cell in enumerate(rows.free):
        if cell:
            free[i, [place[name] for name in cell.split(FREE_SEPARATOR) if name]] = True
    return free


def _coded(
    names: list[str] | None, others: tuple[str, ...] = ()
) -> tuple[Int | None, tuple[str, ...]]:
    """Names as numbers in sorted order, -1 for an empty one; and all names, others with them."""
    if names is None:
        return None, ()
    known = sorted({name for name in (*names, *others) if name})
    place = {name: i for i, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], dtype=np.int64), tuple(known)
