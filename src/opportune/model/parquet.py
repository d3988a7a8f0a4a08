"""Read a Parquet file into rows. Needs the extra ``parquet``; reached only by ``tables``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

ERRORS = (pyarrow.ArrowException, OSError, ValueError)
"""What reading a file that is no Parquet may raise."""

INDEX = "__index_level_0__"
"""Name that data frames give an unnamed index; they put it last, we first and without a name."""


def read_rows(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Column names, and the rows as lists of Python values (None where a value is missing).

    Decimal numbers of a database come as floats, text that was stored as bytes as text.
    """
    table = pyarrow.parquet.read_table(path)
    names = list(table.column_names)
    columns = [_values(column) for column in table.columns]
    if INDEX in names:
        place = names.index(INDEX)
        names.insert(0, "")
        del names[place + 1]
        columns.insert(0, columns.pop(place))
    return names, [list(row) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    if pyarrow.types.is_binary(column.type) or pyarrow.types.is_large_binary(column.type):
        column = column.cast(pyarrow.string())
    values: list[Any] = column.to_pylist()
    if pyarrow.types.is_decimal(column.type):
        return [None if value is None else float(value) for value in values]
    return values
