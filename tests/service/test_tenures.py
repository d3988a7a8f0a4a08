"""A pool that was read ahead, while its owner was silent, is the pool as read at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from opportune.service.commands import (
    Command,
    CreateTask,
    PutPool,
    PutScores,
    PutServer,
    PutTaskType,
)
from opportune.service.idempotency import KeyMemory, Ticket
from opportune.service.journal import Journal
from opportune.service.leases import PoolLeases
from opportune.service.loading import Loaded, load_pool
from opportune.service.owner import PoolOwner
from opportune.service.pending import Tenure
from opportune.service.postgres import PostgresJournal
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings
from opportune.service.shared_clock import SharedClock
from opportune.service.storing import state_hash
from opportune.service.tenures import TAKEN_OVER, Tenures
from tests.service.journals import JOURNALS

DECLARED: list[Command] = [
    PutPool(settings=PoolSettings()),
    PutTaskType(settings=TaskTypeSettings(id="t", mean_duration=1.0)),
    *(PutServer(settings=ServerSettings(id=f"s{i}")) for i in range(4)),
    PutScores(rows=[ScoreRow("t", f"s{i}", 0.1 * i) for i in range(4)]),
]
TASK = CreateTask(task_type="t")


class OneHost:
    """A node that reads pools and serves them.

    Attributes:
        owners: What it serves.
        read: Every pool that was read ahead.
        found: What was given to each owner.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.owners: dict[str, PoolOwner] = {}
        self.read: list[str] = []
        self.found: list[Loaded | None] = []

    def read_pool(self, pool: str, tenure: Tenure) -> PoolOwner:
        self.found.append(tenure.ahead)
        return PoolOwner(pool, self._journal, memory(), tenure=tenure)

    def read_ahead(self, pool: str) -> Loaded:
        self.read.append(pool)
        return load_pool(self._journal, pool, memory())

    def adopt(self, owner: PoolOwner) -> None:
        self.owners[owner.pool] = owner

    def drop(self, pool: str) -> PoolOwner | None:
        owner = self.owners.pop(pool, None)
        if owner is not None:
            owner.leave()
        return owner


def memory() -> KeyMemory:
    """No idempotency keys."""
    return KeyMemory(100, 1e9)


async def first_owner(journal: PostgresJournal) -> PoolOwner:
    """Of the pool ``p``, which is declared."""
    owner = PoolOwner("p", journal, memory())
    for command in DECLARED:
        await owner.ask(command)
    return owner


def tenures_of(journal: PostgresJournal) -> tuple[Tenures, OneHost]:
    """A node that holds nothing yet."""
    host = OneHost(journal)
    tenures = Tenures(journal, host, SharedClock(), lambda: None)
    tenures.start(PoolLeases(journal, "two", "http://two", 60.0))
    return tenures, host


async def read_ahead(tenures: Tenures, host: OneHost, n: int) -> None:
    """Read ``p`` ahead, as the n-th reading, and wait until a thread has begun with it."""
    tenures.read_ahead(["p"], ["p"])
    while len(host.read) < n:
        await asyncio.sleep(0.01)


def test_behind_the_end_of_a_lease_only_the_rest_is_read(nodes: list[PostgresJournal]) -> None:
    """What the silent owner still wrote meanwhile, keys included, is there; then it is fenced."""

    async def go() -> None:
        first = await first_owner(nodes[0])
        tenures, host = tenures_of(nodes[1])
        await read_ahead(tenures, host, 1)
        key = Ticket(b"k", b"f")
        made = await first.ask(TASK, key)
        assert await tenures.take("p", TAKEN_OVER, None)
        owner = host.owners["p"]
        assert host.found == [owner.loaded]
        assert state_hash(owner.state) == state_hash(first.state)
        known = owner.keys.find(b"k")
        assert known is not None
        again = await owner.again(known, key)
        assert (again.status, again.body) == (made.status, made.body) == (201, made.body)
        assert (await first.ask(TASK)).status == 503
        assert (await owner.ask(TASK)).status == 201
        whole = load_pool(nodes[0], "p", memory())
        assert state_hash(whole.state) == state_hash(owner.state)
        tenures.close()

    asyncio.run(go())


def test_what_was_read_ahead_of_an_owner_that_came_back_is_forgotten(
    nodes: list[PostgresJournal],
) -> None:
    async def go() -> None:
        first = await first_owner(nodes[0])
        tenures, host = tenures_of(nodes[1])
        await read_ahead(tenures, host, 1)
        tenures.read_ahead(["p"], ["p"])  # still silent: nothing is begun again
        tenures.read_ahead([], ["p"])  # another node is to be the next owner: it may not come
        assert list(tenures.ahead) == ["p"]
        tenures.read_ahead([], [])  # it has renewed its lease
        assert list(tenures.ahead) == []
        await first.ask(TASK)
        await read_ahead(tenures, host, 2)
        tenures.read_ahead([], [])
        assert await tenures.take("p", TAKEN_OVER, None)
        assert host.read == ["p", "p"]
        assert host.found == [None]
        assert state_hash(host.owners["p"].state) == state_hash(first.state)
        tenures.close()

    asyncio.run(go())


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_pool_read_in_two_parts_is_the_pool(kind: str, tmp_path: Path) -> None:
    journal = JOURNALS[kind](tmp_path, None)

    async def go() -> None:
        owner = PoolOwner("p", journal, memory(), snapshot_every=3)
        for command in DECLARED:
            await owner.ask(command)
        ahead = load_pool(journal, "p", memory())
        for _ in range(5):
            await owner.ask(TASK)
        last = journal.last("p")
        assert ahead.written < last
        assert load_pool(journal, "p", memory(), ahead) is ahead
        assert (ahead.written, state_hash(ahead.state)) == (last, state_hash(owner.state))
        ahead.written += 1  # a database that lost what was read, as after a failover
        anew = load_pool(journal, "p", memory(), ahead)
        assert anew is not ahead
        assert (anew.written, state_hash(anew.state)) == (last, state_hash(owner.state))
        await owner.close()

    asyncio.run(go())
    journal.close()
