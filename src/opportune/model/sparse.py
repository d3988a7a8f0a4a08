"""An instance whose permitted pairs are few: lists of pairs, no matrix of types by servers.

2,000 types x 5,000 servers of which 1 % may meet are 100,000 pairs, 2 MB; as matrices of rewards,
permissions, indices and rates they would be 300 MB. ``pricing.sparse`` prices it; for everything
else :meth:`SparseInstance.dense` makes a :class:`LossInstance` of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.axes import Quantity
from opportune.model.checks import demand_problems, name_problems, rate_problems
from opportune.model.description import (
    Parts,
    check_top_keys,
    read_given_names,
    read_type_numbers,
)
from opportune.model.duration import Duration
from opportune.model.long import long_columns, read_pair_list
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.selection import number_of
from opportune.model.servers import Groups, ungrouped
from opportune.model.sources import SHEET_FILES, resolve
from opportune.model.spelling import positions
from opportune.model.tables import read_sheet

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FIELD = "match_reward"

LEAST_CELLS = 10**6
"""Pairs, permitted or not, below which matrices are small anyway."""

SPARSE = 0.1
"""Share of permitted pairs up to which lists are smaller than matrices."""

DENSE_KEYS = ("allowed", "profile", "availability", "server_duration")
"""Keys that only matrices go with."""


@dataclass(frozen=True, eq=False)
class SparseInstance:
    """Task types, servers, and lists of the pairs that may meet, server by server.

    Attributes:
        arrival_rate: (V,) probability per step.
        duration: (V,) of each type.
        servers_per_task: (V,) k_v.
        start: (R + 1,) first pair of each server.
        task_type: (n,) ascending for each server.
        match_reward: (n,) reward of each pair.
        task_types, servers: Names.
        name: What results call it.

    Raises:
        InputError: Naming every field that is wrong.
    """

    arrival_rate: Annotated[
        Float, Quantity("lambda_v", "V", "probability per step", "arrival rate")
    ]
    duration: tuple[Duration, ...]
    servers_per_task: Annotated[Int, Quantity("k_v", "V", "servers", "servers per task")]
    start: Int
    task_type: Int
    match_reward: Float
    task_types: tuple[str, ...]
    servers: tuple[str, ...]
    name: str = "instance"

    def __post_init__(self) -> None:
        problems = sparse_problems(self)
        if problems:
            raise InputError(problems)

    @property
    def n_types(self) -> int:
        """Number of task types V."""
        return len(self.task_types)

    @property
    def n_servers(self) -> int:
        """Number of servers R."""
        return len(self.servers)

    @property
    def n_pairs(self) -> int:
        """Number of permitted pairs n."""
        return len(self.task_type)

    @property
    def server(self) -> Int:
        """(n,) server of each pair."""
        return np.repeat(np.arange(self.n_servers), np.diff(self.start))

    @property
    def mean_duration(self) -> Float:
        """(V,) E[D_v] in steps."""
        return np.array([one.mean for one in self.duration])

    @property
    def load(self) -> float:
        """rho = sum_v lambda_v k_v E[D_v] / R."""
        work = self.arrival_rate * self.servers_per_task * self.mean_duration
        return float(work.sum() / self.n_servers)

    def with_load(self, load: float) -> SparseInstance:
        """The same with all rates multiplied so that the load is this.

        Raises:
            InputError: If that needs more than one arrival per step, or the load is not above 0.
        """
        if not (load > 0 and self.load > 0):
            raise InputError(Problem("load", f"{load}", "a number above 0, and a positive rate"))
        return replace(self, arrival_rate=self.arrival_rate * (load / self.load))

    def dense(self) -> LossInstance:
        """The same as matrices of types by servers."""
        shape = (self.n_types, self.n_servers)
        reward, allowed = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
        reward[self.task_type, self.server] = self.match_reward
        allowed[self.task_type, self.server] = True
        return loss_instance(
            reward,
            self.arrival_rate,
            self.duration,
            self.servers_per_task.tolist(),
            allowed=allowed,
            task_types=self.task_types,
            servers=self.servers,
            name=self.name,
        )


def sparse_problems(instance: SparseInstance) -> list[Problem]:
    """Everything that is wrong with the fields."""
    n_types, n_servers = len(instance.task_types), len(instance.servers)
    problems = name_problems("task_types", instance.task_types, n_types)
    problems += name_problems("servers", instance.servers, n_servers)
    problems += rate_problems(instance.arrival_rate)
    problems += demand_problems(instance.servers_per_task, (n_types, n_servers))
    for field, n in (
        ("arrival_rate", len(instance.arrival_rate)),
        ("duration", len(instance.duration)),
    ):
        if n != n_types:
            problems.append(Problem(field, f"{n} given", f"one per task type, {n_types}"))
    bad = np.flatnonzero(~((instance.match_reward >= 0) & np.isfinite(instance.match_reward)))
    if bad.size:
        v, r = int(instance.task_type[bad[0]]), int(instance.server[bad[0]])
        told = f"{instance.match_reward[bad[0]]:g} for task {instance.task_types[v]!r}, server "
        told += f"{instance.servers[r]!r} ({bad.size} such pairs)"
        problems.append(Problem(FIELD, told, "finite rewards of at least 0"))
    if problems:
        return problems
    permitted = np.bincount(instance.task_type, minlength=n_types)
    for v in np.flatnonzero(permitted < instance.servers_per_task)[:5]:
        problems.append(
            Problem(
                FIELD,
                f"task {instance.task_types[v]!r} has {permitted[v]} permitted servers",
                f"at least {instance.servers_per_task[v]}, the servers one task needs",
                "permit more servers for it or leave the type out",
            )
        )
    return problems


def read_sparse(
    data: Mapping[str, Any], base: Path, name: str
) -> tuple[SparseInstance, bool] | None:
    """The instance of a description as lists, where it is large and few pairs are permitted.

    Args:
        data: What an instance file holds.
        base: Folder that its paths are relative to.
        name: Name of the instance if the description has none.

    Returns:
        The instance and whether its rates are only shares; None where it is to be read as
        matrices.

    Raises:
        InputError: Every problem found, not only the first.
    """
    value = data.get(FIELD)
    long = isinstance(value, Mapping) and value.get("missing") == "forbid"
    if not isinstance(value, Mapping) or not long or any(key in data for key in DENSE_KEYS):
        return None
    keys = {"file", "task", "server", "value", "missing", "scale"}
    path = resolve(FIELD, value.get("file"), base)
    if set(value) - keys or path.suffix.lower() not in SHEET_FILES:
        return None
    sheet = read_sheet(FIELD, path, str(value["file"]))
    roles = {key: value.get(key) for key in ("task", "server", "value")}
    sheet, columns = long_columns(FIELD, sheet, roles, ("task", "server", "value"))
    i, j, rewards, names = read_pair_list(FIELD, sheet, columns)
    if not SPARSE * len(names[0]) * len(names[1]) >= max(len(i), SPARSE * LEAST_CELLS):
        return None
    del sheet
    scale = number_of(FIELD, value, "scale") if "scale" in value else 1.0
    return _instance(data, base, name, (i, j, rewards * scale, names))


def _instance(
    data: Mapping[str, Any],
    base: Path,
    name: str,
    pairs: tuple[Int, Int, Float, tuple[tuple[str, ...], tuple[str, ...]]],
) -> tuple[SparseInstance, bool]:
    i, j, rewards, (tasks, columns) = pairs
    parts = Parts()
    check_top_keys(parts, data)
    groups, task_types = read_given_names(parts, data)
    if task_types is None:
        task_types = tasks
    else:
        i = np.argsort(positions("task_types", "task type", tasks, task_types))[i]
    if groups is None:
        groups = ungrouped(columns)
    else:
        j = np.argsort(positions("servers", "server", columns, groups.names))[j]
    read_type_numbers(parts, data, base, task_types)
    parts.finish()
    found = parts.found
    server, task_type, reward = _of_single_servers(groups, i, j, rewards)
    instance = SparseInstance(
        arrival_rate=np.asarray(found["arrival_rate"], dtype=np.float64),
        duration=found["duration"],
        servers_per_task=np.asarray(found["servers_per_task"]).astype(np.int64),
        start=np.searchsorted(server, np.arange(len(groups.servers) + 1)),
        task_type=task_type,
        match_reward=reward,
        task_types=task_types,
        servers=groups.servers,
        name=str(data.get("name", name)),
    )
    return instance, "type_share" in data


def _of_single_servers(groups: Groups, i: Int, j: Int, rewards: Float) -> tuple[Int, Int, Float]:
    """Pairs in order of server and type, those of a group once for each of its servers."""
    copies = np.bincount(np.array(groups.columns), minlength=len(groups.names))
    first = np.cumsum(copies) - copies
    times = copies[j]
    which = np.repeat(np.arange(len(i)), times)
    step = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    server, task_type = first[j[which]] + step, i[which]
    order = np.lexsort((task_type, server))
    return server[order], task_type[order], rewards[which][order]
