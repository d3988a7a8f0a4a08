"""Durable assignments per second over HTTP, how fast one is, and how fast a node is back."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import truediv
from pathlib import Path

import numpy as np
import uvloop

import opportune
from benchmarks.machine import all_cores
from benchmarks.peers.processes import ROOT, neighbors_python, neighbors_versions
from benchmarks.sections import Effort, Report, Row, Say, Section, Target
from opportune.errors import OpportuneError
from opportune.service import commands, engine, events
from opportune.service.journal import Append
from opportune.service.resources import PoolSettings, ServerSettings, TaskTypeSettings
from opportune.service.sqlite import SqliteJournal
from opportune.service.state import State, empty_state
from opportune.service.stress import Load, StressSettings, declare, quantile, run_load
from opportune.service.stress_target import MARK
from opportune.service.stress_target import Target as Service
from opportune.service.wire import Address

PEER = "fastapi_round_robin"
START_SECONDS = 30.0
BATCH = 500
"""Commands whose records are appended together when a database is filled."""

SLOTS = 110
"""Slots of each server of the filled database."""


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    load = StressSettings(
        servers=effort.choose(1000, 100),
        types=effort.choose(50, 5),
        seconds=float(effort.choose(8, 1)),
    )
    n_open = effort.choose(100_000, 2_000)
    rounds = effort.n_rounds(3, 1)
    with all_cores() as cores:
        ours: list[tuple[Load, Load, Load, float]] = []
        learning: list[tuple[Load, Load, Load, float]] = []
        theirs: list[Load] = []
        for i in range(rounds):
            say(f"serve: round {i + 1} of {rounds}")
            ours.append(_ours(load))
            learning.append(_ours(replace(load, learning="on")))
            peer = _theirs(load)
            theirs += [] if peer is None else [peer]
        say(f"serve: restart with {n_open} open assignments")
        restarts = _restarts(n_open, rounds)
        say("serve: decisions in process")
        routed = tuple(_router(effort.choose(50_000, 2_000), seed) for seed in range(rounds))
    rows = (
        *_rows(ours, theirs, restarts, n_open),
        *_learning_rows(ours, learning),
        *_router_rows(routed),
    )
    return Report(rows, _notes(load, cores, bool(theirs)))


def _rows(
    ours: list[tuple[Load, Load, Load, float]],
    theirs: list[Load],
    restarts: tuple[float, ...],
    n_open: int,
) -> tuple[Row, ...]:
    most = tuple(one[0].per_second for one in ours)
    steady = [one[1] for one in ours]
    ranked = tuple(quantile(one[2].ranked, 0.5) for one in ours)
    rows = [
        Row("durable assignments, ours", "1/s", most, Target(1000)),
        Row("  at 500/s: p50", "ms", _quantiles(steady, 0.5), Target(10, at_most=True)),
        Row("  at 500/s: p99", "ms", _quantiles(steady, 0.99), Target(40, at_most=True)),
        Row("  a ranking (nothing is stored): p50", "ms", ranked, Target(2, at_most=True)),
        Row("  memory of the service", "MiB", tuple(one[3] for one in ours)),
    ]
    if theirs:
        plain = tuple(one.per_second for one in theirs)
        rows += [
            Row("durable assignments, FastAPI round-robin", "1/s", plain),
            Row("ours / FastAPI", "x", tuple(a / b for a, b in zip(most, plain, strict=True))),
        ]
    label = f"restart with {n_open:,} open assignments, to ready"
    return (*rows, Row(label, "s", restarts, Target(5, at_most=True)))


def _learning_rows(
    off: list[tuple[Load, Load, Load, float]], on: list[tuple[Load, Load, Load, float]]
) -> tuple[Row, ...]:
    """The same load on a pool that learns from the outcomes; ratios are taken inside a round."""
    p99 = _quantiles([one[1] for one in on], 0.99)
    without = _quantiles([one[1] for one in off], 0.99)
    return (
        Row("durable assignments, learning on", "1/s", tuple(one[0].per_second for one in on)),
        Row("  at 500/s: p50", "ms", _quantiles([one[1] for one in on], 0.5)),
        Row("  at 500/s: p99", "ms", p99, Target(40, at_most=True)),
        Row("  p99, learning on / off", "x", tuple(map(truediv, p99, without))),
        Row("  memory of the service", "MiB", tuple(one[3] for one in on)),
    )


def _router_rows(routed: tuple[tuple[float, float], ...]) -> tuple[Row, ...]:
    middle, tail = zip(*routed, strict=True)
    return (
        Row("Router.decide in process, 1,000 servers: p50", "us", middle),
        Row("  p99", "us", tail, Target(20, at_most=True)),
    )


def _router(n_decisions: int, seed: int) -> tuple[float, float]:
    """Median and 99th percentile of a decision by LAG in microseconds, half of the servers busy."""
    draws = np.random.default_rng(seed)
    n_types, n_servers, n_running = 50, 1000, 500
    router = opportune.Router(
        draws.random((n_types, n_servers)),
        arrival_rate=[0.5 / n_types] * n_types,
        duration=opportune.Geometric(mean=1000),
    )
    types = draws.integers(n_types, size=n_decisions).tolist()
    running = [router.decide(task).id for task in types[:n_running]]
    seconds = np.empty(n_decisions)
    for place, task in enumerate(types):
        router.complete(running[place % n_running])
        start = time.perf_counter()
        decision = router.decide(task)
        seconds[place] = time.perf_counter() - start
        running[place % n_running] = decision.id
    middle, tail = np.quantile(seconds, (0.5, 0.99)) * 1e6
    return float(middle), float(tail)


def _quantiles(loads: list[Load], q: float) -> tuple[float, ...]:
    return tuple(quantile(one.decided, q) for one in loads)


def _notes(load: StressSettings, cores: int, with_peer: bool) -> tuple[str, ...]:
    return (
        f"{load.servers} servers, {load.types} types, {load.connections} kept-alive connections, "
        f"{load.seconds:g} s a part, completions at the rate of assignments; client and service on "
        f"the same {cores} cores, not pinned",
        "every acknowledged request is on disk (write-ahead log, full synchronization)",
        f"FastAPI {neighbors_versions(('fastapi',))['fastapi']}: the next free server in turn, one "
        "committed transaction a request, no scores, reasons, leases or idempotency"
        if with_peer
        else "FastAPI is not installed where peers run: `make bench` has it",
    )


def _run(address: str, load: StressSettings) -> Load:
    host, _, port = address.removeprefix("http://").rpartition(":")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(run_load(Address(host, int(port)), load))
    if found.failed or found.mismatch:
        raise RuntimeError(f"requests failed: {found.failed}, mismatch {found.mismatch}")
    return found


def _ours(load: StressSettings) -> tuple[Load, Load, Load, float]:
    """As many as go, at a rate, rankings unless it learns; and the service's memory in MiB."""
    with Service() as service:
        host, _, port = service.address.removeprefix("http://").rpartition(":")
        asyncio.run(declare(Address(host, int(port)), load))
        most = _run(service.address, load)
        steady = _run(service.address, replace(load, rate=500.0))
        rankings = replace(load, rank=True, connections=1)
        ranked = _run(service.address, rankings) if load.learning == "off" else Load()
    return most, steady, ranked, (service.memory or 0) / 2**20


def _theirs(load: StressSettings) -> Load | None:
    """The plain service under the same load; None if it is not installed."""
    if neighbors_versions(("fastapi",))["fastapi"] is None:
        return None
    with _plain_service(load.servers) as address:
        return _run(address, load)


@contextmanager
def _plain_service(n_servers: int) -> Iterator[str]:
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [neighbors_python(), "-m", f"benchmarks.peers.{PEER}"]
        command += [str(Path(folder) / "plain.db"), str(port), str(n_servers)]
        process = subprocess.Popen(command, cwd=ROOT)
        try:
            end = time.monotonic() + START_SECONDS
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1.0).close()
                    break
                except OSError as error:
                    if time.monotonic() > end or process.poll() is not None:
                        raise OpportuneError(()) from error
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _restarts(n_open: int, rounds: int) -> tuple[float, ...]:
    """Seconds from the start of a process to the first request that it would take."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "open.db"
        fill(database, n_open)
        for _ in range(rounds):
            command = [sys.executable, "-m", "opportune", "serve", "--port", "0"]
            command += ["--database", str(database), "--log", "error"]
            start = time.perf_counter()
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            for line in process.stderr or ():
                if line.startswith(MARK):
                    found.append(time.perf_counter() - start)
                    break
            process.kill()  # so that the next one has to read the records again
            process.communicate()
    return tuple(found)


def fill(database: Path, n_open: int) -> None:
    """A journal with open assignments and no snapshot: a restart reads all of its records."""
    journal = SqliteJournal(database)
    token, state, written = journal.acquire("open"), empty_state("open"), 0
    records: list[bytes] = []
    for i, command in enumerate(_filling(n_open)):
        records += _decided(state, command)
        if i % BATCH == BATCH - 1:
            journal.append(Append("open", token, written + 1, records)).result()
            written, records = written + len(records), []
    if records:
        journal.append(Append("open", token, written + 1, records)).result()
    journal.close()


def _filling(n_open: int) -> Iterator[commands.Command]:
    n_servers = -(-n_open // 100)
    yield commands.PutPool(settings=PoolSettings())
    for v in range(50):
        settings = TaskTypeSettings(id=f"type-{v + 1}", mean_duration=60.0)
        yield commands.PutTaskType(settings=settings)
    for r in range(n_servers):
        server = ServerSettings(id=f"server-{r + 1}", capacity=SLOTS)
        yield commands.PutServer(settings=server)
    for i in range(n_open):
        yield commands.CreateTask(task_type=f"type-{i % 50 + 1}")


def _decided(state: State, command: commands.Command) -> list[bytes]:
    draws = np.frombuffer(os.urandom(64), np.uint32)
    answer = engine.decide(state, command, time.time(), draws)
    if answer.problem is not None:
        raise RuntimeError(answer.problem.detail)
    return [events.encode(event) for event in answer.events]


SECTION = Section("serve", "The live service", 50, measure)
