"""examples/llm-router: every mode answers every request once, also when the service is killed.

How many are refused is a matter of how busy the machine is; that it is told is checked.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from tests.examples.modules import EXAMPLES, modules_of

SCRIPT = EXAMPLES / "llm-router" / "drive.py"


def drive(*words: str) -> list[dict[str, Any]]:
    """The rows of a short run."""
    command = [sys.executable, str(SCRIPT), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def check(row: dict[str, Any]) -> None:
    """Every request has one answer, every good answer is counted once."""
    assert row["answers"] == row["sent"] == row["requests"] > 0
    assert row["answered"] + row["refused"] == row["sent"]
    assert row["failed"] == 0
    assert 0 < row["good"] <= row["answered"]
    assert row["held"] > 0.9  # no place is given back before its answer is there
    assert row["late_ms_p99"] >= 0.0


def test_modes_that_count_in_the_gateway() -> None:
    rank, best = drive("--seconds", "8", "--speed", "4", "--modes", "rank", "--modes", "best-score")
    check(rank)
    check(best)
    assert (rank["booked"]["created"], rank["booked"]["open"]) == (0, 0)  # nothing was stored


def test_assignments_survive_the_service_being_killed() -> None:
    (row,) = drive("--seconds", "16", "--speed", "4", "--modes", "assignments", "--restart")
    check(row)
    booked = row["booked"]
    assert booked["created"] == row["sent"]
    assert (booked["done"], booked["dropped"]) == (row["answered"], row["refused"])
    assert (booked["outcomes"], booked["reward"]) == (row["answered"], row["good"])
    assert (booked["open"], booked["capacity_mismatch"]) == (0, 0)


def row(mode: str, held: float, late: float = 1.0) -> dict[str, Any]:
    """A row as far as notes read it."""
    return {"mode": mode, "held": held, "late_ms_p99": late}


def test_a_machine_that_is_too_slow_is_told() -> None:
    with modules_of("llm-router") as load:
        notes = load("drive").notes
        assert notes([row("rank", 1.02), row("assignments", 1.1)], 0.75, 4.0) == []
        (told,) = notes([row("rank", 1.0), row("assignments", 1.25)], 0.75, 4.0)
        assert "lags at 4 times the speed: in assignments places were held up to 25 %" in told
        assert "a load of 0.94 in place of 0.75" in told
        assert "--speed 1 would do" in told
        (told,) = notes([row("rank", 1.5), row("assignments", 1.6)], 0.75, 4.0)
        assert "does not carry 4 times the speed: in rank, assignments places" in told
        assert "--speed 0.6 would do" in told
        (told,) = notes([row("rank", 1.0, late=300.0)], 0.75, 4.0)
        assert "by 300 ms and more, where an answer takes 400 ms" in told


def test_a_connection_carries_one_request_at_a_time() -> None:
    busy: list[int] = []
    ended: list[asyncio.Future[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy.append(0)
        mine = len(busy) - 1
        ended.append(asyncio.get_running_loop().create_future())
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                busy[mine] += 1
                await asyncio.sleep(0.02)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()
        await writer.wait_closed()
        ended[mine].set_result(None)

    async def run() -> list[str]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with modules_of("llm-router") as load:
            http = load("sending").http_client(f"http://127.0.0.1:{port}")
        told = [(await http.get("/")).text for _ in range(3)]
        told += [one.text for one in await asyncio.gather(*(http.get("/") for _ in range(8)))]
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get("ftp://127.0.0.1/")
        await http.aclose()
        await asyncio.gather(*ended)
        server.close()
        await server.wait_closed()
        return told

    assert asyncio.run(run()) == ["ok"] * 11
    assert sum(busy) == 11
    assert busy[0] >= 4  # kept, and used again
    assert 2 <= len(busy) <= 8


def test_what_is_no_request_is_refused() -> None:
    with modules_of("llm-router") as load:
        gateway, routes = load("gateway"), load("routes")
        one = gateway.Gateway(routes.BestScore(), "http://127.0.0.1:9")
        with TestClient(gateway.application(one)) as client:
            for body in ({}, {"messages": []}, {"messages": [{"content": 7}]}, {"messages": "x"}):
                refused = client.post("/v1/chat/completions", json=body)
                assert (refused.status_code, refused.json()["detail"][:9]) == (400, "messages:")
            assert client.post("/v1/feedback", json={"id": "a"}).status_code == 400
            assert client.post("/v1/feedback", json={"id": "a", "good": True}).status_code == 404
            assert client.get("/counts").json()["requests"] == 0
