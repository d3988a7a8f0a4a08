"""From a description of a queue (what a TOML file holds) to a :class:`QueueInstance`.

``contexts`` and ``outcomes`` (or ``weight``) are lists of rows or references: ``{file, columns}``
to a CSV or Parquet file with a header, ``{file, array}`` to an NPZ file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.queue import QueueInstance
from opportune.model.queue_pool import PoolOptions, queue_from_data
from opportune.model.references import inline
from opportune.model.sources import ARRAY_FILES, read_arrays, resolve
from opportune.model.spelling import did_you_mean, unknown_keys
from opportune.model.tables import read_sheet

OPTION_KEYS = (
    "feedback",
    "arrival_rate",
    "load",
    "threshold",
    "standardize",
    "intercept",
    "slack",
    "curvature",
    "servers",
    "horizon",
    "name",
)
KEYS = ("contexts", "outcomes", "weight", *OPTION_KEYS)
OTHER_WORDS = {
    "context": "contexts",
    "features": "contexts",
    "outcome": "outcomes",
    "rewards": "outcomes",
    "scores": "outcomes",
    "weights": "weight",
    "theta": "weight",
    "lambda": "arrival_rate",
    "rate": "arrival_rate",
    "epsilon": "slack",
    "kappa": "curvature",
    "T": "horizon",
    "steps": "horizon",
}


def read_queue(
    data: Mapping[str, Any], base: Path, name: str, chosen: Mapping[str, Any] | None = None
) -> QueueInstance:
    """The queue instance that a description stands for.

    Args:
        data: What an instance file holds.
        base: Folder that its paths are relative to.
        name: Name of the instance if the description has none.
        chosen: Keys that replace those of the description; a load replaces its arrival rate and
            the other way round.

    Raises:
        InputError: Naming the key, what is wrong and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    problems = unknown_keys("", data, KEYS, OTHER_WORDS)
    if "contexts" not in data:
        problems.append(Problem("contexts", "missing", "the key 'contexts' in the instance file"))
    if problems:
        raise InputError(problems)
    chosen = {} if chosen is None else chosen
    pair = {"arrival_rate", "load"}
    given = {key: data[key] for key in OPTION_KEYS if key in data}
    if pair & set(chosen):
        given = {key: value for key, value in given.items() if key not in pair}
    given = {"name": name, **given, **chosen}
    names: tuple[str, ...] | None = None
    outcomes = weight = None
    contexts, _ = _matrix("contexts", data["contexts"], base)
    if "outcomes" in data:
        outcomes, names = _matrix("outcomes", data["outcomes"], base)
    if "weight" in data:
        weight, _ = _matrix("weight", data["weight"], base)
    if "servers" in given:
        servers = given["servers"]
        if not isinstance(servers, list):
            raise InputError(Problem("servers", shorten(servers), "a list of names"))
        given["servers"] = tuple(servers)
    elif names is not None:
        given["servers"] = names
    return queue_from_data(contexts, outcomes, weight, PoolOptions(**given))


def _matrix(field: str, value: object, base: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows, and the names of the columns where the file has them."""
    if not isinstance(value, Mapping):
        return inline(field, value, 2), None
    problems = unknown_keys(field, value, ("file", "columns", "array"), {"key": "array"})
    if problems:
        raise InputError(problems)
    path = resolve(field, value.get("file"), base)
    file = str(value["file"])
    if path.suffix.lower() in ARRAY_FILES:
        return _array(field, value, path), None
    sheet = read_sheet(field, path, file).with_header(field)
    columns = value.get("columns", list(sheet.header or ()))
    texts = isinstance(columns, list) and all(isinstance(one, str) for one in columns)
    if not texts or not columns or "array" in value:
        told = shorten(columns) if not texts or not columns else "array given"
        expected = "columns = [...], names of columns of the file"
        raise InputError(Problem(f"{field}.columns", told, expected))
    places = [sheet.column(field, name, name) for name in columns]
    return sheet.matrix(field, places), tuple(columns)


def _array(field: str, value: Mapping[str, Any], path: Path) -> NDArray[Any]:
    file, name = str(value["file"]), value.get("array")
    if "columns" in value:
        told = "give array = '...' alone for an array file"
        raise InputError(Problem(f"{field}.columns", "does not apply", told))

    def choose(found: list[str]) -> list[str]:
        picked = found[0] if name is None and len(found) == 1 else name
        if picked not in found:
            told = f"{file} holds the arrays {', '.join(found) or 'none'}"
            remedy = did_you_mean(str(name), found) or "write array = '...'"
            raise InputError(Problem(f"{field}.array", told, "the name of one of them", remedy))
        return [str(picked)]

    array = next(iter(read_arrays(field, path, file, choose).values()))
    if array.ndim != 2:
        raise InputError(Problem(field, f"{file}: shape {array.shape}", "a matrix"))
    return np.asarray(array)
