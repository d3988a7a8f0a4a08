"""Long tables: one row per pair (task, server, value), or per task (task, value).

Columns are named, or given by position (from 0) for a file without a header. Left out, they are
``task``, ``server`` and ``score``; a file without those names has them in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.spelling import counted, unknown_names
from opportune.model.tables import DECIMAL_COMMA, Float, Sheet, is_text, number

Bool = NDArray[np.bool_]

USUAL = {
    "task": ("task", "task_type"),
    "server": ("server",),
    "value": ("score", "value"),
    "constraint": ("constraint", "value"),
    "k": ("k", "servers_per_task"),
    "steps": ("duration", "steps"),
    "period": ("period",),
    "share": ("share", "availability", "value"),
    "from": ("from",),
    "to": ("to",),
}
"""Column names looked for when none is given, by what the column holds."""

MAX_CELLS = 10**8
"""Largest matrix made of a long table: a column read by mistake can have many distinct values."""


def long_columns(
    field: str, sheet: Sheet, roles: Mapping[str, object], usual: Sequence[str]
) -> tuple[Sheet, list[int]]:
    """Which column holds what; and the sheet without its header, if it has one.

    Args:
        field: What the table is read for.
        sheet: The sheet.
        roles: The column given by the user for each key, None if not given. The order of the keys
            is the order of the columns in a file without a header; the last one holds numbers.
        usual: For each key the entry of ``USUAL`` to look for.

    Raises:
        InputError: With the file, the missing column and the columns found.
    """
    for key, name in roles.items():
        if name is not None and (isinstance(name, bool) or not isinstance(name, (str, int))):
            raise InputError(
                Problem(f"{field}.{key}", shorten(name), "the name or the position of a column")
            )
    if sheet.header is None and _has_header(sheet, roles):
        sheet = sheet.with_header(field)
    unnamed = all(name is None for name in roles.values())
    if sheet.header is None and unnamed and sheet.width < len(roles):
        raise InputError(
            Problem(
                field,
                f"{sheet.file} has {sheet.width} columns",
                f"{len(roles)} columns: {', '.join(roles)}",
            )
        )
    named = any(isinstance(name, str) for name in roles.values())
    canonical = sheet.header is not None and any(
        word in sheet.header for kind in usual[:-1] for word in USUAL[kind]
    )
    columns = []
    for place, ((key, name), kind) in enumerate(zip(roles.items(), usual, strict=True)):
        if isinstance(name, (str, int)):
            columns.append(sheet.column(field, key, name))
        elif sheet.header is not None and (named or canonical or sheet.width != len(roles)):
            found = next((word for word in USUAL[kind] if word in sheet.header), USUAL[kind][0])
            columns.append(sheet.column(field, key, found))
        else:
            columns.append(sheet.column(field, key, place))
    if len(set(columns)) < len(columns):
        raise InputError(
            Problem(field, f"one column of {sheet.file} for two keys", "a column for each key")
        )
    return sheet, columns


def _has_header(sheet: Sheet, roles: Mapping[str, object]) -> bool:
    """A header is there if a column is named, or the cell where numbers should be is text.

    Not if its task or its server comes again below: then it is a name, and the other cell a bad
    number.
    """
    if any(isinstance(name, str) for name in roles.values()):
        return True
    last = list(roles.values())[-1]
    place = last if isinstance(last, int) else len(roles) - 1
    first = sheet.rows[0]
    names = [i for i in range(len(roles)) if i != place and i < len(first)]
    if any(row[i] == first[i] and is_text(first[i]) for row in sheet.rows[1:] for i in names):
        return False
    return any(is_text(cell) for cell in first) and (
        not 0 <= place < len(first) or is_text(first[place])
    )


def looks_long(sheet: Sheet) -> bool:
    """Whether a sheet is (task, server, value): its header says so, or its second column is names.

    A header with a column for the task and one for the server or the score is that of a long
    table, even if a column is missing.
    """
    first = sheet.rows[0]
    if sheet.header is None and len(sheet.rows) == 1:
        return sheet.width == 3 and is_text(first[1]) and number(first[2]) is not None
    header = sheet.header if sheet.header is not None else tuple(map(str, first))
    has = {kind: any(word in header for word in USUAL[kind]) for kind in USUAL}
    if has["task"] and (has["server"] or has["value"] or has["constraint"]):
        return True
    body = sheet.rows if sheet.header is not None else sheet.rows[1:]
    if sheet.width != 3:
        return False
    names = sum(is_text(row[1]) and not DECIMAL_COMMA.fullmatch(str(row[1])) for row in body)
    return 2 * names > len(body)


def refuse_numbered_pairs(field: str, sheet: Sheet) -> None:
    """Refuse a sheet of three columns of numbers that may be (task, server, value) by number.

    Raises:
        InputError: If the first two columns are distinct pairs of whole numbers, the third not.
    """
    headed = sheet.header is None and any(is_text(cell) for cell in sheet.rows[0])
    body = sheet.rows[1:] if headed else sheet.rows
    if sheet.width != 3 or len(body) < 2:
        return
    cells = [[number(cell) for cell in row] for row in body]
    if any(value is None or value != value for row in cells for value in row):
        return
    array = np.array(cells, dtype=np.float64)
    whole = np.all(array == np.floor(array), axis=0)
    pairs = len({(row[0], row[1]) for row in cells})
    if whole[0] and whole[1] and not whole[2] and pairs == len(body):
        raise InputError(
            Problem(
                field,
                f"{sheet.file} may hold three servers' scores, or rows of task, server, score",
                "to be told which",
                "for rows of task, server, score write task = 0, server = 1, value = 2; "
                "for scores list the columns: columns = [0, 1, 2]",
            )
        )


def read_pairs(
    field: str, sheet: Sheet, columns: Sequence[int], missing: object
) -> tuple[Float, Bool, tuple[tuple[str, ...], tuple[str, ...]]]:
    """A long table as a matrix: values, which pairs are allowed, names of tasks and servers.

    Args:
        field: What the table is read for.
        sheet: The sheet, without its header.
        columns: Positions of task, server and value.
        missing: What a pair means that has no row: ``"forbid"``, 0, or None to refuse it.

    Raises:
        InputError: If a pair stands twice, or is missing and nothing says what that means.
    """
    task, server, value = columns
    values = sheet.numbers(field, value)
    tasks, servers = (_filled_names(field, sheet, one) for one in (task, server))
    rows = numbers_of(tasks)
    places = numbers_of(servers)
    if len(rows) * len(places) > MAX_CELLS:
        raise InputError(
            Problem(
                field,
                f"{sheet.file} has {len(rows)} tasks and {len(places)} servers",
                f"at most {MAX_CELLS} pairs",
                "are the columns the right ones?",
            )
        )
    i = np.array([rows[name] for name in tasks])
    j = np.array([places[name] for name in servers])
    count = np.zeros((len(rows), len(places)), dtype=np.int64)
    np.add.at(count, (i, j), 1)
    double = np.flatnonzero(count[i, j] > 1)
    if double.size:
        first = int(double[0])
        raise InputError(
            Problem(
                field,
                f"task {tasks[first]!r}, server {servers[first]!r} has {count[i, j][first]} rows "
                f"in {sheet.file}, one in line {sheet.lines[first]}",
                "one row for each pair",
                "remove the others",
            )
        )
    names = (tuple(rows), tuple(places))
    absent = np.argwhere(count == 0)
    if len(absent) and missing is None:
        v, r = (int(n) for n in absent[0])
        raise InputError(
            Problem(
                field,
                f"no row in {sheet.file} for {counted(len(absent), 'pair')}, the first is task "
                f"{names[0][v]!r}, server {names[1][r]!r}",
                "a row for every pair",
                'write missing = "forbid" if such a pair is forbidden, missing = 0 if it scores 0',
            )
        )
    matrix = np.zeros(count.shape)
    matrix[i, j] = values
    return matrix, count > 0 if missing == "forbid" else np.ones(count.shape, np.bool_), names


def _filled_names(field: str, sheet: Sheet, column: int) -> list[str]:
    """A column of names, none of them blank.

    Raises:
        InputError: With the line of the first blank one.
    """
    names = sheet.names(column)
    blank = [i for i, name in enumerate(names) if not name.strip()]
    if blank:
        head = column if sheet.header is None else repr(sheet.header[column])
        told = f"no name in {sheet.file}, line {sheet.lines[blank[0]]}, column {head} "
        told += f"({counted(len(blank), 'such cell')})"
        remedy = "fill in the name, or remove the row if it is blank or a total"
        raise InputError(Problem(field, told, "the names of a pair in every row", remedy))
    return names


def numbers_of(names: Sequence[str]) -> dict[str, int]:
    """A number for each name, in the order in which they first appear."""
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def read_pair_list(
    field: str, sheet: Sheet, columns: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Float, tuple[tuple[str, ...], tuple[str, ...]]]:
    """A long table as lists: number of the task, of the server, value; and their names.

    Raises:
        InputError: If a pair stands twice.
    """
    values = sheet.numbers(field, columns[2])
    tasks, servers = (_filled_names(field, sheet, one) for one in columns[:2])
    rows, places = numbers_of(tasks), numbers_of(servers)
    i = np.array([rows[name] for name in tasks], dtype=np.int64)
    j = np.array([places[name] for name in servers], dtype=np.int64)
    order = np.lexsort((j, i))
    same = np.flatnonzero((np.diff(i[order]) == 0) & (np.diff(j[order]) == 0))
    if same.size:
        at = int(order[same[0] + 1])
        raise InputError(
            Problem(
                field,
                f"task {tasks[at]!r}, server {servers[at]!r} has several rows in {sheet.file}, one "
                f"in line {sheet.lines[at]}",
                "one row for each pair",
                "remove the others",
            )
        )
    return i, j, values, (tuple(rows), tuple(places))


def read_keyed(field: str, sheet: Sheet, columns: Sequence[int]) -> tuple[tuple[str, ...], Float]:
    """A table of one value per task: names and values, in the order of the file.

    Raises:
        InputError: If a task stands twice.
    """
    names, values = sheet.names(columns[0]), sheet.numbers(field, columns[1])
    seen: dict[str, int] = {}
    for name, line in zip(names, sheet.lines, strict=True):
        if name in seen:
            raise InputError(
                Problem(
                    field,
                    f"task {name!r} in lines {seen[name]} and {line} of {sheet.file}",
                    "one row for each task",
                    "remove the others",
                )
            )
        seen[name] = line
    return tuple(names), values


def read_constraints(
    field: str, sheet: Sheet, columns: Sequence[int], names: Sequence[Sequence[str]]
) -> Bool:
    """(task, server, -1 / 0 / 1) rows as a matrix of allowed pairs.

    -1 is a conflict and forbids the pair, 0 says nothing, 1 would pin it.

    Args:
        field: What the table is read for.
        sheet: The sheet, without its header.
        columns: Positions of task, server and constraint.
        names: Names of the task types and of the servers.

    Raises:
        InputError: Listing every name that is unknown; or for another value, a pin, or two
            different constraints of one pair.
    """
    values = sheet.numbers(field, columns[2])
    given = [sheet.names(columns[0]), sheet.names(columns[1])]
    lines = [f"line {line} of {sheet.file}" for line in sheet.lines]
    problems = []
    for kind, cells, known in zip(("task type", "server"), given, names, strict=True):
        where = dict(zip(reversed(cells), reversed(lines), strict=True))
        in_order = {name: where[name] for name in dict.fromkeys(cells)}
        problem = unknown_names(field, kind, in_order, known)
        problems += [problem] if problem else []
    problems += _constraint_problems(field, sheet.file, given, values, lines)
    if problems:
        raise InputError(problems)
    places = [{name: i for i, name in enumerate(one)} for one in names]
    allowed = np.ones((len(names[0]), len(names[1])), dtype=np.bool_)
    for task, server, value in zip(*given, values, strict=True):
        if value == -1:
            allowed[places[0][task], places[1][server]] = False
    return allowed


def _constraint_problems(
    field: str, file: str, given: list[list[str]], values: Float, lines: list[str]
) -> list[Problem]:
    problems = []
    odd = np.flatnonzero(~np.isin(values, (-1, 0, 1)))
    if odd.size:
        problems.append(
            Problem(
                field,
                f"{values[odd[0]]:g} in {lines[odd[0]]} ({counted(odd.size, 'such row')})",
                "-1 (conflict) or 0 (neutral)",
            )
        )
    pins = np.flatnonzero(values == 1)
    if pins.size:
        problems.append(
            Problem(
                field,
                f"pins (1) in {counted(pins.size, 'row')}, the first in {lines[pins[0]]}",
                "-1 (conflict) or 0 (neutral)",
                "a task type cannot be pinned to a server: many tasks of a type come and a server "
                "may be busy; forbid the other servers with -1 instead",
            )
        )
    seen: dict[tuple[str, str], Any] = {}
    for task, server, value in zip(*given, values, strict=True):
        if seen.setdefault((task, server), value) != value:
            problems.append(
                Problem(
                    field,
                    f"task {task!r}, server {server!r} has two constraints in {file}",
                    "one constraint for each pair",
                    "remove one of them",
                )
            )
            break
    return problems
