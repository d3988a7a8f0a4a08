"""From a description of an instance (what a TOML file holds) to a :class:`LossInstance`.

All parts are read before anything is refused, so that a user sees every problem at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, MissingExtraError, OpportuneError, Problem, shorten
from opportune.model.checks import plain_array, share_problems
from opportune.model.conflicts import read_allowed
from opportune.model.day import Day
from opportune.model.duration_entry import read_durations
from opportune.model.loss import LossInstance, loss_problems, numbered
from opportune.model.references import read_matrix, read_vector
from opportune.model.schedule_entry import Duty, Profile, day_of, read_availability, read_profile
from opportune.model.selection import Matrix, Names
from opportune.model.server_duration_entry import read_server_durations
from opportune.model.servers import Groups, read_groups, read_names, ungrouped
from opportune.model.spelling import positions, unknown_keys

KEYS = (
    "name",
    "servers_per_task",
    "match_reward",
    "arrival_rate",
    "type_share",
    "duration",
    "server_duration",
    "allowed",
    "task_types",
    "servers",
    "profile",
    "availability",
)
OTHER_WORDS = {
    "k": "servers_per_task",
    "scores": "match_reward",
    "score": "match_reward",
    "reward": "match_reward",
    "rewards": "match_reward",
    "S": "match_reward",
    "lambda": "arrival_rate",
    "rate": "arrival_rate",
    "rates": "arrival_rate",
    "share": "type_share",
    "shares": "type_share",
    "mask": "allowed",
    "constraints": "allowed",
    "conflicts": "allowed",
    "types": "task_types",
    "tasks": "task_types",
    "D": "duration",
    "agents": "servers",
    "shifts": "availability",
    "on_duty": "availability",
    "periods": "profile",
}

T = TypeVar("T")


@dataclass(frozen=True)
class Draft:
    """An instance that was read, and whether its rates are only shares.

    Attributes:
        instance: The instance; with ``shares_only`` its rates sum to one per step.
        shares_only: Whether a load is needed to make rates of the shares.
        profile: Periods of the day, if the description has them.
        duty: When servers are on duty, if the description says so.
    """

    instance: LossInstance
    shares_only: bool
    profile: Profile | None = None
    duty: Duty | None = None

    def at_load(self, load: float | None) -> LossInstance:
        """The instance at a load, the mean of its day if it has one; None keeps the rates.

        Raises:
            InputError: If there are shares only and no load, or the load cannot be had.
        """
        if self.profile is not None:
            return self.day_at_load(load).mean_day
        instance = self.instance
        if self.duty is not None:
            instance = replace(instance, availability=self.duty.share)
        require_load(load, self.shares_only, self.instance.name)
        return instance if load is None else instance.with_load(load)

    def day_at_load(self, load: float | None) -> Day:
        """The day, its mean at a load; one period without a profile. None keeps the rates.

        Raises:
            InputError: If there are shares only and no load, or the load cannot be had.
        """
        require_load(load, self.shares_only, self.instance.name)
        day = day_of(self.instance, self.profile, self.duty)
        return day if load is None else day.with_load(load)


def require_load(load: float | None, shares_only: bool, name: str) -> None:
    """Refuse shares without a load.

    Raises:
        InputError: If there are shares only and no load.
    """
    if load is None and shares_only:
        raise InputError(
            Problem(
                "load",
                f"not given, and {name} has shares of the types only",
                "a load, for example --load 0.7",
                "add --load 0.7 (a file may give arrival_rate in place of type_share)",
            )
        )


class Parts:
    """What could be read, by field, and every problem met on the way."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.errors: list[OpportuneError] = []

    def take(self, read: Callable[[], T]) -> T | None:
        """The result of ``read``, or None and its problems kept."""
        try:
            return read()
        except OpportuneError as error:
            self.errors.append(error)
            return None

    def refuse(self, problem: Problem) -> None:
        """Keep a problem."""
        self.errors.append(InputError(problem))

    def finish(self) -> None:
        """Raise all problems as one error; a missing package alone stays what it is."""
        if not self.errors:
            return
        if all(isinstance(error, MissingExtraError) for error in self.errors):
            raise self.errors[0]
        problems = [problem for error in self.errors for problem in error.problems]
        raise InputError(dict.fromkeys(problems))


def read_description(data: Mapping[str, Any], base: Path, name: str) -> Draft:
    """The instance that a description stands for.

    Args:
        data: What an instance file holds.
        base: Folder that its paths are relative to.
        name: Name of the instance if the description has none.

    Raises:
        InputError: Every problem found, not only the first.
        MissingExtraError: If a package is missing for a file, and nothing else is wrong.
    """
    parts = Parts()
    check_top_keys(parts, data)
    groups, task_types = read_given_names(parts, data)
    names_known = ("servers" in data) == (groups is not None)
    names_known = names_known and ("task_types" in data) == (task_types is not None)
    found = parts.found
    aligned = None
    if "match_reward" in data:
        matrix = parts.take(lambda: read_matrix("match_reward", data["match_reward"], base))
        if matrix is not None and names_known:
            read = matrix
            aligned = parts.take(lambda: _align(read, task_types, groups))
        if matrix is not None and aligned is None:  # its numbers can be checked all the same
            found["match_reward"] = matrix.values
            found["allowed"] = _mask_of(matrix)
    if aligned is not None:
        task_types = found["task_types"] = aligned[1]
        _expand(parts, data, base, aligned)
    elif "allowed" in data:
        parts.take(lambda: read_allowed(data["allowed"], base, None))
    read_type_numbers(parts, data, base, task_types)
    groups = groups if aligned is None else aligned[2]
    profile, duty = _read_day(parts, data, base, (task_types, groups))
    if "server_duration" in data and "duration" in found and aligned is not None:
        names, own = (aligned[1], aligned[2]), found["duration"]
        laws = parts.take(lambda: read_server_durations(data["server_duration"], base, own, names))
        found.update({} if laws is None else {"server_duration": laws})
    if task_types is None and len(found.get("duration", ())) == 1 and "match_reward" in found:
        found["duration"] *= len(found["match_reward"])  # one for all, however many there are
    found["name"] = data.get("name", name)
    for problem in loss_problems(found):
        if problem.field == "arrival_rate" and "type_share" in data:  # as the user wrote it
            value = problem.value.replace(" rates", " shares")
            problem = replace(problem, field="type_share", value=value)
        parts.refuse(problem)
    parts.finish()
    return Draft(LossInstance(**found), "type_share" in data, profile, duty)


def check_top_keys(parts: Parts, data: Mapping[str, Any]) -> None:
    """Keep a problem for every unknown, missing or contradictory key."""
    if "load" in data:
        parts.refuse(Problem("load", "given", "no such key", "leave it out and give --load"))
    known = {key: value for key, value in data.items() if key != "load"}
    for problem in unknown_keys("", known, KEYS, OTHER_WORDS):
        parts.refuse(problem)
    for key in ("match_reward", "duration"):
        if key not in data:
            parts.refuse(Problem(key, "missing", f"the key '{key}' in the instance file"))
    rates = [key for key in ("arrival_rate", "type_share") if key in data]
    if not rates:
        parts.refuse(
            Problem(
                "arrival_rate",
                "missing",
                "arrival_rate (per type and step), or type_share together with --load",
            )
        )
    if len(rates) == 2:
        parts.refuse(
            Problem(
                "type_share",
                "given beside arrival_rate",
                "one of the two",
                "rates already say the shares; keep arrival_rate, --load multiplies it",
            )
        )


def read_given_names(parts: Parts, data: Mapping[str, Any]) -> tuple[Groups | None, Names]:
    """``servers`` and ``task_types``, None where they are not given or wrong."""
    groups = task_types = None
    if "servers" in data:
        groups = parts.take(lambda: read_groups(data["servers"]))
    if "task_types" in data:
        task_types = parts.take(lambda: read_names("task_types", data["task_types"]))
    return groups, task_types


def _align(
    matrix: Matrix, task_types: Names, groups: Groups | None
) -> tuple[Matrix, tuple[str, ...], Groups]:
    """The matrix in the order of the given names; names from the file where none are given."""
    values, allowed = matrix.values, matrix.allowed
    file_servers = matrix.columns
    if task_types is None:
        task_types = matrix.rows or numbered("type", values.shape[0])
    elif matrix.rows is not None:
        order = positions("task_types", "task type", matrix.rows, task_types)
        values, allowed = values[order], None if allowed is None else allowed[order]
    if groups is None:
        groups = ungrouped(file_servers or numbered("server", values.shape[1]))
    elif file_servers is not None:
        order = positions("servers", "server", file_servers, groups.names)
        values, allowed = values[:, order], None if allowed is None else allowed[:, order]
    for field, n, names in (
        ("task_types", values.shape[0], task_types),
        ("servers", values.shape[1], groups.names),
    ):
        if len(names) != n:
            word = "rows" if field == "task_types" else "columns"
            raise InputError(
                Problem(
                    field,
                    f"{len(names)} given, match_reward has {n} {word}",
                    f"one for each of the {word}",
                )
            )
    return Matrix(values, allowed), task_types, groups


def _mask_of(matrix: Matrix) -> NDArray[Any]:
    return np.ones(matrix.values.shape, np.bool_) if matrix.allowed is None else matrix.allowed


def _expand(
    parts: Parts,
    data: Mapping[str, Any],
    base: Path,
    aligned: tuple[Matrix, tuple[str, ...], Groups],
) -> None:
    """Give every single server its column, and join what the two sources forbid."""
    matrix, task_types, groups = aligned
    found, columns = parts.found, groups.columns
    found["servers"] = groups.servers
    found["match_reward"] = matrix.values[:, columns]
    pairs = _mask_of(matrix)
    if "allowed" in data:
        names = (task_types, groups.names)
        allowed = parts.take(lambda: read_allowed(data["allowed"], base, names))
        if allowed is not None and allowed.shape != pairs.shape:
            told = f"the shape of match_reward, {pairs.shape}"
            parts.refuse(Problem("allowed", f"shape {allowed.shape}", told))
        elif allowed is not None:
            # only 0 forbids: other numbers stay as they are, to be refused
            pairs = np.where(pairs, plain_array(allowed), np.zeros((), plain_array(allowed).dtype))
    found["allowed"] = pairs[:, columns]


def read_type_numbers(parts: Parts, data: Mapping[str, Any], base: Path, task_types: Names) -> None:
    """Rates or shares, servers per task and durations, in the order of the task types."""
    found = parts.found

    def vector(field: str, kind: str = "value") -> NDArray[Any]:
        values, names = read_vector(field, data[field], base, kind)
        if names is None or task_types is None:
            return values
        return values[positions(field, "task type", names, task_types)]

    if "arrival_rate" in data:
        found["arrival_rate"] = parts.take(lambda: vector("arrival_rate"))
    elif "type_share" in data:
        found["arrival_rate"] = parts.take(lambda: _rates_of_shares(vector("type_share")))
    k = data.get("servers_per_task", 1)
    if isinstance(k, (list, Mapping)):
        found["servers_per_task"] = parts.take(lambda: vector("servers_per_task", "k"))
    elif isinstance(k, (int, float)) and not isinstance(k, bool) and task_types is not None:
        found["servers_per_task"] = np.full(len(task_types), k)
    elif isinstance(k, (bool, str)) or not isinstance(k, (int, float)):
        parts.refuse(
            Problem(
                "servers_per_task", shorten(k), "a whole number, a list of them, or {file = ...}"
            )
        )
    if "duration" in data:
        found["duration"] = parts.take(lambda: read_durations(data["duration"], base, task_types))
    for key in [key for key, value in found.items() if value is None]:
        del found[key]


def _read_day(
    parts: Parts, data: Mapping[str, Any], base: Path, names: tuple[Names, Groups | None]
) -> tuple[Profile | None, Duty | None]:
    """Periods and shifts, where the names that they are about are known."""
    task_types, groups = names
    profile = duty = None
    if "profile" in data and task_types is not None:
        types = task_types
        profile = parts.take(lambda: read_profile(data["profile"], base, types))
    if "availability" in data and groups is not None:
        rows = groups
        duty = parts.take(lambda: read_availability(data["availability"], base, rows))
    if duty is not None and duty.shifts is not None and "profile" not in data:
        parts.refuse(
            Problem(
                "profile",
                "missing",
                "a day for the shifts in availability",
                "add profile = {period_steps = ..., multiplier = [1]}: a day of one period",
            )
        )
    return profile, duty


def _rates_of_shares(share: NDArray[Any]) -> NDArray[np.float64]:
    problems = share_problems(share)
    if problems:
        raise InputError(problems)
    scaled = plain_array(share).astype(np.float64)
    scaled = scaled / scaled.max()
    return np.asarray(scaled / scaled.sum())
