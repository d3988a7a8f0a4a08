"""Large plans are written in parts, between decisions; older journals have them whole."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opportune.errors import InputError, Problem
from opportune.service import commands, events, plan_parts
from opportune.service.idempotency import KeyMemory
from opportune.service.journal import Append, Journal, JournalError
from opportune.service.loading import load_pool
from opportune.service.notes import PlanPart, decode_note, is_note
from opportune.service.owner import PoolOwner
from opportune.service.plan_parts import part_records
from opportune.service.replaying import replay
from opportune.service.resources import PlanDocument, PoolSettings, ServerSettings, TaskTypeSettings
from opportune.service.sqlite import SqliteJournal
from opportune.service.storing import READABLE, restore, snapshot, state_hash
from tests.service.journals import JOURNALS
from tests.service.priced import priced, two_types
from tests.service.serving import Client, declare, service
from tests.waiting import eventually

PLANS = "/v1/pools/p/plans"
SCORES: dict[str, list[float | None]] = {"t": [0.9, 0.5, 0.1], "u": [0.8, 0.7, 0.6]}
OLD = Path(__file__).with_name("journal_schema_2.db.gz")
"""Written before there were parts: two plans (the second behind the snapshot), three decisions."""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan is large."""
    monkeypatch.setattr(plan_parts, "PART", 7)
    monkeypatch.setattr(plan_parts, "LARGE", 1)


def records(journal: Journal) -> list[bytes]:
    return [record for _, record in journal.read("p")]


def parts_in(journal: Journal) -> list[PlanPart]:
    notes = [decode_note(record) for record in records(journal) if is_note(record)]
    return [note for note in notes if isinstance(note, PlanPart)]


def plans_in(journal: Journal) -> list[events.PlanPut]:
    """The events as they are written."""
    found = [events.decode(record) for record in records(journal) if not is_note(record)]
    return [event for event in found if isinstance(event, events.PlanPut)]


def document(client: Client, plan: str) -> Any:
    return client.good("GET", f"{PLANS}/{plan}")["document"]


@pytest.mark.usefixtures("small_parts")
def test_a_large_plan_is_in_the_journal_in_parts_and_comes_back_whole(tmp_path: Path) -> None:
    database = tmp_path / "journal.db"
    with service(database) as client:
        declare(client, 3, SCORES)
        client.good("POST", PLANS, {"id": "one"})
        first, before = client.assign(), document(client, "one")
        shown = client.good("GET", "/v1/pools/p/events?limit=1000")["events"]
        told = next(one for one in shown if one["type"] == "PlanPut")
        assert set(told["event"]) == {"time"}
        assert {one["type"] for one in shown}.isdisjoint({"PlanPart"})
    journal = SqliteJournal(database)
    (put,) = plans_in(journal)
    parts = parts_in(journal)
    assert len(put.parts) == len(parts) > 10
    assert {part.plan for part in parts} == {"one"}
    assert max(len(part.data) for part in parts) == 7
    assert not any(array.data for array in put.plan.tables.values())
    found = replay(journal, "p")
    assert (found.different, found.problems, journal.check()) == (0, [], ())
    journal.close()
    with service(database) as client:  # from the snapshot
        assert document(client, "one") == before
        client.complete(first)
        assert client.assign()["servers"][0]["id"] == first["servers"][0]["id"]
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM snapshot")
    connection.close()
    with service(database) as client:  # from the records
        assert document(client, "one") == before


@pytest.mark.usefixtures("small_parts")
def test_what_was_written_of_a_plan_that_is_canceled_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "journal.db"
    real, written = PoolOwner.write_ahead, 0

    async def canceled(owner: PoolOwner, note: bytes) -> int:
        nonlocal written
        written += 1
        if written == 5:
            await owner.ask(commands.EndPlan(plan="one"))
        return await real(owner, note)

    monkeypatch.setattr(PoolOwner, "write_ahead", canceled)
    with service(database) as client:
        declare(client, 3, SCORES)
        assert client("POST", PLANS, {"id": "one"}).json()["code"] == "conflict"
        assert client.good("GET", f"{PLANS}/one")["state"] == "canceled"
        assert client.pool()["plan"] is None
        assert client.good("POST", PLANS, {"id": "one"})["active"]
    journal = SqliteJournal(database)
    (put,) = plans_in(journal)
    assert len(put.parts) < len(parts_in(journal))
    assert replay(journal, "p").problems == []
    journal.close()


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_cannot_be_written_begins_the_job_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with service() as client:
        declare(client, 3, SCORES)
        journal = client.node.journal
        failed: list[Append] = []
        append = journal.append

        def failing(one: Append) -> Any:
            if not failed and any(is_note(record) for record in one.records):
                failed.append(one)
                lost: Future[None] = Future()
                lost.set_exception(JournalError(Problem("journal", "the disk is full", "room")))
                return lost
            return append(one)

        monkeypatch.setattr(journal, "append", failing)
        assert client("POST", PLANS, {"id": "one"}).status_code == 503
        eventually(lambda: client("GET", f"{PLANS}/one").json().get("state") == "active")
        assert len(failed) == 1


@pytest.mark.usefixtures("small_parts")
def test_a_large_plan_from_elsewhere_is_written_in_parts_too(tmp_path: Path) -> None:
    database = tmp_path / "journal.db"
    with service(database) as client:
        declare(client, 3, SCORES)
        client.good("POST", PLANS, {"id": "one"})
        made = document(client, "one")
        before = len(parts_in(client.node.journal))
        wrong = {**made, "id": "two", "mean_duration": [1.0]}
        found = client.bad(422, "invalid", "PUT", f"{PLANS}/two", wrong)
        assert found["problems"][0]["field"] == "mean_duration"
        assert len(parts_in(client.node.journal)) == before
        for _ in range(2):  # what is there already is not written again
            assert client.good("PUT", f"{PLANS}/two", {**made, "id": "two"})["state"] == "draft"
            assert len(parts_in(client.node.journal)) == 2 * before
    with service(database) as client:
        assert document(client, "two") == {**made, "id": "two"}


def owned(journal: Journal, snapshot_after: int | None) -> tuple[PlanDocument, str]:
    """A pool with a plan in parts in a journal; the plan and the state's hash.

    Args:
        journal: Where it is written.
        snapshot_after: Parts after which a snapshot is taken, None for none.
    """

    async def run() -> tuple[PlanDocument, str]:
        owner, plan = PoolOwner("p", journal, KeyMemory()), priced()
        for command in (
            commands.PutPool(settings=PoolSettings()),
            *(commands.PutServer(settings=ServerSettings(id=f"s{r}")) for r in range(3)),
            *(commands.PutTaskType(settings=TaskTypeSettings(id=name)) for name in "ab"),
        ):
            assert (await owner.ask(command)).status < 300
        numbers = []
        for record in part_records(plan):
            between = owner.ask(commands.CreateTask(task_type="a"))
            numbers.append(await owner.write_ahead(record))
            await between
            if len(numbers) == snapshot_after:
                await asyncio.wrap_future(owner._save_snapshot())
        put = commands.PutPlan(plan=plan, parts=numbers, activate=True)
        assert (await owner.ask(put)).status == 201
        assert max(b - a for a, b in pairwise(numbers)) > 1
        return plan, state_hash(owner.state)

    return asyncio.run(run())


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened = JOURNALS[str(request.param)](tmp_path, None)
    yield opened
    opened.close()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("snapshot_after", [None, 3])
def test_the_next_owner_has_the_plan(journal: Journal, snapshot_after: int | None) -> None:
    """Also where a snapshot was taken in the midst of its parts, and where it was read ahead."""
    plan, known = owned(journal, snapshot_after)
    loaded = load_pool(journal, "p", KeyMemory())
    assert loaded.snapshot_at == (0 if snapshot_after is None else loaded.snapshot_at)
    assert (loaded.snapshot_at > 0) == (snapshot_after is not None)
    assert loaded.state.plans["plan"] == plan
    assert state_hash(loaded.state) == known
    assert replay(journal, "p").problems == []


@pytest.mark.usefixtures("small_parts")
def test_a_plan_is_not_read_without_its_parts(journal: Journal) -> None:
    owned(journal, None)
    (put,) = plans_in(journal)
    for wrong in (put.parts[:-1], put.parts[1:], [1, *put.parts[1:]]):
        broken = msgspec.structs.replace(put, parts=wrong)
        with pytest.raises(JournalError, match="damaged or missing"):
            plan_parts.whole_event(broken, journal, "p")


def test_a_small_plan_is_one_record(tmp_path: Path) -> None:
    database = tmp_path / "journal.db"
    with service(database) as client:
        declare(client, 3, SCORES)
        client.good("POST", PLANS, {"id": "one"})
    journal = SqliteJournal(database)
    (put,) = plans_in(journal)
    assert (put.parts, parts_in(journal)) == ([], [])
    assert all(put.plan.tables[name].data for name in ("order", "level", "index"))
    journal.close()


# ------------------------------------------------------------------------------ old journals


@pytest.fixture
def old(tmp_path: Path) -> Path:
    database = tmp_path / "old.db"
    database.write_bytes(gzip.decompress(OLD.read_bytes()))
    return database


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("from_snapshot", [True, False])
def test_a_journal_from_before_there_were_parts_is_read(old: Path, from_snapshot: bool) -> None:
    journal = SqliteJournal(old)
    assert journal.migrated == 1
    assert [put.parts for put in plans_in(journal)] == [[], []]
    found = replay(journal, "p")
    assert (found.decisions, found.different, found.problems) == (3, 0, [])
    assert load_pool(journal, "p", KeyMemory()).snapshot_at > 0
    journal.close()
    if not from_snapshot:
        with sqlite3.connect(old) as connection:
            connection.execute("DELETE FROM snapshot")
        connection.close()
    with service(old) as client:
        assert [one["id"] for one in client.good("GET", PLANS)] == ["one", "two"]
        assert client.pool()["plan"] == "one"
        assert client.good("POST", PLANS, {"id": "three"})["active"]
        client.complete("p.a2")
        assert client.assign("u")["plan"] == "three"
    journal = SqliteJournal(old)
    assert [bool(put.parts) for put in plans_in(journal)] == [False, False, True]
    assert replay(journal, "p").problems == []
    journal.close()


def test_a_snapshot_of_an_unknown_version_is_refused() -> None:
    state = two_types().state
    fields = msgspec.msgpack.decode(snapshot(state))
    for version in READABLE:
        assert restore(msgspec.msgpack.encode([version, *fields[1:]])).pool == state.pool
    for version in (1, max(READABLE) + 1):
        with pytest.raises(InputError, match="version"):
            restore(msgspec.msgpack.encode([version, *fields[1:]]))
