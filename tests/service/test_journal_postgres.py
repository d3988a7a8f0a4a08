"""The PostgreSQL journal: several nodes on one database, cut connections, damage."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from opportune.errors import InputError
from opportune.service import postgres
from opportune.service.journal import (
    Append,
    DoubtfulError,
    JournalError,
    Record,
    SequenceError,
    Snapshot,
    StaleTokenError,
)
from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_reading import shown
from tests.service.database import execute, postgres_url
from tests.service.journals import WAIT, write, written
from tests.waiting import eventually


def data(journal: PostgresJournal, pool: str = "a") -> list[bytes]:
    return [record.data for record in journal.read(pool)]


# ------------------------------------------------------------------------------ two nodes


def test_another_node_takes_over_and_the_old_owner_writes_nothing(
    nodes: list[PostgresJournal],
) -> None:
    old, new = nodes
    token = old.acquire("a")
    written(old, "a", token, b"1", b"2")
    taken = new.acquire("a")
    assert (token, taken) == (1, 2)
    assert new.last("a") == 2
    assert list(new.read("a")) == [Record(1, b"1"), Record(2, b"2")]
    with pytest.raises(StaleTokenError, match="present owner, 2"):
        write(old, "a", token, b"late").result(WAIT)
    with pytest.raises(StaleTokenError):
        old.save_snapshot("a", token, Snapshot(1, b"s")).result(WAIT)
    written(new, "a", taken, b"3")
    assert data(old) == data(new) == [b"1", b"2", b"3"]


def test_an_append_that_waits_while_another_takes_over_is_refused(
    nodes: list[PostgresJournal], schema: str
) -> None:
    """The old owner's append is at the database already, behind the row's lock."""
    old, _ = nodes
    token = old.acquire("a")
    options = f"-c search_path={schema}"
    with psycopg.connect(postgres_url(), options=options) as taking:
        taking.execute("UPDATE pool SET token = token + 1 WHERE name = 'a'")
        waiting = write_at(old, token, 1, b"late")
        state = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
        eventually(lambda: execute(state, backend(old)) == [("Lock",)])
        assert not waiting.done()
        taking.commit()
    assert isinstance(waiting.exception(WAIT), StaleTokenError)
    assert data(old) == []


def write_at(journal: PostgresJournal, token: int, first: int, *records: bytes) -> Any:
    return journal.append(Append("a", token, first, records))


def test_many_appends_of_two_nodes_keep_every_stream_whole(nodes: list[PostgresJournal]) -> None:
    def fill(journal: PostgresJournal, pool: str) -> None:
        token = journal.acquire(pool)
        futures = [journal.append(Append(pool, token, i + 1, [b"%d" % i])) for i in range(100)]
        for future in futures:
            future.result(WAIT)

    threads = [
        threading.Thread(target=fill, args=(journal, f"{n}-{i}"))
        for n, journal in enumerate(nodes)
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for pool in nodes[0].pools():
        assert data(nodes[1], pool) == [b"%d" % i for i in range(100)]
    assert nodes[0].check() == ()


def test_what_waits_is_one_commit(schema: str) -> None:
    told: list[int] = []
    journal = PostgresJournal(postgres_url(), lambda n, _: told.append(n), schema)
    token = journal.acquire("a")
    gate = threading.Event()
    commit = journal._commit

    def slow(appends: Sequence[Append], again: bool) -> list[JournalError | None]:
        gate.wait(WAIT)
        return commit(appends, again)

    journal._commit = slow  # type: ignore[method-assign]
    futures = [write_at(journal, token, i, b"x") for i in range(1, 30)]
    gate.set()
    for future in futures:
        future.result(WAIT)
    assert sum(told) == 29
    assert len(told) <= 2
    journal.close()


# -------------------------------------------------------------------------- lost connections


def backend(journal: PostgresJournal) -> int:
    """The server process of a journal's writer."""
    return journal._write.info.backend_pid


def test_a_cut_connection_is_made_again(nodes: list[PostgresJournal]) -> None:
    journal = nodes[0]
    token = journal.acquire("a")
    written(journal, "a", token, b"1")
    for i in range(3):
        execute("SELECT pg_terminate_backend(%s)", backend(journal))
        written(journal, "a", token, b"again %d" % i)
    assert data(journal) == [b"1", b"again 0", b"again 1", b"again 2"]
    assert journal.check() == ()


def test_an_answer_that_is_lost_behind_its_commit_is_not_written_twice(
    nodes: list[PostgresJournal],
) -> None:
    """The commit is done and the connection cut: the writer finds its records there."""
    journal = nodes[0]
    token = journal.acquire("a")
    commit, cuts = journal._commit, []

    def cut(appends: Sequence[Append], again: bool) -> list[JournalError | None]:
        problems = commit(appends, again)
        if not cuts:
            cuts.append(again)
            journal._write.close()
            raise psycopg.OperationalError("the connection is lost")
        return problems

    journal._commit = cut  # type: ignore[method-assign]
    write_at(journal, token, 1, b"1", b"2").result(WAIT)
    write_at(journal, token, 3, b"3").result(WAIT)
    assert cuts == [False]
    assert data(journal) == [b"1", b"2", b"3"]


def test_records_of_another_owner_are_not_taken_for_ours(nodes: list[PostgresJournal]) -> None:
    """Cut before the commit, and another node has taken over and written the same bytes."""
    old, new = nodes
    token = old.acquire("a")
    commit, cuts = old._commit, []

    def cut(appends: Sequence[Append], again: bool) -> list[JournalError | None]:
        if not cuts:
            cuts.append(again)
            written(new, "a", new.acquire("a"), b"1")
            old._write.close()
            raise psycopg.OperationalError("the connection is lost")
        return commit(appends, again)

    old._commit = cut  # type: ignore[method-assign]
    assert isinstance(write_at(old, token, 1, b"1").exception(WAIT), StaleTokenError)
    assert data(new) == [b"1"]


def test_a_database_that_stays_away_fails_appends_until_it_is_back(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = PostgresJournal(postgres_url(), schema=schema)
    token = journal.acquire("a")
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_patience", 0.3)
        patch.setattr(journal, "url", "postgresql://user:secret@127.0.0.1:1/nowhere")
        journal._write.close()
        for _ in range(2):
            error = write_at(journal, token, 1, b"1").exception(WAIT)
            assert isinstance(error, DoubtfulError)
            assert "when it is back" in str(error)
            assert "secret" not in str(error)
        assert data(journal) == []
    written(journal, "a", token, b"1")
    assert data(journal) == [b"1"]
    journal.close()


def test_a_full_disk_of_the_database_is_not_the_end(
    nodes: list[PostgresJournal], schema: str
) -> None:
    """A trigger raises what the database raises when a file cannot be extended."""
    journal = nodes[0]
    token = journal.acquire("a")
    execute(
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
        schema=schema,
    )
    execute(
        "CREATE TRIGGER no_room BEFORE INSERT ON frame EXECUTE FUNCTION no_room()", schema=schema
    )
    for _ in range(2):
        error = write_at(journal, token, 1, b"1").exception(WAIT)
        assert isinstance(error, JournalError)
        assert "Free some space" in str(error)
    execute("DROP TRIGGER no_room ON frame", schema=schema)
    written(journal, "a", token, b"1")
    assert data(journal) == [b"1"]


def test_a_fault_of_the_database_is_the_end(
    nodes: list[PostgresJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = nodes[0]
    token = journal.acquire("a")
    monkeypatch.setattr(postgres, "INSERT", "SELECT 1 / 0, %s, %s, %s, %s, %b, %s")
    for _ in range(2):
        with pytest.raises(JournalError, match="Mend it"):
            write_at(journal, token, 1, b"1").result(WAIT)
        monkeypatch.undo()
    assert data(journal) == []


# ---------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE frame SET data = '\\x9100' WHERE first = 3", "from 3 on are damaged"),
        ("DELETE FROM frame WHERE first = 3", "the next to be 3"),
        ("UPDATE pool SET last = 9", "said to be 9"),
        ("UPDATE snapshot SET data = '\\x00' WHERE sequence = 4", "of record 4 of pool 'a'"),
        ("UPDATE snapshot SET sequence = 99 WHERE sequence = 4", "up to record 6"),
    ],
)
def test_damage_is_found(
    nodes: list[PostgresJournal], schema: str, statement: str, told: str
) -> None:
    journal = nodes[0]
    token = journal.acquire("a")
    for i in range(3):
        written(journal, "a", token, b"%d" % i, b"-")
    journal.save_snapshot("a", token, Snapshot(2, b"early")).result(WAIT)
    journal.save_snapshot("a", token, Snapshot(4, b"late")).result(WAIT)
    assert journal.check() == ()
    execute(statement, schema=schema)
    assert told in "\n".join(str(problem) for problem in journal.check())


def test_a_damaged_snapshot_is_passed_over(nodes: list[PostgresJournal], schema: str) -> None:
    journal = nodes[0]
    token = journal.acquire("a")
    written(journal, "a", token, b"1", b"2", b"3")
    for sequence in (1, 2, 3):
        journal.save_snapshot("a", token, Snapshot(sequence, b"s%d" % sequence)).result(WAIT)
    assert len(execute("SELECT * FROM snapshot", schema=schema)) == 2
    execute("UPDATE snapshot SET data = '\\x00' WHERE sequence = 3", schema=schema)
    assert journal.snapshot("a") == Snapshot(2, b"s2")


# ---------------------------------------------------------------------------------- the rest


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    url = "postgresql://user:secret@127.0.0.1:1/nowhere"
    with pytest.raises(InputError) as caught:
        PostgresJournal(url, patience=1.0)
    assert "postgresql://127.0.0.1:1/nowhere" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert shown("no url at all") == "the database"


def test_backup_says_what_to_use(nodes: list[PostgresJournal], tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="pg_dump"):
        nodes[0].backup(tmp_path / "copy")


def test_a_closed_journal_answers_nothing(schema: str) -> None:
    journal = PostgresJournal(postgres_url(), schema=schema)
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.pools()


def test_a_second_append_of_the_same_numbers_is_out_of_sequence(
    nodes: list[PostgresJournal],
) -> None:
    """Only a lost connection makes records that are there count as written."""
    token = nodes[0].acquire("a")
    write_at(nodes[0], token, 1, b"1").result(WAIT)
    assert isinstance(write_at(nodes[0], token, 1, b"1").exception(WAIT), SequenceError)
