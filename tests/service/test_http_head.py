"""A head that does not end is ended, however it is cut; bodies may be long."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from opportune.service.http_head import MOST_HEAD
from tests.service.test_serve_commands import ask, served

START = b"GET /v1/pools HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/pools HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSE = b"Connection: close\r\n"
PIECE = 1 << 14


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that runs."""
    with served(folder=tmp_path_factory.mktemp("head")) as (_, where):
        yield where


def answer(address: str, first: bytes, piece: bytes, n: int) -> bytes | None:
    """What comes back for a first piece and n further ones; None if nothing does, nor the end."""
    where = urlsplit(address)
    with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
        said = b""
        try:
            connection.sendall(first)
            for _ in range(n):
                connection.sendall(piece)
            while part := connection.recv(1 << 16):
                said += part
        except TimeoutError:
            return None
        except ConnectionError:
            pass  # it was closed while we still sent
    return said


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (START + b"X: ", b"a" * PIECE),
        (START, b"X: " + b"a" * (PIECE - 5) + b"\r\n"),
        (POST + b"2\r\n{}\r\n0\r\nX: ", b"a" * PIECE),
    ],
    ids=["value", "headers", "trailer"],
)
def test_an_endless_head_is_ended(address: str, first: bytes, piece: bytes) -> None:
    """200 MB of one header went into memory, without a key."""
    said = answer(address, first, piece, 1000)
    assert said is not None
    assert said == b"" or said.startswith(b"HTTP/1.1 413")  # a reset may overtake it
    assert ask(address, "/readyz") == {"status": "ready"}


def test_a_head_within_the_limit_and_a_long_body_pass(address: str) -> None:
    rest = b"a" * (MOST_HEAD - 10_000) + b"\r\n" + CLOSE + b"\r\n"
    said = answer(address, START + b"X: ", rest, 1)
    assert said is not None
    assert said.startswith(b"HTTP/1.1 200")
    ask(address, "/v1/pools", {"id": "p"})
    body = json.dumps({"rows": []}).encode() + b" " * 5_000_000
    head = b"PUT /v1/pools/p/scores HTTP/1.1\r\nHost: 127.0.0.1\r\n" + CLOSE
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    said = answer(address, head, body, 1)
    assert said is not None
    assert said.startswith(b"HTTP/1.1 200")
