"""Matrices and vectors of an instance file: inline, or a reference to a file.

A reference is a table ``{file, array, index, transpose, scale, rows, columns, normalize,
forbid}``. The keys act in this order, whatever their order in the file: ``array`` picks an array
of an NPZ file, ``index`` picks along its first axis, ``forbid`` marks the pairs that hold this
value as forbidden, ``transpose`` makes rows of columns, ``scale`` multiplies, ``rows`` picks task
types and ``columns`` servers (by position from 0, or by name), ``normalize`` divides by the
largest value of an allowed pair. ``{file, task, server, value, missing}`` is a long table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.checks import number_problem, plain_array
from opportune.model.long import (
    long_columns,
    looks_long,
    read_keyed,
    read_pairs,
    refuse_numbered_pairs,
)
from opportune.model.selection import Bool, Matrix, Names, flag_of, select
from opportune.model.sources import ARRAY_FILES, read_arrays, resolve
from opportune.model.spelling import did_you_mean, unknown_keys
from opportune.model.tables import Sheet, is_text, read_sheet
from opportune.model.wide import WideReading, read_wide

ARRAY_KEYS = ("array", "index", "transpose", "rows", "columns")
NUMBER_KEYS = ("scale", "normalize")
LONG_KEYS = ("task", "server", "value", "missing")
OTHER_WORDS = {
    "path": "file",
    "key": "array",
    "name": "array",
    "sample": "index",
    "factor": "scale",
    "divide": "normalize",
    "score": "value",
    "conflict": "forbid",
    "T": "transpose",
}

SCORES, MASK = "similarity_matrix", "mask_matrix"
"""Names under which peer-review matchers exchange scores and conflicts (1 = conflict)."""


def read_matrix(field: str, value: object, base: Path, numeric: bool = True) -> Matrix:
    """A matrix: a list of rows, or a reference.

    Args:
        field: Field of the instance file.
        value: What stands there.
        base: Folder that paths are relative to.
        numeric: Whether true and false are refused, and ``scale`` and ``normalize`` known.

    Raises:
        InputError: Naming the field or file, what is wrong and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if not isinstance(value, Mapping):
        return Matrix(inline(field, value, 2))
    check_keys(field, value, (*ARRAY_KEYS, *(NUMBER_KEYS if numeric else ()), *LONG_KEYS, "forbid"))
    path = resolve(field, value.get("file"), base)
    if path.suffix.lower() in ARRAY_FILES:
        matrix = _from_arrays(field, value, path)
    else:
        sheet = read_sheet(field, path, str(value["file"]))
        if is_long(field, value, sheet):
            _refuse_keys(field, value, ARRAY_KEYS, "a long table")
            roles = {key: value.get(key) for key in ("task", "server", "value")}
            sheet, columns = long_columns(field, sheet, roles, ("task", "server", "value"))
            missing = _missing(field, value)
            values, allowed, names = read_pairs(field, sheet, columns, missing)
            matrix = Matrix(values, allowed, *names)
        else:
            matrix = from_wide(field, value, sheet)
    if matrix.values.ndim != 2:
        shape = matrix.values.shape
        raise InputError(
            Problem(
                field,
                f"{value['file']} holds an array of shape {shape}",
                "a matrix",
                f"pick one with index = 0 to {shape[0] - 1}" if len(shape) > 2 else "",
            )
        )
    return select(field, value, matrix, numeric)


def read_vector(
    field: str, value: object, base: Path, kind: str = "value"
) -> tuple[NDArray[Any], Names]:
    """One number per task type: a list, an array of a file, or a table ``{file, task, value}``.

    Args:
        field: Field of the instance file.
        value: What stands there.
        base: Folder that paths are relative to.
        kind: What the value column is called when not said (an entry of ``long.USUAL``).

    Returns:
        The numbers, and the names of the task types where the file has them.

    Raises:
        InputError: Naming the field or file, what is wrong and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if not isinstance(value, Mapping):
        return inline(field, value, 1), None
    check_keys(field, value, (*ARRAY_KEYS, *NUMBER_KEYS, "task", "value"))
    path = resolve(field, value.get("file"), base)
    if path.suffix.lower() in ARRAY_FILES:
        matrix = _from_arrays(field, value, path)
    else:
        sheet = read_sheet(field, path, str(value["file"]))
        if "task" in value or "value" in value or _looks_keyed(sheet):
            _refuse_keys(field, value, ARRAY_KEYS, "a table of one value per task")
            roles = {key: value.get(key) for key in ("task", "value")}
            sheet, columns = long_columns(field, sheet, roles, ("task", kind))
            names, numbers = read_keyed(field, sheet, columns)
            matrix = Matrix(numbers[:, None], rows=names)
        else:
            matrix = from_wide(field, value, sheet)
    if matrix.values.ndim == 1:
        matrix = replace(matrix, values=matrix.values[:, None], allowed=None)
    elif matrix.values.ndim == 2 and matrix.values.shape[1] > 1 == matrix.values.shape[0]:
        matrix = Matrix(matrix.values.T, rows=matrix.columns, columns=matrix.rows)
    if matrix.values.ndim == 2:
        matrix = select(field, value, matrix, True)
    if matrix.values.ndim != 2 or matrix.values.shape[1] != 1:
        raise InputError(
            Problem(
                field,
                f"{value['file']} gives an array of shape {matrix.values.shape}",
                "one number per task type",
                "pick one column with columns = [...] or a row with index",
            )
        )
    return matrix.values[:, 0], matrix.rows


def check_keys(field: str, value: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse keys that a reference to a file does not have.

    Raises:
        InputError: One problem for each.
    """
    problems = unknown_keys(field, value, ("file", *known), OTHER_WORDS)
    if problems:
        raise InputError(problems)


def is_long(field: str, value: Mapping[str, Any], sheet: Sheet) -> bool:
    """Whether a sheet is a long table: said by a key, or seen from its cells.

    Raises:
        InputError: If it cannot be told.
    """
    if told_long(value) or looks_long(sheet):
        return True
    if not set(value) & {"task", "server", *ARRAY_KEYS}:
        refuse_numbered_pairs(field, sheet)
    return False


def told_long(value: Mapping[str, Any]) -> bool:
    """Whether the keys of a reference say that the file is a long table.

    One of ``task`` and ``server`` alone may also be the column of names of a wide table.
    """
    names = "task" if value.get("transpose", False) is not True else "server"
    others = {"task", "server", "value", "missing"} - {names}
    return bool(others & set(value))


def _looks_keyed(sheet: Sheet) -> bool:
    if sheet.width != 2:
        return False
    body = sheet.rows if sheet.header is not None or len(sheet.rows) == 1 else sheet.rows[1:]
    header = sheet.header if sheet.header is not None else sheet.rows[0]
    return any(is_text(row[0]) for row in body) or "task" in header or "task_type" in header


def inline(field: str, value: object, dimensions: int) -> NDArray[Any]:
    """A list of numbers (1 dimension) or of rows (2) of an instance file.

    Raises:
        InputError: If it is no list, ragged, empty, or holds anything but numbers.
    """
    if not isinstance(value, list):
        wanted = "a list of rows" if dimensions == 2 else "a list, one number per task type"
        raise InputError(Problem(field, shorten(value), f"{wanted}, or a reference {{file = ...}}"))
    array = plain_array(value)
    if array.dtype != np.bool_ or field != "allowed":
        problem = number_problem(field, value)
        if problem:
            raise InputError(problem)
    if array.ndim != dimensions or array.size == 0:
        raise InputError(
            Problem(
                field,
                f"a list of shape {array.shape}",
                "rows of equal length, one per task type" if dimensions == 2 else "one list",
            )
        )
    return array


def _missing(field: str, value: Mapping[str, Any]) -> object:
    missing = value.get("missing")
    number = isinstance(missing, (int, float)) and not isinstance(missing, bool)
    if missing is None or missing == "forbid" or (number and missing == 0):
        return missing
    raise InputError(
        Problem(f"{field}.missing", shorten(missing), '"forbid" (a forbidden pair) or 0 (scores 0)')
    )


def _refuse_keys(field: str, value: Mapping[str, Any], keys: tuple[str, ...], what: str) -> None:
    given = [key for key in keys if key in value]
    if given:
        raise InputError(
            Problem(f"{field}.{given[0]}", "does not apply", f"it not to be given for {what}")
        )


def from_wide(field: str, value: Mapping[str, Any], sheet: Sheet) -> Matrix:
    """A wide sheet as the reference says, before :func:`selection.select`.

    Raises:
        InputError: If a key does not apply, or a cell is no number.
    """
    _refuse_keys(field, value, ("array", "index"), "a CSV or Parquet file")
    transposed = flag_of(field, value, "transpose")
    key, other = ("server", "task") if transposed else ("task", "server")
    _refuse_keys(field, value, (other, "missing"), "a wide table (one column each)")
    names = value.get(key)
    if names is not None and (isinstance(names, bool) or not isinstance(names, (str, int))):
        raise InputError(
            Problem(f"{field}.{key}", shorten(names), "the name or the position of a column")
        )
    picked = value.get("rows" if transposed else "columns")
    by_name = isinstance(picked, list) and all(isinstance(one, str) for one in picked)
    reading = WideReading(names, key, tuple(picked) if by_name and picked else None)
    values, rows, columns = read_wide(field, sheet, reading)
    return Matrix(values, rows=rows, columns=columns)


def _from_arrays(field: str, value: Mapping[str, Any], path: Path) -> Matrix:
    _refuse_keys(field, value, LONG_KEYS, "an array file")
    file, name = str(value["file"]), value.get("array")
    if name is not None and not isinstance(name, str):
        raise InputError(Problem(f"{field}.array", shorten(name), "the name of an array"))
    if path.suffix.lower() == ".npy" and name is not None:
        raise InputError(
            Problem(f"{field}.array", shorten(name), "no name: an NPY file holds one array")
        )

    def choose(found: list[str]) -> list[str]:
        picked = name
        if picked is None and len(found) > 1 and SCORES in found and field == "match_reward":
            picked = SCORES
        if picked is None and len(found) == 1:
            picked = found[0]
        if picked is None or picked not in found:
            told, remedy = f"{file} holds several arrays", "write array = '...'"
            if name is not None:
                told, remedy = f"{file} has no array {name!r}", did_you_mean(name, found)
            raise InputError(
                Problem(
                    f"{field}.array",
                    f"{told} (arrays found: {', '.join(found) or 'none'})",
                    "the name of one of them",
                    remedy,
                )
            )
        with_mask = picked == SCORES and MASK in found and field == "match_reward"
        return [picked, MASK] if with_mask else [picked]

    arrays = read_arrays(field, path, file, choose)
    mask = arrays.pop(MASK, None) if len(arrays) > 1 else None
    values = next(iter(arrays.values()))
    allowed = None if mask is None else _no_conflict(field, file, mask, values)
    if "index" in value:
        place = value["index"]
        whole = isinstance(place, int) and not isinstance(place, bool)
        if not whole or not values.ndim or not 0 <= place < len(values):
            found = len(values) - 1 if values.ndim else -1
            raise InputError(
                Problem(f"{field}.index", shorten(place), f"a whole number from 0 to {found}")
            )
        values = values[place]
        allowed = None if allowed is None else allowed[place]
    return Matrix(values, allowed)


def _no_conflict(field: str, file: str, mask: NDArray[Any], scores: NDArray[Any]) -> Bool:
    if mask.shape != scores.shape or not np.isin(mask, (0, 1)).all():
        raise InputError(
            Problem(
                field,
                f"{MASK} of {file} has shape {mask.shape} and entries other than 0 and 1"
                if mask.shape == scores.shape
                else f"{MASK} of {file} has shape {mask.shape}",
                f"0 (no conflict) and 1 (conflict), in the shape of {SCORES}, {scores.shape}",
            )
        )
    return np.asarray(mask == 0)
