"""Load and check an instance: a catalog id or an instance file (TOML).

The instance file: ``match_reward``, ``arrival_rate`` (per type and step) or ``type_share`` (needs
a load), ``duration``, and where they are not the default ``servers_per_task`` (1), ``allowed``
(every pair), ``task_types``, ``servers``, ``name``, ``profile``, ``availability``. What each may
be is told in ``references`` (matrices, vectors, long tables), ``duration_entry``, ``conflicts``,
``servers`` and ``schedule_entry``. Paths are relative to the file; nothing is
fetched and nothing unpickled.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opportune.errors import InputError, OpportuneError, Problem, shorten
from opportune.model.catalog import catalog_instance
from opportune.model.catalog_days import catalog_day
from opportune.model.day import Day
from opportune.model.description import Draft, read_description, require_load
from opportune.model.loss import LossInstance
from opportune.model.sources import is_file, neighbors, read_text
from opportune.model.sparse import SparseInstance, read_sparse
from opportune.model.spelling import counted, did_you_mean


class InstanceCheck(NamedTuple):
    """What was found in an instance: the problems (none is well), and it in one line."""

    problems: tuple[Problem, ...]
    summary: str

    @property
    def ok(self) -> bool:
        """Whether :func:`load_instance` takes it."""
        return not self.problems


def load_instance(source: str | Path, load: float | None = None) -> LossInstance:
    """The instance of a catalog id or an instance file.

    Args:
        source: An id such as ``"priority-v1"`` or ``"iclr-v1@3"``, or a path ending in .toml.
        load: Multiplies all arrival rates (or shares) by one factor so that
            sum_v lambda_v k_v E[D_v] / R is this; None keeps the rates.

    Raises:
        InputError: Every problem found: field, value, what was expected and what to change.
        MissingExtraError: If a package is missing for a file, and nothing else is wrong.
    """
    if isinstance(source, str) and not source.lower().endswith(".toml"):
        return catalog_instance(source, load)
    return _read_file(Path(source)).at_load(load)


def load_day(source: str | Path, load: float | None = None, shifts: bool = True) -> Day:
    """The day of an instance file (``profile``, ``availability``) or of a day of the catalog.

    Args:
        source: A path ending in .toml, or an id such as ``"bank-day-v1@Wed"``. A file without
            profile is a day of one period.
        load: Multiplies all rates by one factor so that the mean day has this load.
        shifts: Servers come and go as the instance says; otherwise all are on duty all day.

    Raises:
        InputError: Every problem found: field, value, what was expected and what to change.
        MissingExtraError: If a package is missing for a file, and nothing else is wrong.
    """
    if isinstance(source, str) and not source.lower().endswith(".toml"):
        return catalog_day(source, load, shifts)
    day = _read_file(Path(source)).day_at_load(load)
    if shifts:
        return day
    day = replace(day, off_duty=day.off_duty[:0])
    return day if load is None else day.with_load(load)


def load_sparse(source: str | Path, load: float | None = None) -> SparseInstance | None:
    """The instance of a file as lists of pairs, where it is large and few pairs are permitted.

    Args:
        source: As for :func:`load_instance`.
        load: As for :func:`load_instance`.

    Returns:
        The instance; None for one that is to be read as matrices.

    Raises:
        InputError: Every problem found: field, value, what was expected and what to change.
        MissingExtraError: If a package is missing for a file.
    """
    if isinstance(source, str) and not source.lower().endswith(".toml"):
        return None
    path = Path(source)
    found = read_sparse(read_toml(path), path.parent, path.stem)
    if found is None:
        return None
    instance, shares_only = found
    if load is None:
        require_load(load, shares_only, instance.name)
        return instance
    return instance.with_load(load)


def check_instance(source: str | Path, load: float | None = None) -> InstanceCheck:
    """Everything that is wrong with an instance, and a summary; never raises for bad input."""
    try:
        instance = load_instance(source, load)
    except OpportuneError as error:
        told = counted(len(error.problems), "problem")
        return InstanceCheck(error.problems, f"{source}: {told}")
    return InstanceCheck((), summary(instance))


def summary(instance: LossInstance) -> str:
    """The instance in one line."""
    k = sorted({int(k) for k in instance.servers_per_task})
    means = instance.mean_duration
    parts = [
        counted(instance.n_types, "task type"),
        counted(instance.n_servers, "server"),
        f"{k[0]} per task" if len(k) == 1 else f"{k[0]} to {k[-1]} per task",
        f"mean duration {means.min():.4g} steps"
        if np.ptp(means) == 0
        else f"mean durations {means.min():.4g} to {means.max():.4g} steps",
        f"{float(instance.arrival_rate.sum()):.4g} arrivals per step",
        f"load {instance.load:.4g}",
    ]
    forbidden = int((~instance.allowed).sum())
    if forbidden:
        parts.append(f"{forbidden} of {instance.allowed.size} pairs forbidden")
    if instance.server_duration is not None:
        own = instance.pair_mean[instance.allowed]
        parts[3] = f"mean durations {own.min():.4g} to {own.max():.4g} steps by type and server"
    if instance.is_part_time:
        parts.append(f"{instance.servers_on_duty:.4g} servers on duty at a time")
    idle = int((instance.arrival_rate == 0).sum())
    if idle:
        parts.append(f"{counted(idle, 'type')} without arrivals")
    return f"{instance.name}: " + ", ".join(parts)


def _read_file(path: Path) -> Draft:
    return read_description(read_toml(path), path.parent, path.stem)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        InputError: If there is no such file, or it is no TOML.
    """
    text = read_text("instance", _checked(path), path.name)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            Problem("instance", f"{path.name}: {error}", "a TOML file", _toml_remedy(str(error)))
        ) from error
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(
            Problem("instance", f"{path.name}: {shorten(error, 120)}", "a TOML file")
        ) from error
    except RecursionError as error:
        raise InputError(
            Problem("instance", f"{path.name} is nested too deep", "a plain TOML file")
        ) from error


def _checked(path: Path) -> Path:
    text = str(path)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text):
        problem = Problem("instance", shorten(text), "a file on this machine, not a URL")
    elif text.startswith("~"):
        problem = Problem("instance", shorten(text), "a path without ~")
    elif path.suffix.lower() != ".toml":
        problem = Problem("instance", shorten(text), "a path ending in .toml")
    elif is_file(path):
        return path
    else:
        near = [name for name in neighbors(path) if name.lower().endswith(".toml")]
        folder = "this folder" if path.parent == Path() else f"the folder {path.parent}"
        expected = f"a file in {folder}" if neighbors(path) else f"a folder {path.parent}"
        there = f"instance files there: {', '.join(sorted(near)[:5])}" if near else ""
        hint = did_you_mean(path.name, near) or there or "check the path; no .toml file is there"
        problem = Problem("instance", shorten(text, 200), expected, hint)
    raise InputError(problem)


def _toml_remedy(error: str) -> str:
    if "overwrite" in error or "twice" in error:
        return "a key is given twice; keep one"
    if "Invalid value" in error:
        return "write 0.1 (not .1 or 0,1), true and false without capitals, and text in quotes"
    return ""
