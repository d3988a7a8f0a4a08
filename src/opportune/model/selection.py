"""What was read of a file: picked, scaled and marked as the reference says.

The keys act in the order ``forbid``, ``transpose``, ``scale``, ``rows``, ``columns``,
``normalize``, whatever their order in the instance file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.checks import number_problem
from opportune.model.spelling import did_you_mean

Bool = NDArray[np.bool_]
Names = tuple[str, ...] | None


@dataclass(frozen=True)
class Matrix:
    """What was read: values (V, R), which pairs are allowed, and names where the file has them."""

    values: NDArray[Any]
    allowed: Bool | None = None
    rows: Names = None
    columns: Names = None


def select(field: str, value: Mapping[str, Any], matrix: Matrix, numeric: bool) -> Matrix:
    """Apply ``forbid``, ``transpose``, ``scale``, ``rows``, ``columns`` and ``normalize``.

    Raises:
        InputError: If one of them is not what it has to be.
    """
    values, allowed = matrix.values, matrix.allowed
    rows, columns = matrix.rows, matrix.columns
    if numeric or values.dtype != np.bool_:
        problem = number_problem(field, values)
        if problem:
            raise InputError(problem)
    if "forbid" in value:
        marked = number_of(field, value, "forbid")
        free = np.asarray(values != marked)
        allowed = free if allowed is None else allowed & free
    if numeric:
        values = values.astype(np.float64)
    if flag_of(field, value, "transpose"):
        values, allowed = values.T, None if allowed is None else allowed.T
        rows, columns = columns, rows
    if "scale" in value:
        values = values * number_of(field, value, "scale")
    if "rows" in value:
        pick = _pick(f"{field}.rows", value["rows"], rows, values.shape[0])
        values, allowed = values[pick], None if allowed is None else allowed[pick]
        rows = None if rows is None else tuple(rows[i] for i in pick)
    if "columns" in value:
        pick = _pick(f"{field}.columns", value["columns"], columns, values.shape[1])
        values, allowed = values[:, pick], None if allowed is None else allowed[:, pick]
        columns = None if columns is None else tuple(columns[i] for i in pick)
    if flag_of(field, value, "normalize"):
        read = values if allowed is None else values[allowed]
        most = float(np.max(read[np.isfinite(read)], initial=0.0))
        if not most > 0:
            raise InputError(
                Problem(f"{field}.normalize", "the largest value is 0", "a positive one")
            )
        values = values / most
    return Matrix(values, allowed, rows, columns)


def number_of(field: str, value: Mapping[str, Any], key: str) -> float:
    """A number of a reference.

    Raises:
        InputError: If it is no finite number.
    """
    number = value[key]
    if (
        isinstance(number, bool)
        or not isinstance(number, (int, float))
        or not np.isfinite(float(number))
    ):
        raise InputError(Problem(f"{field}.{key}", shorten(number), "a finite number"))
    return float(number)


def _pick(field: str, wanted: object, names: Names, n: int) -> list[int]:
    if not isinstance(wanted, list) or not wanted:
        raise InputError(Problem(field, shorten(wanted), "a list of positions or names"))
    places, problems = [], []
    for one in wanted:
        if isinstance(one, str) and names is not None and one in names:
            places.append(names.index(one))
        elif isinstance(one, int) and not isinstance(one, bool) and 0 <= one < n:
            places.append(one)
        elif isinstance(one, str):
            found = "the file has no names here" if names is None else did_you_mean(one, names)
            problems.append(Problem(field, repr(one), "a name in the file", found))
        else:
            problems.append(
                Problem(field, shorten(one), f"a position from 0 to {n - 1}, or a name")
            )
    double = [one for i, one in enumerate(places) if one in places[:i]]
    if double:
        problems.append(Problem(field, f"{double[0]} twice", "every row or column once"))
    if problems:
        raise InputError(problems)
    return places


def flag_of(field: str, value: Mapping[str, Any], key: str) -> bool:
    """A key that is true or false, false when not given.

    Raises:
        InputError: If it is anything else.
    """
    flag = value.get(key, False)
    if not isinstance(flag, bool):
        raise InputError(Problem(f"{field}.{key}", shorten(flag), "true or false"))
    return flag
