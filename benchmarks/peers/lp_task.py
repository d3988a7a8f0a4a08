"""What every peer that solves an occupancy LP shares: the task it is given, and its answer.

A peer is started as ``python -m benchmarks.peers.NAME FILE SECONDS [METHOD]``. It reads the LP as
lists of pairs, solves it once in scaled variables and answers with one line of JSON, an
:class:`Answer`; the demand prices it found go into FILE with the ending ``.prices.npy``. It takes
the time itself (``time.process_time``): of handing the program over and solving it, not of
reading. It may take 8 GB of memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Float = NDArray[np.float64]
Int = NDArray[np.int64]

MEMORY = 8 * 2**30
"""Bytes of address space that a peer may take beyond what it has at the start."""


class Task(NamedTuple):
    """An occupancy LP: permitted pairs server by server, types ascending within a server."""

    start: Int  # (R + 1,) first pair of each server
    task_type: NDArray[np.uint32]  # (n,)
    reward: Float  # (n,) at most 1
    rate: Float  # (V,)
    mean: Float  # (V,)
    demand: Float  # (V,) servers per task
    at_most: bool


class Program(NamedTuple):
    """Maximize cost @ x, 0 <= x <= 1: y of every pair, then phi; all rows of the LP.

    y = u / lambda; the objective is in units of the largest arrival rate. Demand rows first
    (``= demand``, or ``<=``), then capacity rows (``= 1``), then availability (``<= 0``).
    """

    cost: Float
    matrix: sparse.csc_matrix
    lower: Float
    upper: Float


class Answer(NamedTuple):
    """How a solve ended: the objective and bytes are None without a solution."""

    status: str
    objective: float | None
    seconds: float
    memory: int | None


class Found(NamedTuple):
    """A solution: objective, and the derivative of the objective by the demand rows."""

    objective: float
    demand_dual: Float


Solve = Callable[[Task, float, str], Found | str]
"""Solve a task within seconds by a method; a word if that is not what came of it."""


def write_task(task: Task, path: Path) -> None:
    """Write a task."""
    np.savez(path, **task._asdict())


def read_task(path: Path) -> Task:
    """A task as :func:`write_task` wrote it."""
    with np.load(path) as stored:
        fields = {name: stored[name] for name in Task._fields}
    return Task(**{**fields, "at_most": bool(fields["at_most"])})


def program_of(task: Task) -> Program:
    """The LP in scaled variables."""
    n, n_types, n_servers = len(task.reward), len(task.rate), len(task.start) - 1
    server = np.repeat(np.arange(n_servers), np.diff(task.start))
    pair, servers = np.arange(n), np.arange(n_servers)
    work, one = (task.rate * task.mean)[task.task_type], np.ones(n)
    row = [task.task_type.astype(np.int64), n_types + server, n_types + servers]
    column = [pair, pair, n + servers]
    value = [one, work, np.ones(n_servers)]
    row += [n_types + n_servers + pair] * 2
    column += [pair, n + server]
    value += [one, -one]
    shape = (n_types + n_servers + n, n + n_servers)
    entries = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
    matrix = sparse.csc_matrix(entries, shape=shape)
    weight = task.rate[task.task_type] / task.rate.max()
    upper = np.concatenate([task.demand, np.ones(n_servers), np.zeros(n)])
    lower = np.full(len(upper), -np.inf)
    lower[n_types : n_types + n_servers] = 1.0
    if not task.at_most:
        lower[:n_types] = task.demand
    return Program(
        np.concatenate([weight * task.reward, np.zeros(n_servers)]), matrix, lower, upper
    )


def answer(solve: Solve) -> None:
    """Be the peer: solve the task that the command line names."""
    path, seconds = Path(sys.argv[1]), float(sys.argv[2])
    method = sys.argv[3] if len(sys.argv) > 3 else ""
    task = read_task(path)
    limit = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = time.process_time()
    try:
        found = solve(task, seconds, method)
    except MemoryError:
        found = "out of memory"
    spent = time.process_time() - start
    if isinstance(found, str):
        print(json.dumps(Answer(found, None, spent, None)._asdict()))
        return
    price = found.demand_dual * task.rate.max() / task.rate
    np.save(path.with_suffix(".prices.npy"), price)
    objective = found.objective * float(task.rate.max())
    print(json.dumps(Answer("solved", objective, spent, _peak())._asdict()))


def _peak() -> int:
    """Peak memory of this process in bytes (``ru_maxrss`` would include the one it came from)."""
    listing = Path("/proc/self/status")
    if listing.is_file():
        for line in listing.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def _address_space() -> int:
    """Bytes of address space now: libraries and threads reserve much that is never used."""
    listing = Path("/proc/self/statm")
    pages = int(listing.read_text().split()[0]) if listing.is_file() else 0
    return pages * resource.getpagesize()
