"""A sheet as a matrix: one row per task type, one column per server (or transposed).

A header and a leading column of names are tolerated. Whether they are there is seen from the
cells, and where the cells leave it open the file is refused with the key that settles it:
``task = "<name column>"`` (``server = ...`` for a transposed file), or a list of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opportune.errors import InputError, Problem, shorten
from opportune.model.tables import Cell, Float, Sheet, is_empty, is_text, number

CORNERS = {"", "task", "task_type", "type", "server", "name", "id"}
"""What the first cell of a header over a column of names is often called."""


@dataclass(frozen=True)
class WideReading:
    """How a sheet is to be read.

    Attributes:
        names: Column (name or position) that holds the names of the rows, None if not said.
        key: The key that says so, for messages.
        picked: Columns that will be picked by name, None if not said.
    """

    names: str | int | None = None
    key: str = "task"
    picked: tuple[str, ...] | None = None


def read_wide(
    field: str, sheet: Sheet, reading: WideReading
) -> tuple[Float, tuple[str, ...] | None, tuple[str, ...] | None]:
    """Values, row names and column names (None where the file has none) of a sheet.

    Raises:
        InputError: If a cell is no number, or it cannot be told what is a name.
    """
    if sheet.header is None and _has_header(field, sheet, reading):
        sheet = sheet.with_header(field)
    column = _names_column(field, sheet, reading)
    others = [c for c in range(sheet.width) if c != column]
    if not others:
        raise InputError(
            Problem(field, f"{sheet.file} has names and no numbers", "at least one more column")
        )
    values = sheet.matrix(field, others)
    rows = None if column is None else tuple(sheet.names(column))
    columns = None if sheet.header is None else tuple(sheet.header[c] for c in others)
    return values, rows, columns


def _has_header(field: str, sheet: Sheet, reading: WideReading) -> bool:
    first = sheet.rows[0]
    if isinstance(reading.names, str) or reading.picked is not None:
        return True
    if any(is_text(cell) for cell in first[1:]):
        _refuse_misspelled(field, sheet, reading)
        return True
    corner, rest = first[0], first[1:]
    if not rest:
        return is_text(corner)
    if is_empty(corner):
        return all(_is_whole(cell) for cell in rest)
    if not is_text(corner):
        return False
    if str(corner).strip().lower() in CORNERS:
        return True
    if len(rest) >= 3 and _counts_up(rest):
        raise InputError(
            Problem(
                field,
                f"the first line of {sheet.file} may be a header or scores",
                "a header whose first cell is empty or 'task'",
                f'if it is a header, write {reading.key} = "{corner}"',
            )
        )
    return False


def _names_column(field: str, sheet: Sheet, reading: WideReading) -> int | None:
    if reading.names is not None:
        return sheet.column(field, reading.key, reading.names)
    first = [row[0] for row in sheet.rows]
    if sheet.header is not None and is_empty(sheet.header[0]) and sheet.width > 1:
        return 0
    if any(is_text(cell) for cell in first):
        _refuse_mixed(field, sheet, reading)
        return 0
    if sheet.header is None or sheet.width == 1:
        return None
    if reading.picked is not None:
        return None
    name = sheet.header[0]
    numbered = len(first) >= 2 and all(map(_is_whole, first)) and len(set(first)) == len(first)
    if numbered and (_counts_up(first) or not _all_whole(sheet)):
        raise InputError(
            Problem(
                field,
                f"the column {name!r} of {sheet.file} may hold names or numbers",
                "to be told which",
                f'if it holds names, write {reading.key} = "{name}"; otherwise list all columns '
                "that hold numbers",
            )
        )
    return None


def _refuse_mixed(field: str, sheet: Sheet, reading: WideReading) -> None:
    """Refuse a first column of text and numbers: names, or scores of which some are misspelled.

    Not if its header says that it holds names.
    """
    headed = sheet.header is not None and str(sheet.header[0]).strip().lower() in CORNERS
    numbers = [number(row[0]) is not None for row in sheet.rows]
    if headed or not any(numbers):
        return
    i = next(i for i, row in enumerate(sheet.rows) if is_text(row[0]))
    told = f"{shorten(sheet.rows[i][0])} in line {sheet.lines[i]}, first column of {sheet.file}"
    name = 0 if sheet.header is None else f'"{sheet.header[0]}"'
    remedy = f"correct the cell; if the column holds names, write {reading.key} = {name}"
    raise InputError(Problem(field, told, "a number, as in other rows of this column", remedy))


def _refuse_misspelled(field: str, sheet: Sheet, reading: WideReading) -> None:
    """Refuse a first line of names and of numbers that are no counts: scores, one misspelled."""
    first = sheet.rows[0]
    if any(number(cell) is not None and not _is_whole(cell) for cell in first):
        odd = next(cell for cell in first[1:] if is_text(cell))
        told = f"{shorten(odd)} in line {sheet.lines[0]} of {sheet.file}, beside numbers"
        remedy = "correct the cell; a header has no decimal numbers, unless columns = [...] says so"
        raise InputError(Problem(field, told, "a header or scores", remedy))


def _is_whole(cell: Cell) -> bool:
    value = number(cell)
    return value is not None and bool(np.isfinite(value)) and value == int(value)


def _counts_up(cells: Sequence[Cell]) -> bool:
    """Whether the cells are 0, 1, 2, ... or 1, 2, 3, ...: numbers for counting, not scores."""
    values = [number(cell) for cell in cells]
    return values[0] in (0.0, 1.0) and values == [values[0] + i for i in range(len(values))]


def _all_whole(sheet: Sheet) -> bool:
    return all(_is_whole(cell) for row in sheet.rows for cell in row[1:])
