"""Several nodes on PostgreSQL under load, one of them killed every few seconds; compare ledgers.

``python -m tests.service.soak --seconds 120``. Clients talk to any node, as behind a load balancer,
and keep a ledger of what was acknowledged, pool by pool. A request without an answer, or with a
problem that says to try again, is sent again to another node with the same idempotency key; any
other answer that is not expected ends the run. A killed node is replaced at once.

In the end the nodes must agree with the ledgers exactly (no acknowledged assignment lost or
doubled, slots add up), the journal must be whole and give the same decisions again, and no pool may
have been without an owner for ``--longest`` seconds: that is measured from the kill to the first
answer to a request that was sent after it. The part of it after the end of the dead node's leases,
which the database tells at the kill, is told too: that is what a take-over takes by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import math
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opportune.errors import OpportuneError
from opportune.service.leases import PoolLeases
from opportune.service.postgres import PostgresJournal
from opportune.service.replaying import replay
from opportune.service.stress import StressSettings, declare
from opportune.service.wire import Address, Answered, Connection
from tests.service.clusters import NodeProcess, Nodes, cluster
from tests.service.database import postgres_url
from tests.service.kills import Ledger, LedgerError, Request

SERVERS = 40
MOST_OPEN = 44
"""Assignments that clients try to hold open in a pool; more than there are servers for."""

PATIENCE = 120.0
"""Seconds after which a request that was never answered ends the run."""


@dataclass(frozen=True)
class SoakSettings:
    """A soak: how long, how many nodes, pools and clients, kills, pauses, and a lease's seconds.

    With ``least_kills`` it goes on until there were so many.
    """

    seconds: float = 120.0
    nodes: int = 3
    pools: int = 6
    clients: int = 16
    every: float = 5.0
    pause: float = 0.01
    seed: int = 1
    gently: bool = False
    lease: float = 2.0
    least_kills: int = 0


@dataclass
class Found:
    """What came of it.

    Attributes:
        kills: Nodes that were killed, or stopped.
        take_overs: Seconds from each kill until a pool of the killed node was served again.
        after_lease: The part of each behind the end of the lease.
        slowest: Of all requests, in seconds from its first sending.
        again: Why requests were sent again, and how often.
        ledgers: By pool.
        waiting: Pools of the node that was killed last, until they are served again: when it was
            killed, and when their leases end.
    """

    kills: int = 0
    take_overs: list[float] = field(default_factory=list)
    after_lease: list[float] = field(default_factory=list)
    slowest: float = 0.0
    again: Counter[str] = field(default_factory=Counter)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    waiting: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def assignments(self) -> int:
        """Acknowledged assignments."""
        return sum(len(one.held) + len(one.done) for one in self.ledgers.values())


class Soak:
    """The load and the kills.

    Args:
        nodes: Started, one at least.
        settings: How.
        leases: Those of the nodes' pools.
    """

    def __init__(self, nodes: Nodes, settings: SoakSettings, leases: PoolLeases) -> None:
        self.nodes, self.settings, self._leases = nodes, settings, leases
        self.found = Found()
        self.pools = [f"soak-{i}" for i in range(settings.pools)]
        self.found.ledgers = {pool: Ledger() for pool in self.pools}
        self._idle: dict[str, list[str]] = {pool: [] for pool in self.pools}
        self._random = random.Random(settings.seed)
        self._numbers = 0
        self._over = False

    async def run(self) -> Found:
        """Declare, load and kill, then compare.

        Raises:
            LedgerError: If the nodes and the ledgers do not agree.
        """
        for pool in self.pools:
            settings = StressSettings(pool=pool, servers=SERVERS, types=3)
            await declare(self._address(), settings)
        clients = [asyncio.create_task(self._client()) for _ in range(self.settings.clients)]
        killer = asyncio.create_task(self._kill())
        await asyncio.wait([killer, *clients], return_when=asyncio.FIRST_EXCEPTION)
        self._over = True
        await asyncio.gather(killer, *clients)
        for pool in self.pools:
            await self._compare(pool)
        return self.found

    def _address(self) -> Address:
        node = self._random.choice(self.nodes.living())
        host, _, port = node.address.removeprefix("http://").rpartition(":")
        return Address(host, int(port))

    # --------------------------------------------------------------------------- kills

    async def _kill(self) -> None:
        """Kill one node every few seconds, and start another."""
        end = time.monotonic() + self.settings.seconds
        least = self.settings.least_kills
        while (time.monotonic() < end or self.found.kills < least) and not self._over:
            await asyncio.sleep(self.settings.every)
            node = self._random.choice(self.nodes.living())
            if self.settings.gently:
                node.stop(wait=False)
            else:
                killed = time.monotonic()
                node.kill()
                held = await asyncio.to_thread(self._leases.all)
                now = time.monotonic()
                self.found.waiting = {
                    one.pool: (killed, now + one.seconds)
                    for one in held
                    if one.address == node.address and one.seconds > 0
                }
            self.found.kills += 1
            await asyncio.to_thread(self._replace, node)
        self._over = True

    def _replace(self, node: NodeProcess) -> None:
        """Start another node; this also waits for one that was told to stop."""
        self.nodes.start()
        if self.settings.gently:
            node.process.join(PATIENCE)
            if node.process.exitcode:
                raise LedgerError(f"{node.name} ended with {node.process.exitcode}")

    def _served(self, pool: str, sent: float) -> None:
        """A request to a pool was answered that was sent at this moment."""
        killed, ends = self.found.waiting.get(pool, (math.inf, math.inf))
        if sent > killed:
            now = time.monotonic()
            self.found.take_overs.append(now - killed)
            self.found.after_lease.append(now - ends)
            del self.found.waiting[pool]

    # ---------------------------------------------------------------------------- load

    async def _client(self) -> None:
        """Create and complete until it is over."""
        connection: Connection | None = None
        while not self._over:
            pool = self._random.choice(self.pools)
            connection = await self._request(pool, connection)
            await asyncio.sleep(self._random.random() * 2 * self.settings.pause)
            if connection is not None and self._random.random() < 0.1:  # another node, please
                connection.close()
                connection = None
        if connection is not None:
            connection.close()
            await asyncio.sleep(0)

    def _next(self, pool: str) -> Request:
        """Something to do: complete one of the pool's open assignments, or create one."""
        self._numbers += 1
        key, idle = f"request-{self._numbers}", self._idle[pool]
        if idle and self._random.random() < len(idle) / MOST_OPEN:
            name = idle.pop(self._random.randrange(len(idle)))
            return Request("complete", f"/v1/assignments/{name}:complete", b'{"value":1}', key)
        task: dict[str, Any] = {"task_type": f"type-{self._random.randint(1, 3)}"}
        if self._random.random() < 0.5:
            task["external_id"] = key
        path = f"/v1/pools/{pool}/assignments"
        return Request("create", path, msgspec.json.encode(task), key)

    async def _request(self, pool: str, connection: Connection | None) -> Connection | None:
        """Do one thing, sent again until there is an answer; the connection that it came by."""
        request, ledger = self._next(pool), self.found.ledgers[pool]
        began = time.monotonic()
        while True:
            sent = time.monotonic()
            if sent - began > PATIENCE:
                raise LedgerError(f"{request} was never answered: {dict(self.found.again)}")
            try:
                address = self._address()
                connection = connection or await address.connect()
                headers = f"Idempotency-Key: {request.key}\r\n"
                bytes_ = address.request("POST", request.path, request.body, headers)
                async with asyncio.timeout(PATIENCE):
                    answered = await connection.send(bytes_)
            except (ConnectionError, OpportuneError, OSError) as error:
                self.found.again[type(error).__name__] += 1
                connection = None
                await asyncio.sleep(0.02)
                continue
            code = try_again(answered)
            if not code:
                break
            self.found.again[code] += 1
            await asyncio.sleep(0.05)
        self.found.slowest = max(self.found.slowest, time.monotonic() - began)
        self._served(pool, sent)
        ledger.enter(request, answered)
        if request.kind == "create" and answered.status == 201:
            self._idle[pool].append(msgspec.json.decode(answered.body)["assignment_id"])
        return connection

    # ------------------------------------------------------------------------- ledgers

    async def _compare(self, pool: str) -> None:
        """The pool beside its ledger.

        Raises:
            LedgerError: At the first difference.
        """
        node = self.nodes.living()[0]
        servers = await asyncio.to_thread(node.good, "GET", f"/v1/pools/{pool}/servers")
        found = await asyncio.to_thread(node.good, "GET", f"/v1/pools/{pool}")
        ledger, held = self.found.ledgers[pool], {}
        for server in servers:
            for name in server["assignments"]:
                held.setdefault(name, []).append(server["settings"]["id"])
        if held != ledger.held:
            raise LedgerError(f"{pool} holds {held}, its ledger {ledger.held}")
        counts = found["counts"]
        told = [counts.get(name, 0) for name in ("created", "dropped", "done")]
        expected = [
            len(ledger.held) + len(ledger.done) + ledger.dropped,
            ledger.dropped,
            len(ledger.done),
        ]
        if told != expected or found["capacity_mismatch"]:
            raise LedgerError(f"{pool} counts {told}, its ledger {expected}; {found}")


def try_again(answered: Answered) -> str:
    """The code of a problem that says to try again; empty for another answer."""
    if answered.status not in (409, 503):
        return ""
    code: str = msgspec.json.decode(answered.body)["code"]
    return code if code in ("unavailable", "still-running") else ""


def check_journal(url: str, schema: str) -> int:
    """Every pool's journal is whole and gives the same decisions again; how many these are.

    Raises:
        LedgerError: If not.
    """
    journal = PostgresJournal(url, schema=schema)
    try:
        problems, decisions = list(journal.check()), 0
        for pool in journal.pools():
            found = replay(journal, pool)
            decisions += found.decisions
            problems += found.problems
    finally:
        journal.close()
    if problems:
        raise LedgerError(str(problems))
    return decisions


def soak(schema: str, settings: SoakSettings) -> tuple[Found, int]:
    """A soak on a schema; what came of it, and the decisions in the journal.

    Raises:
        LedgerError: If nodes, ledgers and journal do not agree.
    """
    url = postgres_url()
    with cluster(url, schema, settings.nodes, lease=settings.lease) as nodes:
        journal = PostgresJournal(url, schema=schema)
        try:
            leases = PoolLeases(journal, "soak", "")
            found = asyncio.run(Soak(nodes, settings, leases).run())
        finally:
            journal.close()
    return found, check_journal(url, schema)


def spread(seconds: list[float]) -> str:
    """How long it took: median, nine of ten, longest."""
    times = sorted(seconds)
    median, most = times[len(times) // 2], times[9 * len(times) // 10]
    return f"{median:.2f} s median, {most:.2f} s nine of ten, {times[-1]:.2f} s longest"


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--gently", action="store_true", help="stop nodes instead: a restart")
    parser.add_argument("--longest", type=float, default=3.0, help="seconds without an owner")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    settings = SoakSettings(
        seconds=asked.seconds,
        every=asked.every,
        clients=asked.clients,
        gently=asked.gently,
        seed=asked.seed,
    )
    schema = "soak_" + hashlib.sha256(str(time.time()).encode()).hexdigest()[:12]
    found, decisions = soak(schema, settings)
    times, told = found.take_overs, ""
    if times:
        told = f": {spread(times)}; behind the end of the lease {spread(found.after_lease)}"
    print(
        f"{found.kills} nodes {'stopped' if asked.gently else 'killed'} in {asked.seconds:.0f} s; "
        f"{found.assignments} assignments acknowledged, {decisions} decisions in the journal, "
        f"none lost, none doubled; {len(times)} pools taken over{told}; slowest request "
        f"{found.slowest:.2f} s; sent again: {dict(found.again)}"
    )
    return 1 if max(times, default=0.0) >= asked.longest else 0


if __name__ == "__main__":
    sys.exit(main())
