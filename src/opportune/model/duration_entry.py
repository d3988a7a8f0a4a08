"""The ``duration`` of an instance file: one, one per task type, or a file of them.

Inline ``{kind = "deterministic", steps = 2}``, ``{kind = "geometric", mean = 10}`` or
``{kind = "empirical", steps = [1, 2], weight = [3, 1]}``; a list of these, or a table of these by
the name of the type. From a file ``{kind = "empirical", file, steps, weight, task, per_step,
too_short}``: with ``weight`` a histogram, without it one duration per row. ``steps``, ``weight``
and ``task`` name columns; ``per_step`` is how many of the file's units make one step (30 for
seconds in a file and steps of 30 s). Durations are rounded up to whole steps. Zero and negative
ones are refused, with their count, unless ``too_short = "one-step"`` makes them one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opportune.errors import InputError, Problem, shorten
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.duration_files import ALL_TYPES, read_duration_file
from opportune.model.spelling import did_you_mean, positions, unknown_keys

FIELD = "duration"
KEYS = {
    "deterministic": ("steps",),
    "geometric": ("mean",),
    "empirical": ("file", "steps", "weight", "task", "per_step", "too_short"),
}
OTHER_WORDS = {"rate": "mean", "value": "steps", "type": "task", "unit": "per_step"}
Durations = tuple[Duration, ...]


def read_durations(value: object, base: Path, task_types: Sequence[str] | None) -> Durations:
    """One duration per task type.

    Args:
        value: What stands in the instance file under ``duration``.
        base: Folder that paths are relative to.
        task_types: Names of the types, None if not known because the rewards could not be
            read: then what can be checked without them is checked, and any number returned.

    Raises:
        InputError: Naming every duration that is wrong.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if isinstance(value, list):
        problems: list[Problem] = []
        found: list[Duration] = []
        for i, item in enumerate(value):
            try:
                found.append(read_duration(f"{FIELD}[{i}]", item, base))
            except InputError as error:
                problems += error.problems
        if task_types is not None and len(value) != len(task_types):
            problems.append(
                Problem(FIELD, f"{len(value)} given", f"one, or one per type ({len(task_types)})")
            )
        if problems:
            raise InputError(problems)
        return tuple(found)
    if isinstance(value, Mapping) and "kind" not in value and value:
        if all(isinstance(item, Mapping) for item in value.values()):
            return _by_name(value, base, task_types)
        raise InputError(
            Problem(
                f"{FIELD}.kind",
                "missing",
                "one of " + ", ".join(KEYS),
                next(filter(None, (did_you_mean(key, ["kind"]) for key in value)), ""),
            )
        )
    if isinstance(value, Mapping) and value.get("kind") == "empirical" and "file" in value:
        strange = unknown_keys(FIELD, value, ("kind", *KEYS["empirical"]), OTHER_WORDS)
        if strange:
            raise InputError(strange)
        found_by_type = read_duration_file(FIELD, value, base)
        if list(found_by_type) != [ALL_TYPES]:
            return _in_order(found_by_type, task_types, f"in {value['file']}")
        return (found_by_type[ALL_TYPES],) * (1 if task_types is None else len(task_types))
    return (read_duration(FIELD, value, base),) * (1 if task_types is None else len(task_types))


def _by_name(value: Mapping[str, Any], base: Path, task_types: Sequence[str] | None) -> Durations:
    found: dict[str, Duration] = {}
    problems: list[Problem] = []
    for name, item in value.items():
        try:
            found[name] = read_duration(f"{FIELD}.{name}", item, base)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return _in_order(found, task_types, "")


def _in_order(
    found: Mapping[str, Duration], task_types: Sequence[str] | None, where: str
) -> Durations:
    durations = list(found.values())
    if task_types is None:
        return tuple(durations)
    order = positions(FIELD, "task type", list(found), task_types, where)
    return tuple(durations[i] for i in order)


def read_duration(field: str, value: object, base: Path) -> Duration:
    """One duration: ``{kind, ...}``.

    Raises:
        InputError: If a key is missing, unknown or has a wrong value.
        MissingExtraError: For a Parquet file without the package that reads it.
    """
    if not isinstance(value, Mapping):
        raise InputError(
            Problem(
                field,
                shorten(value),
                'a table such as {kind = "deterministic", steps = 3}',
                "durations are never text" if isinstance(value, str) else "",
            )
        )
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in KEYS:
        hint = did_you_mean(kind, KEYS) if isinstance(kind, str) else ""
        told = "missing" if kind is None else shorten(kind)
        raise InputError(Problem(f"{field}.kind", told, "one of " + ", ".join(KEYS), hint))
    inline = kind == "empirical" and "file" not in value
    own = ("steps", "weight") if inline else KEYS[kind]
    problems = unknown_keys(field, value, ("kind", *own), OTHER_WORDS)
    needed = KEYS[kind] if kind != "empirical" else ("steps", "weight")
    if kind == "empirical" and "file" in value:
        if "task" in value:
            problems.append(Problem(f"{field}.task", "given", "one duration for all types here"))
        needed = ()
    problems += [
        Problem(f"{field}.{key}", "missing", f"'{key}' of a {kind} duration")
        for key in needed
        if key not in value
    ]
    if problems:
        raise InputError(problems)
    if kind == "empirical" and "file" in value:
        found = read_duration_file(field, value, base)
        if list(found) != [ALL_TYPES]:
            raise InputError(
                Problem(field, f"{value['file']} has a column of task types", "one duration here")
            )
        return found[ALL_TYPES]
    try:
        if kind == "deterministic":
            return Deterministic(value["steps"])
        return Geometric(value["mean"]) if kind == "geometric" else _inline_histogram(value)
    except InputError as error:
        raise InputError(
            replace(one, field=field + one.field.removeprefix(FIELD)) for one in error.problems
        ) from error


def _inline_histogram(value: Mapping[str, Any]) -> Empirical:
    for key in ("steps", "weight"):
        if not isinstance(value[key], list):
            told = shorten(value[key])
            raise InputError(
                Problem(f"{FIELD}.{key}", told, "a list of numbers", "or name a file: file = '...'")
            )
    return Empirical(value["steps"], value["weight"])
