"""Between the gate and the handlers, among several nodes: every request goes to its pool's owner.

A request for a pool that is owned here is handled here; for another one it is sent on to the
owner, with everything that the client sent: API key, idempotency key, body. While nobody owns the
pool, for the moment of a hand-over or a take-over, the request waits. It is sent on once only: a
node that gets a request from another one and is not the owner says so, and the first one looks
again.

What was certainly not done is asked again in any case. Where an owner was lost before it answered,
nobody knows; then the request is asked again if that can do no harm: it has an idempotency key, or
doing it twice is doing it once. A new task without a key is not; its client gets a 503 that says
so.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from opportune.service.api.calls import Call, named
from opportune.service.cluster import HERE, Cluster
from opportune.service.forwarding import FORWARDED, HOP, Headers, PeerConnection, PeerError, Peers
from opportune.service.naming import pool_of
from opportune.service.problems import MOVED, RefusalError, moved
from opportune.service.resources import PoolId

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Here = Callable[[Scope, bytes, Call, Receive, Send], Awaitable[None]]
"""Handles a request on this node."""

POOL = re.compile(rb"/v1/pools/([^/:]+)(?:[/:].*)?")
NAMED = re.compile(rb"/v1/(?:tasks|assignments|decisions)/([^/:]+)(?:[/:].*)?")
CREATES = re.compile(rb"/v1/pools/[^/:]+/(?:assignments|tasks|plans)|/v1/pools")
"""Posts that make something new: without a key, twice is not once."""

MOVED_HEADER = MOVED.encode()

PATIENCE = 0.5
"""Seconds for the last answers of an owner once there is another: it may be paused for ever."""

AGAIN = 0.05
"""Seconds before a request is tried again, unless something changes before."""

DONE, MOVED_ON, DOUBTFUL = "done", "moved", "doubtful"
"""What came of a try: answered; certainly not done; nobody knows."""


@dataclass(slots=True)
class _Waiting:
    """What waits for another node: its pool, the owner's token, since when there is another."""

    pool: str
    token: int
    moved: float = 0.0


class _About(msgspec.Struct):
    """The part of a body that says which pool it is about."""

    id: str = ""
    subject: str = ""


_DECODER = msgspec.json.Decoder(_About)


class Relay:
    """Sends requests to the owners of their pools.

    Args:
        cluster: Knows who owns what.
        here: Handles a request on this node.
    """

    def __init__(self, cluster: Cluster, here: Here) -> None:
        self._cluster, self._here = cluster, here
        self._peers = Peers()
        self._waiting: dict[PeerConnection, _Waiting] = {}
        cluster.watchers.append(self._look)

    async def __call__(
        self, scope: Scope, path: bytes, call: Call, body: bytes | None, channel: tuple[Any, Any]
    ) -> None:
        """Handle a request, here or elsewhere.

        Args:
            scope: ASGI's.
            path: As it came.
            call: Who asks what.
            body: All of it; None if the request has none.
            channel: ASGI's receive and send.

        Raises:
            RefusalError: If nobody owns the pool in time.
        """
        receive, send = channel
        receive = receive if body is None else _Replay(body, receive)
        pool = pool_asked(path, body or b"")
        if pool is None:
            await self._here(scope, path, call, receive, send)
            return
        until = time.monotonic() + self._cluster.settings.hold
        creates = scope["method"] in ("PUT", "POST") and _makes_pool(path)
        while True:
            place = await self._locate(pool, until, creates)
            if place == HERE:
                outcome = await self._try_here(scope, path, call, (receive, send))
            elif call.forwarded:
                raise RefusalError(moved())
            else:
                request = _request(scope, path, call, body or b"", self._cluster.secret)
                outcome = await self._try_there(pool, place, request, (receive, send))
            if outcome == DONE:
                return
            if outcome == DOUBTFUL and not _harmless(scope["method"], path, call):
                raise RefusalError(moved(certain=False))
            if time.monotonic() >= until:
                raise RefusalError(moved(certain=outcome == MOVED_ON))
            if isinstance(receive, _Replay):
                receive.rewind()
            await self._cluster.wait(AGAIN)

    async def _locate(self, pool: str, until: float, creates: bool) -> str:
        """Where to send a request: a pool that is not there is this node's to refuse or make."""
        while True:
            place = await self._cluster.locate(pool, until)
            if place is not None:
                return place
            if not creates or not _may_be_called(pool):
                return HERE
            if await self._cluster.claim(pool):
                return HERE
            await self._cluster.wait(AGAIN)

    async def _try_here(
        self, scope: Scope, path: bytes, call: Call, channel: tuple[Receive, Send]
    ) -> str:
        """Handle it here; what of it."""
        receive, send = channel
        outcome = DONE

        async def watched(message: Any) -> None:
            nonlocal outcome
            if message["type"] == "http.response.start" and message["status"] == 503:
                outcome = DONE if call.forwarded else _told(message["headers"])
            if outcome == DONE:
                await send(message)

        await self._here(scope, path, call, receive, watched)
        return outcome

    async def _try_there(
        self, pool: str, address: str, request: bytes, channel: tuple[Receive, Send]
    ) -> str:
        """Send it on; what of it."""
        receive, send = channel
        metrics, place = self._cluster.metrics, self._cluster.place_of(pool)
        token = 0 if place is None else place.token

        def began(one: PeerConnection) -> None:
            self._waiting[one] = _Waiting(pool, token)

        one: PeerConnection | None = None
        try:
            one = await self._peers.send(address, request, began)
            outcome = _told(one.headers) if one.status == 503 else DONE
            if metrics is not None:
                metrics.answered() if outcome == DONE else metrics.moved()
            if outcome == DONE:
                start = {"type": "http.response.start", "status": one.status}
                await send({**start, "headers": one.headers})
                await self._body(one, receive, send)
            return outcome
        except PeerError as error:
            if metrics is not None:
                metrics.cut()
            if one is not None:  # in the middle of a stream: the client connects again
                await send({"type": "http.response.body", "body": b""})
                return DONE
            return DOUBTFUL if error.sent else MOVED_ON
        finally:
            if one is not None:
                self._waiting.pop(one, None)
                self._peers.give_back(address, one)
            else:
                self._forget()

    async def _body(self, one: PeerConnection, receive: Receive, send: Send) -> None:
        """Hand on the body: at once, or for as long as both sides stay."""
        if one.whole:
            await send({"type": "http.response.body", "body": one.body})
            return
        self._waiting.pop(one, None)
        leaving = asyncio.ensure_future(_gone(receive, one))
        try:
            async for piece in one.pieces():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                if self._cluster.draining:
                    break
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()

    def _look(self) -> None:
        """Who owns what may have changed: nobody waits long for a node that owns it no longer."""
        now = time.monotonic()
        for one, waiting in list(self._waiting.items()):
            place = self._cluster.place_of(waiting.pool)
            if place is None or place.token == waiting.token:
                continue
            waiting.moved = waiting.moved or now
            if now - waiting.moved > PATIENCE:
                one.fail("another node owns the pool now")
        self._peers.keep_only(set(self._cluster.nodes.values()))

    def _forget(self) -> None:
        for one in [one for one in self._waiting if not one.usable]:
            self._waiting.pop(one)


class _Replay:
    """A receive channel that gives a body that was read, as often as it is wound back."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive
        self._given = False

    async def __call__(self) -> Any:
        if self._given:
            return await self._receive()
        self._given = True
        return self._message

    def rewind(self) -> None:
        """Give the body once more."""
        self._given = False


def pool_asked(path: bytes, body: bytes) -> str | None:
    """The pool that a request is about; None if it is about none, or that cannot be told.

    Args:
        path: Without the query.
        body: As received.
    """
    found = POOL.fullmatch(path)
    if found is not None:
        return _text(found[1])
    found = NAMED.fullmatch(path)
    if found is not None:
        name = _text(found[1])
        return None if name is None else pool_of(name)
    if path not in (b"/v1/outcomes", b"/v1/pools") or not body:
        return None
    try:
        about = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if path == b"/v1/pools":
        return about.id or None
    return pool_of(about.subject)


def _text(segment: bytes) -> str | None:
    """A part of a path; None if it is no text, which the router refuses."""
    try:
        return named(segment.decode("ascii"))
    except (UnicodeDecodeError, RefusalError):
        return None


def _may_be_called(pool: str) -> bool:
    try:
        msgspec.convert(pool, PoolId)
    except msgspec.ValidationError:
        return False
    return True


def _makes_pool(path: bytes) -> bool:
    return path == b"/v1/pools" or path.count(b"/") == 3


def _harmless(method: str, path: bytes, call: Call) -> bool:
    """Whether a request may be sent twice."""
    return method != "POST" or call.key is not None or CREATES.fullmatch(path) is None


def _told(headers: Any) -> str:
    """What a 503 says of itself."""
    for name, value in headers:
        if name == MOVED_HEADER:
            return MOVED_ON if value == b"yes" else DOUBTFUL
    return DONE


def _request(scope: Scope, path: bytes, call: Call, body: bytes, secret: str) -> bytes:
    """The bytes of a request as it is sent on."""
    query: bytes = scope.get("query_string", b"")
    target = path + (b"?" + query if query else b"")
    lines = [b"%s %s HTTP/1.1" % (scope["method"].encode(), target)]
    headers: Headers = scope["headers"]
    lines += [
        b"%s: %s" % (name, value)
        for name, value in headers
        if name not in HOP and name not in (b"content-length", b"expect", FORWARDED)
    ]
    lines.append(b"%s: %s %s" % (FORWARDED, secret.encode(), call.remote.encode("latin-1")))
    lines.append(b"content-length: %d\r\n\r\n" % len(body))
    return b"\r\n".join(lines) + body


async def _gone(receive: Receive, one: PeerConnection) -> None:
    """End a stream when its client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
    one.close()
