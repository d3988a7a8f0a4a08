"""An HTTP transport that keeps its cost when many requests are on their way at once.

The usual pool of httpx looks at all of its connections for every request: with a hundred of them
that is milliseconds of work, and a busy machine falls behind by it. Here every connection is for
itself, and the one that was used last is taken.
"""

from __future__ import annotations

import ssl

import httpx


class Connections(httpx.AsyncBaseTransport):
    """As many connections as requests at once; for servers on this machine, without TLS."""

    def __init__(self) -> None:
        self._free: list[httpx.AsyncHTTPTransport] = []
        self._unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # makes a connection cheap
        self._one = httpx.Limits(max_connections=1)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and read the whole answer."""
        if self._free:
            connection = self._free.pop()
        else:
            connection = httpx.AsyncHTTPTransport(verify=self._unused, limits=self._one)
        try:
            response = await connection.handle_async_request(request)
            await response.aread()
        except BaseException:
            await connection.aclose()
            raise
        self._free.append(connection)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        while self._free:
            await self._free.pop().aclose()


def http_client(url: str) -> httpx.AsyncClient:
    """A client of a server on this machine."""
    return httpx.AsyncClient(base_url=url, timeout=120.0, transport=Connections())
