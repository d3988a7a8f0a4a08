"""Durations from a file: a histogram, or one duration per row, of all task types or by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.duration import MAX_STEPS, Empirical
from opportune.model.long import USUAL, long_columns
from opportune.model.sources import SHEET_FILES, resolve
from opportune.model.spelling import counted
from opportune.model.tables import Float, Sheet, read_sheet

WEIGHTS = ("weight", "probability", "count")
"""Columns that make a file look like a histogram although no ``weight`` is given."""

ROUND_UP = 1e-9
"""Relative slack of rounding up: 0.9 / 0.3 is 3 steps, not 4."""

Name = TypeVar("Name", str, tuple[str, str])

ALL_TYPES = "\0"
"""Name for a duration of all task types; no name in a file holds a zero byte."""


@dataclass(frozen=True)
class Reading:
    """How a file of durations is to be read.

    Attributes:
        columns: Column (name or position) of ``task``, ``weight`` and ``steps``, None if not said.
        per_step: How many of the file's units make one step.
        one_step: Whether zero and negative durations become one step instead of being refused.
    """

    columns: dict[str, object]
    per_step: float
    one_step: bool


def read_duration_file(field: str, value: Mapping[str, Any], base: Path) -> dict[str, Empirical]:
    """The durations of a file by task type, or for all types under ``ALL_TYPES``.

    Args:
        field: Where in the instance file it is named.
        value: ``{file, steps, weight, task, per_step, too_short}``.
        base: Folder that paths are relative to.

    Raises:
        InputError: Naming the file, the line and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    sheet, columns, reading = _opened(field, value, base)
    n = len(sheet.rows)
    tasks = sheet.names(columns["task"]) if "task" in columns else [ALL_TYPES] * n
    return _grouped(field, sheet, (columns, reading), tasks)


def read_pair_duration_file(
    field: str, value: Mapping[str, Any], base: Path
) -> dict[tuple[str, str], Empirical]:
    """The durations of a file by task type and server.

    Args:
        field: Where in the instance file it is named.
        value: ``{file, task, server, steps, weight, per_step, too_short}``.
        base: Folder that paths are relative to.

    Raises:
        InputError: Naming the file, the line and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    sheet, columns, reading = _opened(field, {"task": "task", "server": "server", **value}, base)
    pairs = list(zip(*(sheet.names(columns[key]) for key in ("task", "server")), strict=True))
    return _grouped(field, sheet, (columns, reading), pairs)


def _opened(
    field: str, value: Mapping[str, Any], base: Path
) -> tuple[Sheet, dict[str, int], Reading]:
    """The sheet without header, where its columns are, and how to read it."""
    reading = _reading(field, value)
    path = resolve(field, value["file"], base)
    if path.suffix.lower() not in SHEET_FILES:
        expected = "a file ending in " + ", ".join(SHEET_FILES)
        raise InputError(Problem(f"{field}.file", value["file"], expected))
    sheet, columns = _columns(field, read_sheet(field, path, str(value["file"])), reading)
    return sheet, columns, reading


def _grouped(
    field: str, sheet: Sheet, told: tuple[dict[str, int], Reading], names: Sequence[Name]
) -> dict[Name, Empirical]:
    """The histogram of the rows of each name."""
    columns, reading = told
    units = sheet.numbers(field, columns["steps"])
    steps = _whole_steps(field, sheet, units, reading)
    weight = np.ones(len(steps))
    if "weight" in columns:
        weight = _weights(field, sheet, columns["weight"])
        _refuse_double(field, sheet, names, units)
    rows: dict[Name, list[int]] = {}
    for i, name in enumerate(names):
        rows.setdefault(name, []).append(i)
    found = {}
    for name, own in rows.items():
        try:
            found[name] = Empirical(steps[own], weight[own])
        except InputError as error:
            place = field if name == ALL_TYPES else f"{field} of {name!r}"
            raise InputError(replace(one, field=place) for one in error.problems) from error
    return found


def _reading(field: str, value: Mapping[str, Any]) -> Reading:
    per_step, too_short = value.get("per_step", 1), value.get("too_short", "refuse")
    number = isinstance(per_step, (int, float)) and not isinstance(per_step, bool)
    if not number or not 0 < per_step < np.inf:
        expected = "a number above 0: how many of the file's units make one step"
        raise InputError(Problem(f"{field}.per_step", shorten(per_step), expected))
    if too_short not in ("refuse", "one-step"):
        expected = '"refuse" or "one-step"'
        raise InputError(Problem(f"{field}.too_short", shorten(too_short), expected))
    columns = {key: value.get(key) for key in ("task", "server", "weight", "steps")}
    return Reading(columns, float(per_step), too_short == "one-step")


def _columns(field: str, sheet: Sheet, reading: Reading) -> tuple[Sheet, dict[str, int]]:
    """The sheet without header and where its columns are; no ``task`` if it has none."""
    header = sheet.header if sheet.header is not None else tuple(map(str, sheet.rows[0]))
    given = dict(reading.columns)
    like = [word for word in WEIGHTS if word in header and word not in given.values()]
    if given["weight"] is None and like:
        raise InputError(
            Problem(
                f"{field}.weight",
                f"not given, and {sheet.file} has a column {like[0]!r}",
                "the column of weights, if the file is a histogram",
                f'write weight = "{like[0]}", or rename the column if each row is one duration',
            )
        )
    by_server = given.pop("server")
    if given["task"] is None:
        given["task"] = next((word for word in USUAL["task"] if word in header), None)
    keys = ["steps"]
    if given["weight"] is not None:
        keys.insert(0, "weight")
    pairs_of_type_and_steps = given["steps"] is None and sheet.width == 2
    if given["task"] is not None or (pairs_of_type_and_steps and keys == ["steps"]):
        keys.insert(0, "task")
    if by_server is not None:
        given["server"] = by_server
        keys.insert(1, "server")
    usual = ["value" if key == "weight" else key for key in keys]
    sheet, places = long_columns(field, sheet, {key: given[key] for key in keys}, usual)
    return sheet, dict(zip(keys, places, strict=True))


def _whole_steps(field: str, sheet: Sheet, units: Float, reading: Reading) -> NDArray[np.int64]:
    broken = np.flatnonzero(~np.isfinite(units))
    if broken.size:
        raise InputError(
            Problem(
                field,
                f"{counted(broken.size, 'missing or infinite duration')} in {sheet.file}, "
                f"the first in line {sheet.lines[broken[0]]}",
                "a number in every row",
                "leave out tasks that took no server",
            )
        )
    short = np.flatnonzero(~(units > 0))
    if short.size and not reading.one_step:
        raise InputError(
            Problem(
                field,
                f"{counted(short.size, 'zero or negative duration')} in {sheet.file}, the first "
                f"({units[short[0]]:g}) in line {sheet.lines[short[0]]}",
                "durations above 0",
                'leave these rows out, or write too_short = "one-step" to count them as one step',
            )
        )
    steps = units / reading.per_step
    steps = np.maximum(np.ceil(steps - ROUND_UP * np.abs(steps)), 1.0)
    long = np.flatnonzero(steps > float(MAX_STEPS))
    if long.size:
        raise InputError(
            Problem(
                field,
                f"{units[long[0]]:g} in {sheet.file}, line {sheet.lines[long[0]]}",
                f"at most {MAX_STEPS} steps",
            )
        )
    return steps.astype(np.int64)


def _weights(field: str, sheet: Sheet, column: int) -> Float:
    weight = sheet.numbers(field, column)
    bad = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))
    if bad.size:
        raise InputError(
            Problem(
                f"{field}.weight",
                f"{weight[bad[0]]:g} in {sheet.file}, line {sheet.lines[bad[0]]} "
                f"({counted(bad.size, 'such row')})",
                "a finite number, at least 0",
            )
        )
    return weight


def _refuse_double(field: str, sheet: Sheet, tasks: Sequence[Name], units: Float) -> None:
    seen: dict[tuple[Name, float], int] = {}
    for task, unit, line in zip(tasks, units, sheet.lines, strict=True):
        if (task, unit) in seen:
            raise InputError(
                Problem(
                    field,
                    f"duration {unit:g} in lines {seen[task, unit]} and {line} of {sheet.file}",
                    "each duration once in a histogram",
                    "if it has one histogram per type, name their column: task = '...'",
                )
            )
        seen[task, unit] = line
