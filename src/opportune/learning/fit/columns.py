"""Which column of a log holds what: a TOML file, ``role=column`` pairs, or the usual names.

A log is one row per task and server that served it (a task without a server has one row, its
server empty). Roles:

| role | the column holds |
|---|---|
| ``time`` | when the task arrived: a number, or a date and time (ISO 8601) |
| ``date`` | the day, a number or a date, where ``time``, ``start``, ``end`` are clocks of a day |
| ``task`` | the task, where several servers work on one: rows of one name are one task |
| ``task_type`` | the type of the task; without it types are made of ``context`` |
| ``server`` | who served it; empty if nobody did |
| ``start``, ``end`` | when the service began and ended; no end: still in service |
| ``duration`` | how long the service took; or a duration as in an instance file, in steps |
| ``complete`` | false where ``duration`` is only what was seen so far |
| ``outcome`` | what the service was worth: 0 or 1, a share, or a number |
| ``propensity`` | the probability that this server was taken; of several, among them |
| ``free`` | the servers that were free at that moment, by semicolons |

Also ``context`` (a list of columns of numbers), ``wait`` (a list of columns whose sum is the time
from the arrival to the start: starts are checked against it, and taken from it where missing),
``nobody`` (names in the column of servers that stand for nobody),
``every_outcome`` (columns of what each server was, or would have been, worth: a list of servers, or
``{server = "column"}``), ``day`` (units of time in a day) and ``leave_out``
(``{column = ["value", ...]}``: rows that are not tasks at all).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opportune.errors import InputError, Problem, shorten
from opportune.model.numerals import decimal_number
from opportune.model.sources import read_text
from opportune.model.spelling import unknown_keys

ROLES = (
    "time",
    "date",
    "task",
    "task_type",
    "server",
    "start",
    "end",
    "duration",
    "complete",
    "outcome",
    "propensity",
    "free",
)
"""What a column can hold; a log whose columns have these names needs no map."""

KEYS = (*ROLES, "context", "wait", "nobody", "every_outcome", "day", "leave_out")
OTHER_WORDS = {
    "arrival": "time",
    "timestamp": "time",
    "type": "task_type",
    "id": "task",
    "agent": "server",
    "service_time": "duration",
    "reward": "outcome",
    "score": "outcome",
    "success": "outcome",
    "features": "context",
    "probability": "propensity",
}


@dataclass(frozen=True)
class Columns:
    """Where to find what in a log.

    Attributes:
        roles: Column by role; empty to take columns that are called like a role.
        context: Columns of numbers that describe a task.
        every_outcome: Column by server of what it was, or would have been, worth.
        wait: Columns that add up to the time from the arrival to the start of the service.
        nobody: Names of servers that stand for nobody.
        day: Units of time in a day, None if the log has no days.
        leave_out: Values of a column that mark rows to leave out.
        duration: Duration as in an instance file, where the log has none.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    context: tuple[str, ...] = ()
    day: float | None = None
    leave_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    duration: object | None = None
    every_outcome: Mapping[str, str] = field(default_factory=dict)
    wait: tuple[str, ...] = ()
    nobody: tuple[str, ...] = ()

    def named(self, header: tuple[str, ...]) -> dict[str, str]:
        """Column by role; the roles among the header's names if no role is given."""
        return dict(self.roles) or {role: role for role in ROLES if role in header}


def read_columns(source: str | Path | None) -> Columns:
    """A map of columns.

    Args:
        source: A TOML file, or ``time=arrived,server=agent,context=f0+f1``; None for the usual
            names.

    Raises:
        InputError: Naming every key that is unknown or wrong.
    """
    if source is None:
        return Columns()
    text = str(source)
    if text.lower().endswith(".toml"):
        path = Path(text)
        try:
            data = tomllib.loads(read_text("--columns", path, text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(
                Problem("--columns", f"{path.name}: {error}", "a TOML file")
            ) from error
        return columns_of(data)
    return columns_of(_pairs(text))


def columns_of(data: Mapping[str, Any]) -> Columns:
    """A map of columns from what a TOML file holds.

    Raises:
        InputError: Naming every key that is unknown or wrong.
    """
    problems = unknown_keys("columns", data, KEYS, OTHER_WORDS)
    roles: dict[str, str] = {}
    for role in ROLES:
        value = data.get(role)
        if role == "duration" and isinstance(value, (Mapping, list)):
            continue
        if value is None:
            continue
        if not isinstance(value, str) or not value:
            problems.append(Problem(f"columns.{role}", shorten(value), "the name of a column"))
        else:
            roles[role] = value
    context, wait, nobody = (_names(data, key, problems) for key in ("context", "wait", "nobody"))
    every_outcome, wrong = _every_outcome(data.get("every_outcome", []))
    problems += wrong
    leave_out = data.get("leave_out", {})
    if not isinstance(leave_out, Mapping) or not all(
        isinstance(one, list) for one in leave_out.values()
    ):
        problems.append(
            Problem("columns.leave_out", shorten(leave_out), '{column = ["value", ...]}')
        )
        leave_out = {}
    day = data.get("day")
    number = isinstance(day, (int, float)) and not isinstance(day, bool)
    if day is not None and not (number and 0 < float(day) < float("inf")):
        problems.append(Problem("columns.day", shorten(day), "how many units of time make a day"))
        day = None
    if "date" in roles and day is None:
        problems.append(
            Problem(
                "columns.day",
                "missing",
                "the units in a day, beside a column of dates",
                "write day = 86400 if times are in seconds",
            )
        )
    if problems:
        raise InputError(problems)
    own = data.get("duration")
    return Columns(
        roles,
        context,
        None if day is None else float(day),
        {key: tuple(map(str, values)) for key, values in leave_out.items()},
        own if isinstance(own, (Mapping, list)) else None,
        every_outcome,
        wait,
        nobody,
    )


def _names(data: Mapping[str, Any], key: str, problems: list[Problem]) -> tuple[str, ...]:
    """A list of columns; what is wrong goes to ``problems``."""
    names = data.get(key, [])
    if isinstance(names, (list, tuple)) and _are_names(names):
        return tuple(names)
    told = "a list of names" if key == "nobody" else "a list of columns"
    problems.append(Problem(f"columns.{key}", shorten(names), told))
    return ()


def _every_outcome(value: object) -> tuple[dict[str, str], list[Problem]]:
    """Column by server, from a list of columns or a table; and what is wrong."""
    if isinstance(value, (list, tuple)):
        value = dict(zip(value, value, strict=True)) if _are_names(value) else None
    if isinstance(value, Mapping) and _are_names([*value, *value.values()]):
        return {str(server): str(column) for server, column in value.items()}, []
    expected = 'a list of columns called like servers, or {server = "column"}'
    return {}, [Problem("columns.every_outcome", shorten(value), expected)]


def _are_names(names: Iterable[object]) -> bool:
    return all(isinstance(one, str) and one for one in names)


def _pairs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in text.split(","):
        role, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column:
            raise InputError(
                Problem("--columns", shorten(pair), "role=column pairs by commas, or a .toml file")
            )
        if role in found:
            told = f"{role} is given twice"
            raise InputError(Problem("--columns", told, "every role once", "leave one of them out"))
        if role in ("context", "wait", "nobody", "every_outcome"):
            found[role] = column.split("+")
        elif role == "day":
            value = decimal_number(column)
            found[role] = column if value is None else value
        else:
            found[role] = column
    return found
