"""Streams of events: many at once, with keys that end, behind cursors of another journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opportune.service.api import tail
from opportune.service.api.calls import Call
from opportune.service.api.stream import follow_events
from opportune.service.commands import CreateTask, PutPool, PutServer, PutTaskType
from opportune.service.journal import Record
from opportune.service.keys import LOCAL, Caller, KeyFile
from opportune.service.node import Node
from opportune.service.resources import PoolSettings, ServerSettings, TaskTypeSettings
from opportune.service.settings import ServiceSettings, key_file_beside
from tests.service.serving import declare, service

WAIT = 60.0


async def _create(node: Node) -> None:
    reply = await node.owner("p").ask(CreateTask(task_type="t"))
    assert reply.status == 201


async def _declared(node: Node) -> None:
    """A pool with a server of many slots."""
    owner = node.owner_or_new("p")
    for command in (
        PutPool(settings=PoolSettings()),
        PutServer(settings=ServerSettings(id="s", capacity=10_000)),
        PutServer(settings=ServerSettings(id="r", capacity=10_000)),
        PutTaskType(settings=TaskTypeSettings(id="t")),
    ):
        assert (await owner.ask(command)).status < 300


def _served(work: Callable[[Node], Any], **settings: Any) -> Any:
    """What a coroutine gives on a running node."""

    async def run() -> Any:
        node = Node(ServiceSettings(**settings))
        node.load()
        node.start()
        try:
            await _declared(node)
            return await asyncio.wait_for(work(node), WAIT)
        finally:
            await node.close()

    return asyncio.run(run())


async def _read_on(stream: AsyncGenerator[bytes, None], kind: bytes, n: int) -> bytes:
    """A stream until it has told n events of a kind."""
    told = b""
    async for piece in stream:
        told += piece
        if told.count(b"event: " + kind) >= n:
            break
    return told


@pytest.mark.parametrize("n", [1, 200])
def test_what_happens_is_read_once_for_all_who_follow(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 500 streams read and wrote out each event: decisions took ten times as long."""

    async def work(node: Node) -> tuple[set[bytes], int]:
        start = node.owner("p").written
        read, reads = node.journal.read, []

        def counted(pool: str, after: int = 0, limit: int | None = None) -> Iterator[Record]:
            reads.append(after)
            return read(pool, after, limit)

        monkeypatch.setattr(node.journal, "read", counted)
        call = Call(node, LOCAL, b"", "", None)
        streams = [follow_events(call, "p", start) for _ in range(n)]
        for one in streams:
            await anext(one)
        told = [asyncio.ensure_future(_read_on(one, b"Offered", 20)) for one in streams]
        for _ in range(20):
            await _create(node)
        found = await asyncio.gather(*told)
        for one in streams:
            await one.aclose()
        monkeypatch.undo()
        return set(found), len(reads)

    found, reads = _served(work)
    assert len(found) == 1  # all were told the same
    numbers = [int(line[4:]) for line in found.pop().splitlines() if line.startswith(b"id: ")]
    assert numbers == sorted(set(numbers))
    assert reads <= 40
    assert not tail._TAILS  # nothing is kept when nobody follows


def test_who_comes_late_or_is_slow_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers at unlike places, and a tail that is shorter than what happened meanwhile."""
    monkeypatch.setattr(tail, "MOST", 7)

    async def work(node: Node) -> list[bytes]:
        start = node.owner("p").written
        call = Call(node, LOCAL, b"", "", None)
        slow, quick = (follow_events(call, "p", start) for _ in range(2))
        await anext(slow)
        await anext(quick)
        found = []
        for _ in range(3):
            for _ in range(10):
                await _create(node)
            found.append(await _read_on(quick, b"Offered", 10))
        late = follow_events(call, "p", start)
        every = [b"".join(found), await _read_on(slow, b"Offered", 30)]
        every.append(await _read_on(late, b"Offered", 30))
        for one in (slow, quick, late):
            await one.aclose()
        return every

    for told in _served(work):
        events = [line for line in told.splitlines() if line.startswith(b"event: ")]
        assert events.count(b"event: TaskCreated") == events.count(b"event: Offered") == 30
        numbers = [int(line[4:]) for line in told.splitlines() if line.startswith(b"id: ")]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("how", ["revoked", "needed"])
def test_a_stream_ends_with_its_key(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream went on telling events for ever to a key that was revoked."""
    database = tmp_path / "journal.db"
    keys = KeyFile(key_file_beside(database))
    made = "" if how == "needed" else keys.create(["read"])

    async def work(node: Node) -> bytes:
        caller = LOCAL if how == "needed" else node.keys.caller(made)  # type: ignore[union-attr]
        assert isinstance(caller, Caller)
        stream = follow_events(Call(node, caller, b"", "", None), "p", node.owner("p").written)
        await anext(stream)
        await _create(node)
        assert b"TaskCreated" in await anext(stream)
        if how == "needed":
            keys.create(["admin"])
        else:
            keys.revoke(made.split("_")[1])
        monkeypatch.setattr("opportune.service.keys.LOOK_AGAIN", 0.0)
        await _create(node)
        return b"".join([piece async for piece in stream])

    assert _served(work, database=database) == b""


def test_a_cursor_of_another_journal_is_refused() -> None:
    """Whoever follows a pool that was restored waited, and then missed what came until then."""
    with service() as client:
        declare(client)
        last = client.node.owner("p").written
        path = f"/v1/pools/p/events?after={last}"
        assert client.good("GET", path) == {"events": [], "next": last}
        path = f"/v1/pools/p/events?after={last + 1}"
        (item,) = client.bad(409, "conflict", "GET", path)["problems"]
        assert (item["field"], item["value"]) == ("after", str(last + 1))
        told = client(
            "GET",
            "/v1/pools/p/events",
            accept="text/event-stream",
            last_event_id=str(last + 1),
        )
        assert told.status_code == 409
