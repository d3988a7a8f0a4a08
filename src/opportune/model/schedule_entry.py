"""The keys ``profile`` and ``availability`` of an instance file: rates and shifts over the day.

``profile = {period_steps, multiplier, periods}``: a day of periods of one length, in which the
arrival rates are multiplied, by one factor for all types or one per type. ``availability``: the
share of time that each server is on duty, or its shifts, rows ``server,from,to`` in steps of the
day. A share says how much, not when: see :func:`day.breaks_from_share`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.checks import availability_problems, number_problem, plain_array
from opportune.model.day import Day, absences_of_shifts, breaks_from_share
from opportune.model.long import long_columns, read_pairs
from opportune.model.loss import LossInstance, numbered
from opportune.model.references import ARRAY_KEYS, check_keys, from_wide, read_matrix
from opportune.model.selection import Matrix, select
from opportune.model.servers import Groups
from opportune.model.sources import ARRAY_FILES, SHEET_FILES, resolve
from opportune.model.spelling import positions, unknown_keys, unknown_names
from opportune.model.tables import Sheet, read_sheet

Float = NDArray[np.float64]
Int = NDArray[np.int64]

ALWAYS = -1
"""End of the shift of a server that is always on duty, whatever the day's length."""

WHOLE = 1e-9
"""How far a time in steps may be from a whole number."""

LEAST_PERIOD = 1_000
"""Steps of the one period of a day without profile, at least; else ten of the longest mean."""

PROFILE, AVAILABILITY = "profile", "availability"
MULTIPLIER = f"{PROFILE}.multiplier"
WORDS = {"steps": "period_steps", "length": "period_steps", "names": "periods", "factor": "scale"}


@dataclass(frozen=True, eq=False)
class Profile:
    """Periods of one length.

    Attributes:
        period_steps: Length of each in steps.
        multiplier: (P, V) factors on the arrival rates.
        periods: Names.
    """

    period_steps: int
    multiplier: Float
    periods: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Duty:
    """When servers are on duty: ``share`` (R,) of the time, or ``shifts`` rows server, from, to."""

    share: Float | None
    shifts: Int | None


def day_of(base: LossInstance, profile: Profile | None, duty: Duty | None) -> Day:
    """The day of an instance: one period where there is no profile, everybody where no duty.

    Raises:
        InputError: If the rates or shifts do not fit into the day.
    """
    if profile is None:
        steps = max(LEAST_PERIOD, int(np.ceil(10 * base.mean_duration.max())))
        profile = Profile(steps, np.ones((1, base.n_types)), ("all day",))
    n_periods, steps = len(profile.periods), profile.period_steps
    off_duty = np.zeros((0, 3), dtype=np.int64)
    if duty is not None and duty.share is not None:
        off_duty = breaks_from_share(duty.share, n_periods, steps)
    elif duty is not None and duty.shifts is not None:
        shifts = duty.shifts.copy()
        shifts[shifts[:, 2] == ALWAYS, 2] = n_periods * steps
        late = shifts[shifts[:, 2] > n_periods * steps]
        if len(late):
            r, first, end = late[0].tolist()
            raise InputError(
                Problem(
                    AVAILABILITY,
                    f"server {base.servers[r]} from {first} to {end}",
                    f"shifts within the day of {n_periods * steps} steps",
                    "a shift over the end of the day is two rows",
                )
            )
        off_duty = absences_of_shifts(shifts, base.n_servers, n_periods * steps)
    return Day(base, steps, profile.multiplier, off_duty, profile.periods)


def read_profile(value: object, base: Path, task_types: Sequence[str]) -> Profile:
    """The key ``profile``.

    Args:
        value: What stands in the instance file.
        base: Folder that its paths are relative to.
        task_types: Names of the types.

    Raises:
        InputError: Naming the key or file, what is wrong and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if not isinstance(value, Mapping):
        told = "a table {period_steps, multiplier, periods}"
        raise InputError(Problem(PROFILE, shorten(value), told))
    problems = unknown_keys(PROFILE, value, ("period_steps", "multiplier", "periods"), WORDS)
    for key in ("period_steps", "multiplier"):
        if key not in value:
            problems.append(Problem(f"{PROFILE}.{key}", "missing", f"the key '{key}'"))
    if problems:
        raise InputError(problems)
    multiplier, names = _multiplier(value["multiplier"], base, task_types)
    if "periods" in value:
        given = value["periods"]
        if not isinstance(given, list):
            raise InputError(Problem(f"{PROFILE}.periods", shorten(given), "a list of names"))
        if names is not None and all(isinstance(name, str) for name in given):
            order = positions(f"{PROFILE}.periods", "period", names, given)
            multiplier = multiplier[order]
        names = tuple(given)
    names = numbered("period", len(multiplier)) if names is None else names
    return Profile(value["period_steps"], multiplier, names)


def _multiplier(
    value: object, base: Path, task_types: Sequence[str]
) -> tuple[Float, tuple[str, ...] | None]:
    """(P, V) factors and the names of the periods, where a file has them."""
    n_types = len(task_types)
    if not isinstance(value, Mapping):
        problem = number_problem(MULTIPLIER, value) if isinstance(value, list) else None
        array = plain_array(value)
        if problem or not isinstance(value, list) or array.ndim not in (1, 2) or not array.size:
            told = "a list with a factor per period, or a row of factors per period"
            raise InputError(problem or Problem(MULTIPLIER, shorten(value), told))
        return _for_all_types(array.astype(np.float64), n_types), None
    path = resolve(MULTIPLIER, value.get("file"), base)
    if path.suffix.lower() in ARRAY_FILES:
        matrix = read_matrix(MULTIPLIER, value, base)
        return _for_all_types(matrix.values, n_types), None
    check_keys(MULTIPLIER, value, (*ARRAY_KEYS, "scale", "normalize", "period", "task", "value"))
    sheet = read_sheet(MULTIPLIER, path, str(value["file"]))
    if "period" in value or "value" in value or _has_columns(sheet, ("period", "task")):
        roles = {key: value.get(key) for key in ("period", "task", "value")}
        sheet, columns = long_columns(MULTIPLIER, sheet, roles, ("period", "task", "value"))
        values, _, (rows, types) = read_pairs(MULTIPLIER, sheet, columns, None)
        matrix = Matrix(values, rows=rows, columns=types)
    else:
        matrix = from_wide(MULTIPLIER, value, sheet)
    matrix = select(MULTIPLIER, value, matrix, True)
    values = matrix.values
    if matrix.columns is not None and len(matrix.columns) > 1:
        values = values[:, positions(MULTIPLIER, "task type", matrix.columns, task_types)]
    return _for_all_types(values, n_types), matrix.rows


def _for_all_types(values: NDArray[Any], n_types: int) -> Float:
    """A factor per period as a row per period."""
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim == 2 and values.shape[1] == 1:
        values = np.repeat(values, n_types, axis=1)
    return np.asarray(values, dtype=np.float64)


def read_availability(value: object, base: Path, groups: Groups) -> Duty:
    """The key ``availability``.

    Args:
        value: A share for all servers, a list with one per row of ``servers``, a table by name,
            ``{file, server, share}``, or shifts: ``{file, server, from, to, per_step, missing}``
            or ``{shifts = [[name, from, to], ...], missing}``.
        base: Folder that its paths are relative to.
        groups: The rows of servers.

    Raises:
        InputError: Naming the key or file, the line, what is wrong and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if not isinstance(value, Mapping):
        single = isinstance(value, (int, float)) and not isinstance(value, bool)
        share = [value] * len(groups.names) if single else value
        if not isinstance(share, list):
            told = "a share of time, a list with one per server, or {file = ...}"
            raise InputError(Problem(AVAILABILITY, shorten(value), told))
        problems = availability_problems(share, len(groups.names))
        if problems:
            raise InputError(problems)
        return Duty(plain_array(share).astype(np.float64)[groups.columns], None)
    if "shifts" in value:
        problems = unknown_keys(AVAILABILITY, value, ("shifts", "per_step", "missing"), {})
        rows = value["shifts"]
        if not problems and not (
            isinstance(rows, list) and all(isinstance(one, list) and len(one) == 3 for one in rows)
        ):
            told = "a list of [server, from, to]"
            problems = [Problem(f"{AVAILABILITY}.shifts", shorten(rows), told)]
        if problems:
            raise InputError(problems)
        lines = list(range(1, len(rows) + 1))
        return _duty_of_shifts(Sheet("shifts", None, rows, lines), [0, 1, 2], value, groups)
    if "file" not in value:
        return _by_name(
            [str(name) for name in value], list(value.values()), [""] * len(value), groups
        )
    return _from_file(value, base, groups)


def _from_file(value: Mapping[str, Any], base: Path, groups: Groups) -> Duty:
    keys = ("server", "share", "from", "to", "per_step", "missing")
    check_keys(AVAILABILITY, value, keys)
    path = resolve(AVAILABILITY, value.get("file"), base)
    if path.suffix.lower() not in SHEET_FILES:
        told = "a file ending in " + ", ".join(SHEET_FILES)
        raise InputError(Problem(f"{AVAILABILITY}.file", path.name, told))
    sheet = read_sheet(AVAILABILITY, path, str(value["file"]))
    shifts = bool({"from", "to"} & set(value)) or _has_columns(sheet, ("from", "to"))
    if "share" not in value and (shifts or sheet.width == 3):
        roles = {key: value.get(key) for key in ("server", "from", "to")}
        sheet, columns = long_columns(AVAILABILITY, sheet, roles, ("server", "from", "to"))
        return _duty_of_shifts(sheet, columns, value, groups)
    roles = {key: value.get(key) for key in ("server", "share")}
    sheet, columns = long_columns(AVAILABILITY, sheet, roles, ("server", "share"))
    names, shares = sheet.names(columns[0]), sheet.numbers(AVAILABILITY, columns[1])
    lines = [f"line {line} of {sheet.file}" for line in sheet.lines]
    return _by_name(names, shares.tolist(), lines, groups)


def _has_columns(sheet: Sheet, names: Sequence[str]) -> bool:
    header = sheet.header if sheet.header is not None else tuple(map(str, sheet.rows[0]))
    return all(name in header or f"{name}_type" in header for name in names)


def _by_name(names: list[str], shares: list[Any], lines: list[str], groups: Groups) -> Duty:
    """Shares by the name of a group or of a single server; all must be there."""
    place = _places(names, lines, groups)
    found = np.full(len(groups.servers), np.nan)
    for name, share in zip(names, shares, strict=True):
        problem = number_problem(f"{AVAILABILITY}.{name}", share)
        if problem:
            raise InputError(problem)
        if not np.isnan(found[place[name]]).all():
            raise InputError(Problem(AVAILABILITY, f"server {name!r} twice", "every name once"))
        found[place[name]] = share
    absent = [groups.servers[r] for r in np.flatnonzero(np.isnan(found))]
    if absent:
        told = f"nothing for server {absent[0]!r} ({len(absent)} in all)"
        raise InputError(Problem(AVAILABILITY, told, "a share for every server", "write 1"))
    problems = availability_problems(found, len(found))
    if problems:
        raise InputError(problems)
    return Duty(found, None)


def _places(names: Sequence[str], lines: Sequence[str], groups: Groups) -> dict[str, list[int]]:
    """Servers that each name stands for: a single one, or all of a group."""
    place = {name: [r] for r, name in enumerate(groups.servers)}
    for r, row in enumerate(groups.columns):
        if groups.counts[row] is not None:
            place.setdefault(groups.names[row], []).append(r)
    where = dict(zip(reversed(names), reversed(lines), strict=True))
    given = {name: where[name] for name in dict.fromkeys(names)}
    problem = unknown_names(AVAILABILITY, "server", given, list(place))
    if problem:
        raise InputError(problem)
    return place


def _duty_of_shifts(
    sheet: Sheet, columns: Sequence[int], value: Mapping[str, Any], groups: Groups
) -> Duty:
    """Rows of server, from, to in whole steps of the day."""
    per_step, missing = value.get("per_step", 1), value.get("missing")
    if isinstance(per_step, bool) or not isinstance(per_step, (int, float)) or not per_step > 0:
        told = "how many of the file's units make one step, above 0"
        raise InputError(Problem(f"{AVAILABILITY}.per_step", shorten(per_step), told))
    if missing not in (None, "always", "never"):
        told = '"always" or "never" on duty'
        raise InputError(Problem(f"{AVAILABILITY}.missing", shorten(missing), told))
    names = sheet.names(columns[0])
    times = sheet.matrix(AVAILABILITY, columns[1:]) / per_step
    lines = [f"line {line} of {sheet.file}" for line in sheet.lines]
    place = _places(names, lines, groups)
    whole = np.round(times)
    good = (np.abs(times - whole) <= WHOLE * np.maximum(1.0, np.abs(times))).all(axis=1)
    good &= (whole[:, 0] >= 0) & (whole[:, 1] > whole[:, 0])
    bad = np.flatnonzero(~good)
    if bad.size:
        i = int(bad[0])
        a, b = times[i]
        raise InputError(
            Problem(
                AVAILABILITY,
                f"from {a:g} to {b:g} steps in {lines[i]} ({len(bad)} such rows)",
                "whole steps of the day, 0 <= from < to",
                "a shift over midnight is two rows" if b < a else "see per_step for other units",
            )
        )
    rows = [
        (r, int(first), int(end))
        for name, (first, end) in zip(names, whole, strict=True)
        for r in place[name]
    ]
    there = {r for r, _, _ in rows}
    absent = [r for r in range(len(groups.servers)) if r not in there]
    if absent and missing is None:
        raise InputError(
            Problem(
                AVAILABILITY,
                f"no shift for server {groups.servers[absent[0]]!r} ({len(absent)} in all)",
                "a row for every server",
                'write missing = "always" or "never" to say whether they are on duty',
            )
        )
    if missing == "always":
        rows += [(r, 0, ALWAYS) for r in absent]
    return Duty(None, np.array(rows, dtype=np.int64).reshape(-1, 3))
