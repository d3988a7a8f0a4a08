"""Kill the service with SIGKILL at random points under load, again and again; compare ledgers.

``python -m tests.service.kills --kills 1000``. The client keeps a ledger of what was acknowledged.
A request that got no answer is sent again after the restart, with the same idempotency key.
Then the service must agree with the ledger exactly: every server holds what the ledger says, no
assignment is lost, none is there twice, slots add up, ``capacity_mismatch`` is 0.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

import msgspec

from opportune.service.replaying import replay
from opportune.service.sqlite import SqliteJournal
from opportune.service.stress import StressSettings, declare
from opportune.service.wire import Address, Answered, Connection
from tests.service.kill_target import run
from tests.service.moves import moves_of

Learning = Literal["off", "shadow", "on"]

CLIENTS = 12
SERVERS = 40
MOST_OPEN = 44
"""Assignments that clients try to hold open; more than there are servers for, so some drop."""

LONGEST = 0.12
"""Seconds of load before a kill, at most."""

DEAL_PERIOD = 0.02
"""Seconds between deals of a split pool."""

SNAPSHOT_EVERY = 150
STILL_KNOWN = 5000
"""Latest completed assignments among which some are looked at: a pool forgets older ones."""

START_SECONDS = 120.0


class LedgerError(AssertionError):
    """The service and the ledger of what it acknowledged do not agree."""


@dataclass
class Request:
    """Something that was sent: until it is answered nobody knows whether it happened."""

    kind: str
    path: str
    body: bytes
    key: str


@dataclass
class Ledger:
    """What the service has acknowledged.

    Attributes:
        held: Open assignments and their servers.
        done: Completed ones.
        dropped: Tasks that found no server.
        doubt: Requests without an answer.
        seen: How often each thing happened.
    """

    held: dict[str, list[str]] = field(default_factory=dict)
    done: dict[str, None] = field(default_factory=dict)
    dropped: int = 0
    doubt: list[Request] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def enter(self, request: Request, answered: Answered) -> None:
        """An answer came.

        Raises:
            LedgerError: If it says what cannot be.
        """
        self.seen[f"{request.kind} {answered.status}"] += 1
        body = msgspec.json.decode(answered.body)
        if request.kind == "create" and answered.status == 201:
            name = body["assignment_id"]
            if name in self.held or name in self.done:
                raise LedgerError(f"{name} was acknowledged twice, for two tasks")
            self.held[name] = [server["id"] for server in body["servers"]]
        elif request.kind == "create" and body.get("code") == "no-capacity":
            self.dropped += 1
        elif request.kind == "complete" and answered.status == 200:
            name = body["assignment_id"]
            if self.held.pop(name, None) is None:
                raise LedgerError(f"{name} was completed and is not open")
            self.done[name] = None
        else:
            raise LedgerError(f"{request}: {answered}")


class Killing:
    """A service that is killed, and its clients.

    Args:
        folder: Where its database is.
        seed: Of the moments, and of what clients do.
        learning: Whether the pool learns; then its learner must agree with the ledger as well.
        partitions: Sub-pools, among which servers are dealt all the time; 1: none.
    """

    def __init__(
        self, folder: Path, seed: int, learning: Learning = "off", partitions: int = 1
    ) -> None:
        self.ledger = Ledger()
        self.kills = 0
        self.slowest_start = 0.0
        self.versions: list[int] = []
        self.decisions = 0
        self.learning: Learning = learning
        self.partitions = partitions
        self.database = folder / "kills.db"
        self._random = random.Random(seed)
        self._numbers = 0
        self._idle: list[str] = []
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.service.kill_target"])

    @property
    def moved(self) -> int:
        """Moves of servers between sub-pools, as the journal tells while the service is down."""
        journal = SqliteJournal(self.database)
        try:
            return sum(len(hops) for hops in moves_of(journal, "kills").values())
        finally:
            journal.close()

    def start(self) -> tuple[BaseProcess, Address]:
        """Start the service; every tenth is killed before it takes requests."""
        while True:
            receiver, sender = self._context.Pipe(duplex=False)
            start = time.monotonic()
            process = self._context.Process(
                target=run, args=(self.database, SNAPSHOT_EVERY, sender)
            )
            process.start()
            sender.close()
            if self.kills and self._random.random() < 0.1:
                time.sleep(self._random.random() * LONGEST)
                self._kill(process)
                self.ledger.seen["killed while it started"] += 1
                continue
            if not receiver.poll(START_SECONDS):
                raise LedgerError("the service does not start")
            address = receiver.recv()
            self.slowest_start = max(self.slowest_start, time.monotonic() - start)
            host, _, port = address.removeprefix("http://").rpartition(":")
            return process, Address(host, int(port))

    def _kill(self, process: BaseProcess) -> None:
        process.kill()
        process.join()
        self.kills += 1

    def one(self) -> None:
        """Start, compare, load, kill."""
        process, address = self.start()
        try:
            asyncio.run(self._load(address, process))
        finally:
            if process.is_alive():
                process.kill()
            process.join()

    async def _load(self, address: Address, process: BaseProcess) -> None:
        load = StressSettings(pool="kills", servers=SERVERS, types=3, learning=self.learning)
        await declare(address, load)
        connection = await address.connect()
        if self.partitions > 1 and not self.kills:
            own = {"lease": 3600.0, "partitions": self.partitions, "deal_period": DEAL_PERIOD}
            request = address.request("PUT", "/v1/pools/kills", msgspec.json.encode(own))
            if (await connection.send(request)).status != 200:
                raise LedgerError("the pool is not split")
        await self._settle(address, connection)
        await self.compare(address, connection)
        self._idle = list(self.ledger.held)
        clients = [asyncio.create_task(self._client(address)) for _ in range(CLIENTS)]
        await asyncio.sleep(self._random.random() * LONGEST)
        self._kill(process)
        for result in await asyncio.gather(*clients, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, ConnectionError):
                raise result
        connection.close()
        await asyncio.sleep(0)  # let transports close

    async def _settle(self, address: Address, connection: Connection) -> None:
        """Send again what was not answered."""
        for request in self.ledger.doubt:
            self.ledger.seen["sent again"] += 1
            self.ledger.enter(request, await connection.send(_bytes(address, request)))
        self.ledger.doubt.clear()

    async def _client(self, address: Address) -> None:
        """Create and complete until the connection breaks."""
        connection = await address.connect()
        try:
            while True:
                await self._request(address, connection)
        finally:
            connection.close()

    async def _request(self, address: Address, connection: Connection) -> None:
        """Create or complete one."""
        self._numbers += 1
        key = f"request-{self._numbers}"
        if self._idle and self._random.random() < len(self._idle) / MOST_OPEN:
            name = self._idle.pop(self._random.randrange(len(self._idle)))
            path, body = f"/v1/assignments/{name}:complete", b'{"value":1}'
            request = Request("complete", path, body, key)
        else:
            task: dict[str, Any] = {"task_type": f"type-{self._random.randint(1, 3)}"}
            if self._random.random() < 0.5:
                task["external_id"] = key
            body = msgspec.json.encode(task)
            request = Request("create", "/v1/pools/kills/assignments", body, key)
        self.ledger.doubt.append(request)
        answered = await connection.send(_bytes(address, request))
        self.ledger.doubt.remove(request)
        self.ledger.enter(request, answered)
        if request.kind == "create" and answered.status == 201:
            self._idle.append(msgspec.json.decode(answered.body)["assignment_id"])

    async def compare(self, address: Address, connection: Connection) -> None:
        """The service's ledger beside ours.

        Raises:
            LedgerError: At the first difference.
        """

        async def get(path: str) -> Any:
            answered = await connection.send(address.request("GET", path))
            if answered.status != 200:
                raise LedgerError(f"{path}: {answered}")
            return msgspec.json.decode(answered.body)

        held: dict[str, list[str]] = {}
        for server in await get("/v1/pools/kills/servers"):
            for name in server["assignments"]:
                held.setdefault(name, []).append(server["settings"]["id"])
        ours = {name: sorted(servers) for name, servers in self.ledger.held.items()}
        if {name: sorted(servers) for name, servers in held.items()} != ours:
            raise LedgerError(f"open assignments: the service has {held}, the ledger {ours}")
        pool = await get("/v1/pools/kills")
        counts = pool["counts"]
        found = {
            "created": counts.get("created", 0),
            "dropped": counts.get("dropped", 0),
            "done": counts.get("done", 0),
            "slots_open": pool["slots_open"],
            "capacity_mismatch": pool["capacity_mismatch"],
        }
        ledger = self.ledger
        expected = {
            "created": len(ledger.held) + len(ledger.done) + ledger.dropped,
            "dropped": ledger.dropped,
            "done": len(ledger.done),
            "slots_open": sum(len(servers) for servers in ledger.held.values()),
            "capacity_mismatch": 0,
        }
        if found != expected:
            raise LedgerError(f"the service counts {found}, the ledger {expected}")
        if self.learning != "off":
            self.versions.append(_check_learned(ledger, await get("/v1/pools/kills/learning")))
        known = list(ledger.done)[-STILL_KNOWN:]
        for name in self._random.sample(known, min(len(known), 5)):
            state = (await get(f"/v1/assignments/{name}"))["state"]
            if state != "completed":
                raise LedgerError(f"{name} was completed and is {state}")


def _check_learned(ledger: Ledger, learned: Any) -> int:
    """Every acknowledged outcome is counted, and counted once; the version published.

    Raises:
        LedgerError: If the learner counts otherwise.
    """
    found = {
        "outcomes": learned["outcomes"],
        "served": learned["served"],
        "arrived": sum(one["arrived"] for one in learned["task_types"]),
    }
    done = len(ledger.done)
    expected = {
        "outcomes": done,
        "served": done,
        "arrived": len(ledger.held) + done + ledger.dropped,
    }
    if found != expected:
        raise LedgerError(f"the learner counts {found}, the ledger {expected}")
    version: int = learned["version"]
    return version


def _check_replay(database: Path) -> int:
    """Every decision is made again from the journal; how many there are.

    Raises:
        LedgerError: If one comes out otherwise.
    """
    journal = SqliteJournal(database)
    try:
        found = [replay(journal, pool) for pool in journal.pools()]
    finally:
        journal.close()
    problems = [problem for one in found for problem in one.problems]
    if problems:
        raise LedgerError(f"opportune verify: {problems[:3]}")
    return sum(one.decisions for one in found)


def _bytes(address: Address, request: Request) -> bytes:
    return address.request(
        "POST", request.path, request.body, f"Idempotency-Key: {request.key}\r\n"
    )


def kill_many(
    killing: Killing,
    kills: int,
    seconds: float = 600.0,
    enough: Callable[[Killing], bool] = lambda _: True,
) -> None:
    """Kill the service so often, or until the time is over; the last start must agree too.

    It goes on beyond that number until ``enough`` says that enough has happened: how much a service
    does between two kills hangs on the machine.

    Raises:
        LedgerError: If the service and the ledger do not agree once.
    """
    end = time.monotonic() + seconds
    while (killing.kills < kills or not enough(killing)) and time.monotonic() < end:
        killing.one()
        if killing.kills % 50 == 0:
            print(f"{killing.kills} kills, {len(killing.ledger.done)} done", file=sys.stderr)
    process, address = killing.start()

    async def last() -> None:
        connection = await address.connect()
        await killing._settle(address, connection)
        await killing.compare(address, connection)
        connection.close()

    try:
        asyncio.run(last())
    finally:
        process.terminate()
        process.join()
    killing.decisions = _check_replay(killing.database)


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--learning", choices=("off", "shadow", "on"), default="off")
    parser.add_argument("--partitions", type=int, default=1)
    asked = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        killing = Killing(Path(folder), asked.seed, asked.learning, asked.partitions)
        kill_many(killing, asked.kills, asked.seconds)
        moved = killing.moved
    ledger = killing.ledger
    print(
        f"{killing.kills} kills in {time.monotonic() - start:.0f} s; slowest start "
        f"{killing.slowest_start:.2f} s; {len(ledger.held) + len(ledger.done)} assignments, "
        f"{len(ledger.done)} completed, {ledger.dropped} dropped; lost 0, doubled 0, "
        "capacity_mismatch 0"
    )
    print(dict(sorted(ledger.seen.items())))
    learned = f"; learned version {max(killing.versions)}" if killing.versions else ""
    print(f"{killing.decisions} decisions made again from the journal, all the same{learned}")
    if moved:
        print(f"servers moved {moved} times, each to one place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
