"""Which pool a request is about, what may be sent twice, and how other nodes are read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from opportune.service.api.relay import CREATES, pool_asked
from opportune.service.forwarding import PeerConnection, PeerError, Peers
from opportune.service.shared_clock import SharedClock


@pytest.mark.parametrize(
    ("path", "body", "pool"),
    [
        (b"/v1/pools/p", b"", "p"),
        (b"/v1/pools/p/assignments", b"{}", "p"),
        (b"/v1/pools/p:rank", b"{}", "p"),
        (b"/v1/pools/a%2Fb/servers/x%2Fy", b"", "a/b"),
        (b"/v1/pools/%FF", b"", None),
        (b"/v1/tasks/p.t1:cancel", b"", "p"),
        (b"/v1/assignments/p.a7:complete", b"", "p"),
        (b"/v1/decisions/p.d7", b"", "p"),
        (b"/v1/decisions/nonsense", b"", None),
        (b"/v1/outcomes", b'{"subject":"q.a1","value":1}', "q"),
        (b"/v1/outcomes", b'{"subject":3}', None),
        (b"/v1/outcomes", b"\xff", None),
        (b"/v1/pools", b'{"id":"new"}', "new"),
        (b"/v1/pools", b"", None),
        (b"/metrics", b"", None),
    ],
)
def test_the_pool_of_a_request(path: bytes, body: bytes, pool: str | None) -> None:
    assert pool_asked(path, body) == pool


@pytest.mark.parametrize(
    ("path", "creates"),
    [
        (b"/v1/pools/p/assignments", True),
        (b"/v1/pools/p/tasks", True),
        (b"/v1/pools", True),
        (b"/v1/pools/p:rank", False),
        (b"/v1/assignments/p.a1:complete", False),
        (b"/v1/outcomes", False),
    ],
)
def test_what_is_not_the_same_when_done_twice(path: bytes, creates: bool) -> None:
    assert (CREATES.fullmatch(path) is not None) == creates


Say = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answered(say: Say, *, requests: int = 1) -> list[tuple[int, bytes]]:
    """Answers of a node that says this to each connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await say(reader, writer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    peers, found = Peers(), []
    try:
        for _ in range(requests):
            one = await peers.send(address, b"GET / HTTP/1.1\r\n\r\n", lambda _: None)
            body = one.body if one.whole else b"".join([piece async for piece in one.pieces()])
            found.append((one.status, body))
            peers.give_back(address, one)
    finally:
        peers.keep_only(set())
        server.close()
        await server.wait_closed()
    return found


def test_a_connection_is_used_again() -> None:
    connections = []

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        for body in (b"one", b"three"):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    found = asyncio.run(answered(twice, requests=2))
    assert found == [(200, b"one"), (200, b"three")]
    assert len(connections) == 1


def test_a_stream_is_read_piece_by_piece_to_its_end() -> None:
    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b"a", b"bc"):
            await asyncio.sleep(0.01)
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")

    assert asyncio.run(answered(stream)) == [(200, b"abc")]


def test_a_node_that_goes_away_may_have_got_the_request() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    with pytest.raises(PeerError) as caught:
        asyncio.run(answered(silent))
    assert caught.value.sent


def test_a_node_that_is_not_there_did_not_get_it() -> None:
    async def ask() -> PeerConnection:
        return await Peers().send("http://127.0.0.1:9", b"", lambda _: None)

    with pytest.raises(PeerError) as caught:
        asyncio.run(ask())
    assert not caught.value.sent


def test_the_shared_clock_follows_the_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    still = SimpleNamespace(monotonic=lambda: 7.0, time=lambda: 0.0)
    monkeypatch.setattr("opportune.service.shared_clock.time", still)
    clock = SharedClock()
    clock.set(1000.0, 0.0)
    assert clock() == 1007.0
    clock.set(1000.04, 0.0)  # a little ahead: approached
    assert clock() == pytest.approx(1007.01)
    clock.set(2000.0, 0.0)  # set: taken over
    assert clock() == 2007.0
