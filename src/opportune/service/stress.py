"""A bounded load for a running service: as many durable assignments as it can, or at a rate.

Each connection holds some assignments open and completes the oldest for every new one, so that
completions come at the rate of decisions. At a given rate, latency counts from the moment a request
was due, so a service that stalls is charged for all that should have come meanwhile.

Several nodes are asked in turn, connection by connection, as a load balancer does, so that most
requests for one of several pools come to a node that does not own it; or each connection goes to
the owner of its pool (``direct``).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from opportune.errors import InputError, OpportuneError, Problem
from opportune.kernels.allocate import PRIORITY
from opportune.service.resources import Array, PlanDocument
from opportune.service.wire import Address, Connection

PLAN = "by-score"
"""Id of the plan that decides under a load."""


@dataclass(frozen=True)
class StressSettings:
    """A load.

    Attributes:
        pool: The pool; made, with its servers, types and scores, if it is not there.
        servers, types: How many it has.
        connections: Kept-alive connections.
        seconds: How long the load lasts, after a second of warm-up.
        rate: Assignments per second in all; None: as many as go.
        rank: Rankings instead of assignments.
        open_share: Share of the servers that is held by open assignments.
        seed: Of the scores and of the order of types.
        learning: Whether the pool learns from the outcomes (``resources.PoolSettings``).
        pools: How many pools share the load: ``pool-1``, ``pool-2``, ...; one is called ``pool``.
        direct: Whether a connection goes to the node that owns its pool.
    """

    pool: str = "stress"
    servers: int = 1000
    types: int = 50
    connections: int = 64
    seconds: float = 10.0
    rate: float | None = None
    rank: bool = False
    open_share: float = 0.5
    seed: int = 1
    learning: Literal["off", "shadow", "on"] = "off"
    pools: int = 1
    direct: bool = False

    def __post_init__(self) -> None:
        problems = [
            Problem(f"--{name}", str(getattr(self, name)), f"{least} to {most}")
            for name, least, most in (
                ("servers", 1, 100_000),
                ("types", 1, 10_000),
                ("connections", 1, 10_000),
                ("pools", 1, 1000),
                ("seconds", 0.1, 3600.0),
            )
            if not least <= getattr(self, name) <= most
        ]
        if self.rate is not None and not self.rate > 0:
            problems.append(Problem("--rate", str(self.rate), "a number above 0"))
        if problems:
            raise InputError(problems)

    @property
    def parts(self) -> list[StressSettings]:
        """The load of each pool, with its name and its share of the servers."""
        if self.pools == 1:
            return [self]
        servers = max(self.servers // self.pools, 1)
        names = [f"{self.pool}-{i + 1}" for i in range(self.pools)]
        return [replace(self, pool=name, servers=servers) for name in names]


@dataclass
class Load:
    """What came of a load.

    Attributes:
        seconds: How long it lasted.
        decided, completed, ranked: Seconds of each request that was carried out.
        dropped: Tasks that found too few servers.
        failed: Requests with another answer, by status.
        mismatch: ``capacity_mismatch`` afterwards; None if it was not asked.
    """

    seconds: float = 0.0
    decided: list[float] = field(default_factory=list)
    completed: list[float] = field(default_factory=list)
    ranked: list[float] = field(default_factory=list)
    dropped: int = 0
    failed: dict[int, int] = field(default_factory=dict)
    mismatch: int | None = None

    @property
    def per_second(self) -> float:
        """Assignments (or rankings) per second."""
        return (len(self.decided) or len(self.ranked)) / self.seconds if self.seconds else 0.0


def quantile(seconds: list[float], q: float) -> float:
    """A quantile in milliseconds; 0 of nothing."""
    return 1000.0 * float(np.quantile(np.array(seconds), q)) if seconds else 0.0


class _Made(Struct):
    """The part of an assignment that is needed to complete it."""

    assignment_id: str


class _Pool(Struct):
    """The part of a pool that is checked."""

    capacity_mismatch: int


class _Ready(Struct):
    """What a node owns."""

    pools: list[str] = []


_MADE = msgspec.json.Decoder(_Made)


async def declare(address: Address, load: StressSettings) -> None:
    """Make the pool with random scores, unless it is there.

    Raises:
        OpportuneError: If the service refuses.
    """
    connection = await address.connect()
    base = f"/v1/pools/{load.pool}"

    async def put(path: str, body: object, method: str = "PUT") -> None:
        request = address.request(method, path, msgspec.json.encode(body))
        answered = await connection.send(request)
        if answered.status >= 400:
            told = answered.body.decode(errors="replace")
            raise OpportuneError(Problem(path, told, "the service to take it"))

    try:
        if (await connection.send(address.request("GET", base))).status == 200:
            return
        await put(base, {"lease": 3600.0, "learning": load.learning})
        servers = [f"server-{r + 1}" for r in range(load.servers)]
        types = [f"type-{v + 1}" for v in range(load.types)]
        await put(f"{base}/servers", [{"id": name} for name in servers])
        await put(f"{base}/task-types", [{"id": name, "mean_duration": 1.0} for name in types])
        score = np.random.default_rng(load.seed).random((load.types, load.servers)).round(6)
        rows = [
            [name, server, float(score[v, r])]
            for v, name in enumerate(types)
            for r, server in enumerate(servers)
        ]
        await put(f"{base}/scores", {"rows": rows, "replace": True})
        await put(f"{base}/plans/{PLAN}", _by_score(types, servers, score))
        await put(f"{base}/plans/{PLAN}:activate", {}, "POST")
    finally:
        connection.close()


def _by_score(types: list[str], servers: list[str], score: NDArray[np.float64]) -> PlanDocument:
    """The plan of a load: by score, at prices of 0; solving a program is another measurement."""
    order = np.argsort(-score, axis=1, kind="stable")[:, None, :].astype(np.uint32)
    level = np.broadcast_to(np.arange(len(servers), dtype=np.int32), order.shape)
    return PlanDocument(
        id=PLAN,
        policy="greedy",
        task_types=types,
        servers=servers,
        order=Array.of(order),
        level=Array.of(level),
        n_allowed=Array.of(np.full(len(types), len(servers), dtype=np.int32)),
        weight=Array.of(np.zeros((len(types), 0))),
        rule=PRIORITY,
        index=Array.of(score),
        demand_price=[0.0] * len(types),
        capacity_price=[0.0] * len(servers),
        mean_duration=[1.0] * len(types),
    )


async def run_load(
    address: Address,
    load: StressSettings,
    warm_up: float = 1.0,
    others: Sequence[Address] = (),
) -> Load:
    """Put a load on a service.

    Args:
        address: Where it is.
        load: The load; its pools must be there (:func:`declare`).
        warm_up: Seconds before anything is counted.
        others: More nodes of the service.

    Raises:
        OpportuneError: If nobody listens there.
    """
    found, nodes, parts = Load(), [address, *others], load.parts
    owners = await _owners(nodes) if load.direct else {}
    shares = []
    for i in range(load.connections):
        part = parts[i // len(nodes) % len(parts)]
        shares.append((owners.get(part.pool, nodes[i % len(nodes)]), part))
    connections = [await node.connect() for node, _ in shares]
    start = time.perf_counter() + warm_up
    clients = [
        _Client(node, part, connections[i], i, found) for i, (node, part) in enumerate(shares)
    ]
    try:
        await asyncio.gather(*(one.run(start, start + load.seconds) for one in clients))
        found.seconds = load.seconds
        for part in parts:
            asked = shares[0][0].request("GET", f"/v1/pools/{part.pool}")
            answered = await connections[0].send(asked)
            if answered.status == 200:
                one = msgspec.json.decode(answered.body, type=_Pool).capacity_mismatch
                found.mismatch = (found.mismatch or 0) + one
    finally:
        for connection in connections:
            connection.close()
    return found


async def _owners(nodes: Sequence[Address]) -> dict[str, Address]:
    """The node of each pool, as the nodes say."""
    owners = {}
    for node in nodes:
        connection = await node.connect()
        answered = await connection.send(node.request("GET", "/readyz"))
        connection.close()
        for pool in msgspec.json.decode(answered.body, type=_Ready).pools:
            owners[pool] = node
    return owners


class _Client:
    """One connection's share of the load."""

    def __init__(
        self,
        address: Address,
        load: StressSettings,
        connection: Connection,
        place: int,
        found: Load,
    ) -> None:
        self._address = address
        self._load = load
        self._connection = connection
        self._place = place
        self._found = found
        self._open: deque[str] = deque()
        self._depth = max(int(load.servers * load.open_share * load.pools / load.connections), 1)
        self._types = np.random.default_rng((load.seed, place)).integers(load.types, size=4096)
        path = f"/v1/pools/{load.pool}" + (":rank" if load.rank else "/assignments")
        self._requests = [
            address.request("POST", path, b'{"task_type":"type-%d"}' % (v + 1))
            for v in range(load.types)
        ]

    async def run(self, start: float, stop: float) -> None:
        """Requests until the end, then the open assignments are completed."""
        load = self._load
        step: Callable[[int, float], Awaitable[bool]] = self._rank if load.rank else self._assign
        every = None if load.rate is None else load.connections / load.rate
        due = time.perf_counter() + (every or 0.0) * self._place / load.connections
        i = 0
        while True:
            now = time.perf_counter()
            if now >= stop:
                break
            if every is not None:
                if due > now:
                    await asyncio.sleep(due - now)
                now, due = due, due + every
            await step(i, now if now >= start else float("inf"))
            i += 1
        while self._open:
            await self._complete(float("inf"))

    async def _assign(self, i: int, since: float) -> bool:
        """One more assignment, and the oldest completed."""
        request = self._requests[self._types[i % len(self._types)]]
        answered = await self._connection.send(request)
        if answered.status == 201:
            if since < float("inf"):
                self._found.decided.append(time.perf_counter() - since)
            self._open.append(_MADE.decode(answered.body).assignment_id)
        elif answered.status == 409:
            self._found.dropped += 1
        else:
            self._fail(answered.status)
        if len(self._open) > self._depth:
            await self._complete(time.perf_counter() if since < float("inf") else since)
        return True

    async def _complete(self, since: float) -> None:
        name = self._open.popleft()
        request = self._address.request("POST", f"/v1/assignments/{name}:complete", b'{"value":1}')
        answered = await self._connection.send(request)
        if answered.status != 200:
            self._fail(answered.status)
        elif since < float("inf"):
            self._found.completed.append(time.perf_counter() - since)

    async def _rank(self, i: int, since: float) -> bool:
        """One more ranking."""
        request = self._requests[self._types[i % len(self._types)]]
        answered = await self._connection.send(request)
        if answered.status != 200:
            self._fail(answered.status)
        elif since < float("inf"):
            self._found.ranked.append(time.perf_counter() - since)
        return True

    def _fail(self, status: int) -> None:
        self._found.failed[status] = self._found.failed.get(status, 0) + 1
