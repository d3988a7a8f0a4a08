"""CSV and Parquet files as sheets of cells, with every oddity told by line.

A sheet is rows of cells; whether its first row is a header is for the reader of its content to
say (``wide``, ``long``). Files are UTF-8, separated by commas, with decimal points; a semicolon
or tab file is refused with a hint, never guessed at.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, MissingExtraError, Problem, shorten
from opportune.model.numerals import decimal_number
from opportune.model.sources import read_text
from opportune.model.spelling import counted, did_you_mean

Float = NDArray[np.float64]
Cell = Any
"""A cell: text from a CSV file, a Python value from a Parquet file; empty is ``""``."""

LAZY_FORMATS = {".parquet": ("opportune.model.parquet", "pyarrow", "parquet")}
"""Suffix -> module that reads it, package it needs, extra that installs it."""

WORDS = {"true": 1.0, "false": 0.0}
DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")


@dataclass(frozen=True)
class Sheet:
    """Rows of cells.

    Attributes:
        file: Name of the file as the user wrote it.
        header: Column names, None while not known to be there.
        rows: The rows, all of one length.
        lines: Line of the file of each row, for messages.
    """

    file: str
    header: tuple[str, ...] | None
    rows: list[list[Cell]]
    lines: list[int]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0]) if self.rows else len(self.header or ())

    def with_header(self, field: str) -> Sheet:
        """The sheet with its first row as header.

        Raises:
            InputError: If two columns have one name, or no rows are left.
        """
        header = self.header
        rows, lines = self.rows, self.lines
        if header is None:
            header, rows, lines = tuple(map(str, rows[0])), rows[1:], lines[1:]
        double = [name for i, name in enumerate(header) if name in header[:i]]
        if double:
            raise InputError(
                Problem(field, f"{self.file} has two columns {double[0]!r}", "every name once")
            )
        if not rows:
            raise InputError(
                Problem(field, f"{self.file} has a header and no rows", "at least one row")
            )
        return replace(self, header=header, rows=rows, lines=lines)

    def column(self, field: str, key: str, name: str | int) -> int:
        """Position of a column given by name or position.

        Raises:
            InputError: With the file, the missing column and the columns found.
        """
        if isinstance(name, int):
            if 0 <= name < self.width:
                return name
            found = f"it has {self.width} columns, 0 to {self.width - 1}"
        elif self.header is None:
            found = "it has no header; give the column's position, from 0"
        elif name in self.header:
            return self.header.index(name)
        else:
            found = "columns found: " + (", ".join(map(repr, self.header)))
        hint = did_you_mean(str(name), self.header or ())
        raise InputError(
            Problem(
                field,
                f"{self.file} has no column {name!r} ({found})",
                f"a column for '{key}'",
                hint or f"name the column: {key} = '...'",
            )
        )

    def numbers(self, field: str, column: int) -> Float:
        """A column as numbers, NaN where a cell is empty.

        Raises:
            InputError: With the line of the first cell that is no number, and how many there are.
        """
        return self.matrix(field, [column])[:, 0]

    def matrix(self, field: str, columns: Sequence[int]) -> Float:
        """Columns as a matrix of numbers, true as 1, false as 0, NaN where a cell is empty.

        Raises:
            InputError: With the line of the first cell that is no number, and how many there are.
        """
        values = np.empty((len(self.rows), len(columns)))
        bad: list[tuple[int, int]] = []
        for i, row in enumerate(self.rows):
            for j, column in enumerate(columns):
                value = _value(row[column])
                if value is None:
                    bad.append((i, column))
                else:
                    values[i, j] = value
        if bad:
            i, column = bad[0]
            name = repr(self.header[column]) if self.header is not None else column
            cell = self.rows[i][column]
            raise InputError(
                Problem(
                    field,
                    f"{shorten(cell)} in {self.file}, line {self.lines[i]}, column {name} "
                    f"({counted(len(bad), 'such cell')})",
                    "numbers with a decimal point, separated by commas",
                    _cell_remedy(cell),
                )
            )
        return values

    def names(self, column: int) -> list[str]:
        """A column as text, exactly as written."""
        return [str(row[column]) for row in self.rows]


def number(cell: Cell) -> float | None:
    """The cell as a number, None if it is none (or empty)."""
    if isinstance(cell, str):
        return decimal_number(cell)
    if isinstance(cell, (bool, int, float)):
        return float(cell)
    return None


def is_text(cell: Cell) -> bool:
    """Whether the cell holds something that is neither a number nor true or false."""
    return not is_empty(cell) and _value(cell) is None


def is_empty(cell: Cell) -> bool:
    """Whether the cell holds nothing, or blanks only."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _value(cell: Cell) -> float | None:
    if is_empty(cell):
        return math.nan
    value = number(cell)
    if value is None and isinstance(cell, str):
        return WORDS.get(cell.strip().lower())
    return value


def _cell_remedy(cell: Cell) -> str:
    if ";" in str(cell) or "\t" in str(cell):
        return "this looks like a file separated by semicolons or tabs; save it with commas"
    if DECIMAL_COMMA.fullmatch(str(cell)):
        return "save it with decimal points"
    return "correct the cell; a missing number is an empty cell"


def read_sheet(field: str, path: Path, file: str) -> Sheet:
    """The rows of a CSV or Parquet file; a Parquet file has its header.

    Raises:
        InputError: If the file is unreadable, empty, ragged or separated by other than commas.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    suffix = path.suffix.lower()
    if suffix not in LAZY_FORMATS:
        return _read_csv(field, path, file)
    module_name, package, extra = LAZY_FORMATS[suffix]
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise MissingExtraError(package, extra, f"reading {file}") from error
    try:
        names, rows = module.read_rows(path)
    except module.ERRORS as error:
        raise InputError(
            Problem(field, f"{file}: {shorten(error, 120)}", f"a {suffix[1:]} file")
        ) from error
    rows = [["" if cell is None else cell for cell in row] for row in rows]
    return Sheet(file, tuple(names), rows, list(range(1, len(rows) + 1))).with_header(field)


def _read_csv(field: str, path: Path, file: str) -> Sheet:
    text = read_text(field, path, file)
    first = next((line for line in text.splitlines() if line.strip()), "")
    outside = re.sub(r'"[^"]*"', "", first)
    for mark, word in ((";", "semicolons"), ("\t", "tabs")):
        if mark in outside:
            raise InputError(
                Problem(
                    field,
                    f"{file} is separated by {word}",
                    "commas between cells, points in decimal numbers",
                    "save it as comma-separated CSV; a name with such a character needs quotes",
                )
            )
    rows, lines = [], []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row and not (len(row) == 1 and is_empty(row[0])):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(
            Problem(field, f"{file}, line {reader.line_num}: {error}", "comma-separated cells")
        ) from error
    while rows and all(is_empty(cell) for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise InputError(Problem(field, f"{file} is empty", "at least one row"))
    lines = lines[: len(rows)]
    _refuse_ragged(field, file, rows, lines)
    width = len(rows[0])
    while width > 1 and all(is_empty(row[width - 1]) for row in rows):
        width -= 1
    return Sheet(file, None, [row[:width] for row in rows], lines)


def _refuse_ragged(field: str, file: str, rows: list[list[Cell]], lines: list[int]) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            raise InputError(
                Problem(
                    field,
                    f"{file}, line {line} has {len(row)} cells",
                    f"{len(rows[0])} cells, as in line {lines[0]}",
                    "a comma inside a name or number needs quotes around the cell",
                )
            )
