"""The key ``server_duration`` of an instance file: durations that depend on the server as well.

``{kind = "geometric", mean = M}`` or ``{kind = "deterministic", steps = M}``, M a matrix (rows or
a reference to a file), or ``{kind = "empirical", file, task, server, steps, weight, per_step,
too_short}``: past tasks, or a histogram, by task type and server. A pair that the file does not
have takes the type's ``duration``. ``{laws = [...], which = M}`` lists durations, and says by
position which of them a pair has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.duration import Deterministic, Duration, Geometric
from opportune.model.duration_entry import read_duration
from opportune.model.duration_files import read_pair_duration_file
from opportune.model.references import read_matrix
from opportune.model.server_durations import ServerDurations, server_durations
from opportune.model.servers import Groups
from opportune.model.spelling import positions, unknown_keys, unknown_names

FIELD = "server_duration"
KEYS = {
    "deterministic": ("steps",),
    "geometric": ("mean",),
    "empirical": ("file", "task", "server", "steps", "weight", "per_step", "too_short"),
}
WORDS = {"value": "steps", "type": "task", "agent": "server", "unit": "per_step"}


def read_server_durations(
    value: object, base: Path, own: tuple[Duration, ...], names: tuple[Sequence[str], Groups]
) -> ServerDurations:
    """The laws of all pairs.

    Args:
        value: What stands in the instance file.
        base: Folder that its paths are relative to.
        own: (V,) the types' own durations.
        names: Task types, and the rows of servers.

    Raises:
        InputError: Naming the key or file, what is wrong and what to change.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if isinstance(value, Mapping) and "laws" in value:
        return _from_laws(value, base, names)
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(kind, str) or kind not in KEYS:
        told = "a table with kind = one of " + ", ".join(KEYS)
        raise InputError(Problem(f"{FIELD}.kind" if kind else FIELD, shorten(kind or value), told))
    problems = unknown_keys(FIELD, value, ("kind", *KEYS[kind]), WORDS)
    key = KEYS[kind][0]
    if key not in value:
        problems.append(Problem(f"{FIELD}.{key}", "missing", f"'{key}' of {kind} durations"))
    if problems:
        raise InputError(problems)
    if kind == "empirical":
        return _from_file(value, base, own, names)
    return _from_matrix(f"{FIELD}.{key}", value[key], base, (kind, names))


def _from_laws(
    value: Mapping[str, Any], base: Path, names: tuple[Sequence[str], Groups]
) -> ServerDurations:
    problems = unknown_keys(FIELD, value, ("laws", "which"), WORDS)
    given = value["laws"]
    if not isinstance(given, list) or not given:
        problems.append(Problem(f"{FIELD}.laws", shorten(given), "a list of durations"))
    if "which" not in value:
        problems.append(Problem(f"{FIELD}.which", "missing", "the key 'which'"))
    if problems:
        raise InputError(problems)
    laws = tuple(read_duration(f"{FIELD}.laws[{i}]", one, base) for i, one in enumerate(given))
    places = _aligned(f"{FIELD}.which", value["which"], base, names)
    if not bool(np.all(places == np.floor(places))):
        raise InputError(Problem(f"{FIELD}.which", "a broken number", "positions from 0"))
    return ServerDurations(laws, places.astype(np.int64)[:, names[1].columns])


def _from_matrix(
    field: str, value: object, base: Path, told: tuple[str, tuple[Sequence[str], Groups]]
) -> ServerDurations:
    kind, names = told
    means = _aligned(field, value, base, names)
    different, which = np.unique(means, return_inverse=True)
    laws: list[Duration] = []
    for mean in different.tolist():
        v, r = (int(i) for i in np.argwhere(~(means != mean))[0]) if mean == mean else (0, 0)
        try:
            whole = int(mean) if mean == np.floor(mean) else mean
            laws.append(Geometric(mean) if kind == "geometric" else Deterministic(whole))
        except (InputError, OverflowError, ValueError) as error:
            expected = "a number of steps, at least 1"
            if kind == "deterministic":
                expected = "a whole number of steps, at least 1"
            raise InputError(Problem(f"{field}[{v},{r}]", f"{mean:g}", expected)) from error
    return ServerDurations(tuple(laws), which.reshape(means.shape)[:, names[1].columns])


def _aligned(
    field: str, value: object, base: Path, names: tuple[Sequence[str], Groups]
) -> NDArray[np.float64]:
    """A matrix in the order of the task types and of the rows of servers."""
    task_types, groups = names
    matrix = read_matrix(field, value, base)
    values = np.asarray(matrix.values, dtype=np.float64)
    if matrix.rows is not None and values.shape[0] == len(task_types):
        values = values[positions(field, "task type", matrix.rows, task_types)]
    if matrix.columns is not None and values.shape[1] == len(groups.names):
        values = values[:, positions(field, "server", matrix.columns, groups.names)]
    shape = (len(task_types), len(groups.names))
    if values.shape != shape:
        raise InputError(Problem(field, f"shape {values.shape}", f"types by servers, {shape}"))
    return values


def _from_file(
    value: Mapping[str, Any],
    base: Path,
    own: tuple[Duration, ...],
    names: tuple[Sequence[str], Groups],
) -> ServerDurations:
    task_types, groups = names
    found = read_pair_duration_file(FIELD, value, base)
    problems = []
    for kind, given, known in (
        ("task type", [task for task, _ in found], list(task_types)),
        ("server", [server for _, server in found], [*groups.names, *groups.servers]),
    ):
        problem = unknown_names(FIELD, kind, dict.fromkeys(given, f"in {value['file']}"), known)
        problems += [problem] if problem else []
    if problems:
        raise InputError(problems)
    row = {name: v for v, name in enumerate(task_types)}
    place: dict[str, list[int]] = {name: [r] for r, name in enumerate(groups.servers)}
    for r, column in enumerate(groups.columns):
        if groups.counts[column] is not None:
            place.setdefault(groups.names[column], []).append(r)
    others = {(row[task], r): law for (task, server), law in found.items() for r in place[server]}
    return server_durations(own, others, len(groups.servers))
