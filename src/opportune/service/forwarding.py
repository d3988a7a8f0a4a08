"""Requests sent on to another node: kept-alive connections, answers read as they come.

A forwarded request costs both nodes, so this is lean: the bytes of the request are written as they
are, the answer is read by the C parser that the web server uses. An answer without a length (a
stream of events) is handed on piece by piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import httptools

MOST_IDLE = 128
"""Idle connections kept to one node."""

CONNECT_SECONDS = 2.0
"""For a connection to another node."""

HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Headers of one connection, which are not sent on."""

FORWARDED = b"opportune-forwarded"
"""A header between nodes: the secret that they share, and for whom the request is."""

Headers = list[tuple[bytes, bytes]]


class PeerError(Exception):
    """Another node gave no answer.

    Attributes:
        sent: Whether it may have got the request.
    """

    def __init__(self, told: str, sent: bool) -> None:
        super().__init__(told)
        self.sent = sent


class PeerConnection(asyncio.Protocol):
    """One connection to another node, one request at a time.

    Attributes:
        status, headers, body: Of the last answer; the body as far as it has come.
        whole: Whether all of the answer is there.
        usable: Whether it can take another request.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: Headers = []
        self.body = b""
        self.whole = True
        self.usable = True
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._parser: Any = None
        self._pieces: list[bytes] = []
        self._has_length = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed; who waits gets an error."""
        self._transport, self.usable = None, False
        self.fail("the node closed the connection")

    def fail(self, told: str) -> None:
        """Let who waits for the answer wait no longer; the connection is not used again."""
        self.usable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(PeerError(told, sent=True))

    def data_received(self, data: bytes) -> None:
        """Some of an answer."""
        if self._parser is None:
            self.close()  # it says something that was not asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(f"the node answers no HTTP: {error}")
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header (the parser's)."""
        name = name.lower()
        self._has_length = self._has_length or name == b"content-length"
        if name not in HOP:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """All headers (the parser's)."""
        self.status = self._parser.get_status_code()
        if not self._has_length and self.status != 204:
            self._wake()

    def on_body(self, body: bytes) -> None:
        """A piece of the body (the parser's)."""
        self._pieces.append(body)
        if not self._has_length:
            self._wake()

    def on_message_complete(self) -> None:
        """The end (the parser's)."""
        self.whole = True
        self.usable = self.usable and self._parser.should_keep_alive()
        self._parser = None
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def send(self, request: bytes) -> None:
        """Send a request and wait for its answer: all of it, or the headers of a stream.

        Raises:
            PeerError: If none comes.
        """
        if self._transport is None:
            raise PeerError("the connection is closed", sent=False)
        self.status, self.headers, self.body = 0, [], b""
        self.whole, self._has_length, self._pieces = False, False, []
        self._parser = httptools.HttpResponseParser(self)
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._waiting
        if self.whole:
            self.body = b"".join(self._pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of a stream, as it comes.

        Raises:
            PeerError: If it is cut.
        """
        while True:
            found, self._pieces = b"".join(self._pieces), []
            if found:
                yield found
            elif self.whole:
                return
            elif not self.usable:
                raise PeerError("the stream was cut", sent=True)
            else:
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting

    def close(self) -> None:
        """Close it."""
        self.usable = False
        if self._transport is not None:
            self._transport.close()


class Peers:
    """Connections to the other nodes."""

    def __init__(self) -> None:
        self._idle: dict[str, list[PeerConnection]] = {}

    async def send(
        self, address: str, request: bytes, began: Callable[[PeerConnection], None]
    ) -> PeerConnection:
        """Send a request; the connection with its answer, to be given back.

        Args:
            address: ``http://HOST:PORT``.
            request: Its bytes.
            began: Told which connection waits for the answer.

        Raises:
            PeerError: If there is no answer.
        """
        one = self._free(address) or await self._connect(address)
        began(one)
        try:
            await one.send(request)
        except BaseException:
            one.close()
            raise
        return one

    def give_back(self, address: str, one: PeerConnection) -> None:
        """A connection whose answer was read, or will not be."""
        idle = self._idle.setdefault(address, [])
        if one.whole and one.usable and len(idle) < MOST_IDLE:
            idle.append(one)
        else:
            one.close()

    def keep_only(self, addresses: set[str]) -> None:
        """Close idle connections to nodes that are not there any more."""
        for address in self._idle.keys() - addresses:
            for one in self._idle.pop(address):
                one.close()

    def _free(self, address: str) -> PeerConnection | None:
        idle = self._idle.get(address, [])
        while idle:
            one = idle.pop()
            if one.usable:
                return one
        return None

    async def _connect(self, address: str) -> PeerConnection:
        parts = urlsplit(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, one = await loop.create_connection(
                    PeerConnection, parts.hostname or "", parts.port or 80
                )
        except (OSError, TimeoutError) as error:
            raise PeerError(f"{address}: {error}", sent=False) from error
        return one
