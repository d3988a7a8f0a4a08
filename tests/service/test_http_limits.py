"""A request that does not end is ended: too long a head, or one that stands still."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from opportune.service.http_limits import MOST_HEAD
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


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",  # TLS
        b"GET /v1/pools HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \x7f\r\n\r\n",
        START + b"Content-Length: -1\r\n\r\n",
        START + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_problem_too(address: str, sent: bytes) -> None:
    """It was answered in plain text, the only answer that is no problem document."""
    said = answer(address, sent, b"", 0)
    assert said is not None
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "malformed"


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


# ----------------------------------------------------------------------- what stands still

SIZED = b"PUT /v1/pools/q HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n"
TRICKLE = 0.05
"""Seconds between two bytes of a sender that never comes to an end."""


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that waits three seconds for a request."""
    with served("--request-timeout", "3", folder=tmp_path_factory.mktemp("hasty")) as (_, where):
        yield where


def slowly(address: str, first: bytes, piece: bytes) -> bytes:
    """What comes back for a first piece and then one small piece after another, for ever."""
    where = urlsplit(address)
    said = b""
    with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
        connection.sendall(first)
        connection.settimeout(TRICKLE)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                with suppress(ConnectionError):
                    connection.sendall(piece)
                continue
            except ConnectionError:
                return said
            if not part:
                return said
            said += part
    raise AssertionError("the connection stays open")


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (START, b""),
        (START + b"X: ", b"a"),
        (START, b"X: a\r\n"),
        (SIZED + b"{", b""),
        (POST, b"1\r\n \r\n"),
        (POST + b"2\r\n{}\r\n0\r\n", b"X: a\r\n"),
    ],
    ids=["head", "value", "headers", "body", "chunks", "trailer"],
)
def test_a_request_that_stands_still_is_ended(hasty: str, first: bytes, piece: bytes) -> None:
    """Also if a byte comes now and then: it bought another 75 seconds, or all the time there is."""
    said = slowly(hasty, first, piece)
    assert said == b"" or said.startswith(b"HTTP/1.1 408 Request Timeout")
    if not piece:  # nothing of ours was on its way that would have reset the connection
        assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == "too-slow"
    assert ask(hasty, "/readyz") == {"status": "ready"}


def test_a_second_request_that_stands_still_is_ended(hasty: str) -> None:
    said = slowly(hasty, START + b"\r\n" + START, b"")
    assert said.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in said


@pytest.mark.parametrize("piece", [b"", b"\r\n"], ids=["nothing", "empty lines"])
def test_a_connection_on_which_nothing_is_asked_is_closed(hasty: str, piece: bytes) -> None:
    said = slowly(hasty, b"", piece)
    assert said == b"" or (piece and said.startswith(b"HTTP/1.1 408"))


def test_what_is_refused_before_its_body_has_come_is_ended_without_a_second_answer(
    hasty: str,
) -> None:
    head = b"PUT /v1/pools/q HTTP/1.1\r\nHost: elsewhere\r\nContent-Length: 9\r\n\r\n"
    said = slowly(hasty, head, b"")
    assert said.startswith(b"HTTP/1.1 403")
    assert said.count(b"HTTP/1.1") == 1


def test_a_long_body_has_the_time_that_its_bytes_give(hasty: str) -> None:
    """Longer than a request that stands still has."""
    ask(hasty, "/v1/pools", {"id": "long"})
    where, pieces = urlsplit(hasty), 120
    body = json.dumps({"rows": []}).encode()
    length = len(body) + pieces * 1000
    head = b"PUT /v1/pools/long/scores HTTP/1.1\r\nHost: 127.0.0.1\r\n" + CLOSE
    with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % length + body)
        for _ in range(pieces):
            time.sleep(TRICKLE)
            connection.sendall(b" " * 1000)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_an_answer_may_take_longer_than_a_request(hasty: str) -> None:
    """A stream of events stays open, and empty lines behind a request change nothing."""
    ask(hasty, "/v1/pools", {"id": "stream"})
    where = urlsplit(hasty)
    with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
        get = b"GET /v1/pools/stream/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        connection.sendall(get + b"Accept: text/event-stream\r\n\r\n")
        time.sleep(TRICKLE)
        connection.sendall(b"\r\n")
        began, said = time.monotonic(), b""
        while time.monotonic() < began + 5.0:
            connection.settimeout(0.5)
            with suppress(TimeoutError):
                part = connection.recv(1 << 16)
                assert part
                said += part
        assert said.startswith(b"HTTP/1.1 200")
