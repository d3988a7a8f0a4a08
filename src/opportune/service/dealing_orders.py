"""What a node asks of pools wherever they are: orders of a split pool, and looks at its parts.

A pool that is owned here is asked here. Between nodes an order is a POST with the secret that the
nodes share; nobody else can give one.
"""

from __future__ import annotations

import re
import time
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from opportune.service.answers import PoolBody, ServerBody, TaskBody
from opportune.service.cluster import HERE, Cluster
from opportune.service.commands import AnyCommand, Command, PutPool
from opportune.service.forwarding import FORWARDED, PeerError, Peers
from opportune.service.owner import PoolOwner
from opportune.service.problems import RefusalError, Reply, encode_json, moved
from opportune.service.reading import pool_body, server_bodies, waiting_tasks
from opportune.service.state import State

ORDERS = re.compile(rb"/v1/pools/([^/:]+)/orders")
"""The path of orders between nodes."""


class Look(Struct, frozen=True, tag=True, tag_field="command", kw_only=True):
    """What is in a part of a pool.

    Attributes:
        what: ``pool`` at a glance, ``servers`` that are here, tasks that are ``waiting``, or
            whether the part ``has`` a server.
        now: Seconds of the installation's clock.
        limit: Most tasks.
        server: Which server.
    """

    what: Literal["pool", "servers", "waiting", "has"]
    now: float = 0.0
    limit: int = 1000
    server: str = ""


Order = AnyCommand | Look

_DECODER: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_SEEN: dict[str, Any] = {
    "pool": PoolBody | None,
    "servers": list[ServerBody],
    "waiting": list[TaskBody],
    "has": bool,
}


class Host(Protocol):
    """What orders need of a node."""

    cluster: Cluster | None

    def owner(self, pool: str) -> PoolOwner:
        """The owner of a pool that is here."""
        ...

    def owner_or_new(self, pool: str) -> PoolOwner:
        """The owner of a pool that is here or about to be created."""
        ...


class Orders:
    """Asks pools, here or elsewhere.

    Args:
        host: The node.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._peers = Peers()

    async def ask(self, pool: str, command: Command) -> Reply:
        """Let the owner of a pool carry out a command.

        Raises:
            RefusalError: If there is no such pool, or nobody owns it in time.
        """
        address = await self._elsewhere(pool, isinstance(command, PutPool))
        if address is not None:
            return await self._send(address, pool, command)
        return await self._here(pool, command)

    async def look(self, pool: str, look: Look) -> Any:
        """What a pool shows; of the type that ``Look.what`` says.

        Raises:
            RefusalError: If there is no such pool, or nobody owns it in time.
        """
        address = await self._elsewhere(pool, False)
        if address is None:
            return await self._host.owner(pool).read(lambda state: seen(state, look))
        reply = await self._send(address, pool, look)
        if reply.status >= 400:
            raise RefusalError(reply)
        return msgspec.json.decode(reply.body, type=_SEEN[look.what])

    async def carry_out(self, pool: str, body: bytes) -> Reply:
        """Carry out an order that another node has given.

        Raises:
            RefusalError: If there is no such pool here.
        """
        order = _DECODER.decode(body)
        if isinstance(order, Look):
            look = order
            found = await self._host.owner(pool).read(lambda state: seen(state, look))
            return Reply(200, encode_json(found))
        return await self._here(pool, order)

    async def _here(self, pool: str, command: Command) -> Reply:
        host = self._host
        owner = host.owner_or_new(pool) if isinstance(command, PutPool) else host.owner(pool)
        return await owner.ask(command)

    async def _elsewhere(self, pool: str, creates: bool) -> str | None:
        """The address of the node that owns a pool; None: this one, or nobody."""
        cluster = self._host.cluster
        if cluster is None or cluster.owns(pool):
            return None
        address = await cluster.locate(pool, time.monotonic() + cluster.settings.hold)
        if address is None and creates:
            await cluster.claim(pool)
        return None if address == HERE else address

    async def _send(self, address: str, pool: str, order: Order | Command) -> Reply:
        cluster = self._host.cluster
        assert cluster is not None
        body = msgspec.msgpack.encode(order)
        head = (
            f"POST /v1/pools/{pool}/orders HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"{FORWARDED.decode()}: {cluster.secret} {cluster.name}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        try:
            one = await self._peers.send(address, head.encode() + body, lambda _: None)
        except PeerError as error:
            raise RefusalError(moved(certain=not error.sent)) from error
        reply = Reply(one.status, one.body)
        self._peers.give_back(address, one)
        return reply


def seen(state: State, look: Look) -> Any:
    """What a look shows."""
    if look.what == "pool":
        return pool_body(state, look.now)
    if look.what == "servers":
        return server_bodies(state)
    if look.what == "waiting":
        return waiting_tasks(state, look.limit)
    r = state.server_index.get(look.server)
    return r is not None and state.servers[r].here
