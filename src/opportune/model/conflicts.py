"""Which pairs are allowed: a matrix of true and false, or a constraints file.

A constraints file has rows ``task,server,constraint`` with -1 for a conflict and 0 for none.
A 1, which in other tools pins a task to a server, is refused: a type's tasks keep coming, and the
one server may be busy. Names are compared exactly; every unknown one is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from opportune.model.long import long_columns, looks_long, read_constraints
from opportune.model.references import (
    ARRAY_KEYS,
    check_keys,
    from_wide,
    inline,
    read_matrix,
    told_long,
)
from opportune.model.selection import Bool, Matrix, select
from opportune.model.sources import ARRAY_FILES, resolve
from opportune.model.spelling import positions
from opportune.model.tables import Sheet, is_text, read_sheet

FIELD = "allowed"


def read_allowed(value: object, base: Path, names: Sequence[Sequence[str]] | None) -> Bool | None:
    """The (V, R) matrix of allowed pairs.

    Args:
        value: What stands in the instance file under ``allowed``.
        base: Folder that paths are relative to.
        names: Names of the task types and of the servers (groups unexpanded), None if not known
            because the rewards could not be read: then only the file itself is checked.

    Returns:
        The matrix as it was read (0 and 1 or bool), None if ``names`` is needed and not known.

    Raises:
        InputError: Naming the file and every unknown name.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if not isinstance(value, Mapping):
        return inline(FIELD, value, 2)
    check_keys(FIELD, value, (*ARRAY_KEYS, "task", "server", "value", "forbid"))
    path = resolve(FIELD, value.get("file"), base)
    if path.suffix.lower() in ARRAY_FILES:
        return _marked(read_matrix(FIELD, value, base, numeric=False), names)
    sheet = read_sheet(FIELD, path, str(value["file"]))
    if not _is_constraints(value, sheet, names):
        matrix = select(FIELD, value, from_wide(FIELD, value, sheet), numeric=False)
        return _marked(matrix, names)
    only_header = len(sheet.rows) == 1 and sheet.width == 3 and is_text(sheet.rows[0][2])
    if only_header and sheet.header is None:  # no conflict at all
        return None if names is None else np.ones((len(names[0]), len(names[1])), dtype=np.bool_)
    roles = {key: value.get(key) for key in ("task", "server", "value")}
    sheet, columns = long_columns(FIELD, sheet, roles, ("task", "server", "constraint"))
    return None if names is None else read_constraints(FIELD, sheet, columns, names)


def _marked(matrix: Matrix, names: Sequence[Sequence[str]] | None) -> Bool:
    """The entries, or what ``forbid`` leaves of them, in the order of the instance's names."""
    values = matrix.values if matrix.allowed is None else matrix.allowed
    if names is not None and matrix.rows is not None and len(matrix.rows) == len(names[0]):
        values = values[positions(FIELD, "task type", matrix.rows, names[0])]
    if names is not None and matrix.columns is not None and len(matrix.columns) == len(names[1]):
        values = values[:, positions(FIELD, "server", matrix.columns, names[1])]
    return values


def _is_constraints(
    value: Mapping[str, object], sheet: Sheet, names: Sequence[Sequence[str]] | None
) -> bool:
    """Whether a sheet has rows of pairs: said by a key, or seen from its cells and its shape."""
    if told_long(value) or looks_long(sheet):
        return True
    if sheet.width != 3 or set(value) & {"task", "server", *ARRAY_KEYS}:
        return False
    if names is None:
        return True
    headed = sheet.header is None and any(is_text(cell) for cell in sheet.rows[0])
    body = sheet.rows[1:] if headed else sheet.rows
    n_servers = len(names[1])
    if len(body) != len(names[0]) or n_servers not in (2, 3):
        return True
    flags = [str(cell).strip().lower() for row in body for cell in row[3 - n_servers :]]
    return not set(flags) <= {"0", "1", "true", "false"}
