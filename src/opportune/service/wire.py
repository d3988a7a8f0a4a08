"""A small HTTP client for load: kept-alive connections, one request at a time on each.

It reads only what our own service sends (a status line and ``Content-Length``), and costs a
fraction of a general client, which on a shared machine would be measured along with the service.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast

from opportune.errors import OpportuneError, Problem


class Answered(NamedTuple):
    """A response: its status and its body."""

    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: asyncio.Future[Answered] | None = None
        self._buffer = b""
        self._need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed; who waits gets an error."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the service closed the connection"))
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Some of a response."""
        self._buffer = self._buffer + data if self._buffer else data
        if self._need < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._need = end + 4 + _content_length(self._buffer[:end])
        if len(self._buffer) < self._need or self._waiting is None:
            return
        whole, self._buffer, self._need = self._buffer, b"", -1
        body = whole[whole.find(b"\r\n\r\n") + 4 :]
        if not self._waiting.done():
            self._waiting.set_result(Answered(int(whole[9:12]), body))

    def send(self, request: bytes) -> asyncio.Future[Answered]:
        """Send a request; the response comes later.

        Raises:
            ConnectionError: If the connection is closed.
        """
        if self._transport is None:
            raise ConnectionError("the connection is closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()


class Address(NamedTuple):
    """Where a service listens, and the API key to show it."""

    host: str
    port: int
    key: str = ""

    async def connect(self) -> Connection:
        """A new connection.

        Raises:
            OpportuneError: If nobody listens there.
        """
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(Connection, self.host, self.port)
        except OSError as error:
            told = Problem("--url", f"{self.host}:{self.port}", "a running service", str(error))
            raise OpportuneError(told) from error
        return connection

    def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
        """The bytes of a request.

        Args:
            method: Such as POST.
            path: With what is to be percent-encoded encoded.
            body: JSON, or nothing.
            headers: More header lines, each ended by a line break.
        """
        auth = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{auth}{headers}"
        kind = "Content-Type: application/json\r\n" if body else ""
        return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    end = head.find(b"\r\n", at + 2)
    return int(head[at + 17 : end if end >= 0 else len(head)])
