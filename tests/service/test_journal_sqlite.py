"""The SQLite journal: group commit, lock, damage, backup, versions and migrations."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from opportune.errors import InputError
from opportune.service.journal import Append, JournalError, Snapshot, StaleTokenError
from opportune.service.migrations import STEPS, migrate, schema_version
from opportune.service.sqlite import SqliteJournal
from opportune.service.sqlite_file import backup_file, check_sqlite_version
from tests.service.full_disk import Disk
from tests.service.journals import WAIT, write, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(path)
    yield opened
    opened.close()


def test_a_write_ahead_log_with_full_synchronization(journal: SqliteJournal) -> None:
    assert journal._write.pragma("journal_mode") == "wal"
    assert journal._write.pragma("synchronous") == 2


def test_what_waits_is_one_commit(path: Path) -> None:
    """While the writer is busy, appends of two pools queue; then they are one transaction."""
    told: list[int] = []
    journal = SqliteJournal(path, lambda count, seconds: told.append(count))
    a, b = journal.acquire("a"), journal.acquire("b")
    gate = threading.Event()
    journal._insert, insert = lambda rows: (gate.wait(WAIT), insert(rows))[1], journal._insert  # type: ignore[method-assign]
    futures = [journal.append(Append("a", a, 1, [b"1"]))]
    futures += [journal.append(Append("a", a, i, [b"x"])) for i in range(2, 20)]
    futures += [journal.append(Append("b", b, i, [b"y"])) for i in range(1, 10)]
    gate.set()
    for future in futures:
        future.result(WAIT)
    assert sum(told) == 28
    assert len(told) <= 2
    journal.close()


def test_a_second_process_is_refused(journal: SqliteJournal, path: Path) -> None:
    with pytest.raises(InputError, match="no other process has open"):
        SqliteJournal(path)
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from opportune.errors import InputError\n"
        "from opportune.service.sqlite import SqliteJournal\n"
        "try:\n    SqliteJournal(Path(sys.argv[1]))\n"
        "except InputError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert "no other process has open" in done.stdout


def test_the_lock_ends_with_the_journal(path: Path) -> None:
    SqliteJournal(path).close()
    SqliteJournal(path).close()


def test_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a path to write to"):
        SqliteJournal(tmp_path / "nowhere" / "journal.db")


# ---------------------------------------------------------------------------------- damage


def damage(path: Path, statement: str, *values: object) -> None:
    """Change a closed journal behind its back."""
    connection = apsw.Connection(str(path))
    connection.execute(statement, values)  # type: ignore[arg-type]
    connection.close()


def filled(path: Path) -> None:
    """A closed journal with three frames and a snapshot."""
    journal = SqliteJournal(path)
    token = journal.acquire("a")
    for i in range(3):
        written(journal, "a", token, b"%d" % i, b"-")
    journal.save_snapshot("a", token, Snapshot(2, b"early")).result(WAIT)
    journal.save_snapshot("a", token, Snapshot(4, b"late")).result(WAIT)
    journal.close()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE frame SET data = x'9100' WHERE first = 3", "from 3 on are damaged"),
        ("DELETE FROM frame WHERE first = 3", "the next to be 3"),
        ("UPDATE frame SET last = 9 WHERE first = 5", "from 7 on are damaged or missing"),
        ("UPDATE snapshot SET data = x'00' WHERE sequence = 4", "of record 4 of pool 'a'"),
        ("UPDATE snapshot SET sequence = 99 WHERE sequence = 4", "up to record 6"),
    ],
)
def test_damage_is_found(path: Path, statement: str, told: str) -> None:
    filled(path)
    damage(path, statement)
    journal = SqliteJournal(path)
    assert told in "\n".join(str(problem) for problem in journal.check())
    journal.close()


@pytest.mark.parametrize(
    "statement",
    ["UPDATE frame SET data = x'9100' WHERE first = 3", "DELETE FROM frame WHERE first = 3"],
)
def test_damaged_records_are_never_handed_out(path: Path, statement: str) -> None:
    filled(path)
    damage(path, statement)
    journal = SqliteJournal(path)
    records = journal.read("a")
    assert [next(records).data for _ in range(2)] == [b"0", b"-"]
    with pytest.raises(JournalError, match="estore a backup"):
        next(records)
    journal.close()


def test_a_damaged_snapshot_gives_way_to_the_one_before(path: Path) -> None:
    filled(path)
    damage(path, "UPDATE snapshot SET data = x'00' WHERE sequence = 4")
    journal = SqliteJournal(path)
    assert journal.snapshot("a") == Snapshot(2, b"early")
    journal.close()


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"scores" * 1000)
    with pytest.raises(InputError, match="a journal of opportune"):
        SqliteJournal(path)


def test_storage_that_fails_fails_the_append_and_all_later_ones(path: Path) -> None:
    journal = SqliteJournal(path)
    token = journal.acquire("a")
    written(journal, "a", token, b"1")

    def fail(rows: object) -> None:
        raise apsw.IOError("disk I/O error")

    journal._insert = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(JournalError, match="disk I/O error"):
        write(journal, "a", token, b"2").result(WAIT)
    del journal._insert
    with pytest.raises(JournalError, match="end it, then restart"):
        write(journal, "a", token, b"2").result(WAIT)
    assert journal.last("a") == 1
    journal.close()


def test_a_full_disk_is_not_the_end(path: Path) -> None:
    """SQLite's own limit on the file's size plays the full disk."""
    journal = SqliteJournal(path)
    token = journal.acquire("a")
    pages = journal._write.pragma("page_count")
    journal._write.pragma("max_page_count", pages + 4)
    with pytest.raises(JournalError, match="ree some space"):
        write(journal, "a", token, b"x" * 1_000_000).result(WAIT)
    journal._write.pragma("max_page_count", 1_000_000)
    written(journal, "a", token, b"x" * 1_000_000)
    assert [len(record.data) for record in journal.read("a")] == [1_000_000]
    assert journal.check() == ()
    journal.close()


# ---------------------------------------------------------------------------------- backup


def test_a_backup_is_whole_while_others_write(
    journal: SqliteJournal, path: Path, tmp_path: Path
) -> None:
    """Copies made during a stream of appends open, check and hold a prefix of the stream."""
    token = journal.acquire("a")
    stop = threading.Event()

    def stream() -> None:
        while not stop.is_set():
            written(journal, "a", token, b"x" * 500, b"y" * 500)

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        copies = [tmp_path / f"copy-{i}.db" for i in range(5)]
        for copy in copies:
            backup_file(path, copy)
    finally:
        stop.set()
        thread.join()
    ends = []
    for copy in copies:
        restored = SqliteJournal(copy)
        assert restored.check() == ()
        ends.append(restored.last("a"))
        restored.close()
    assert ends == sorted(ends)
    assert 0 < ends[-1] <= journal.last("a")


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


@pytest.mark.parametrize("size", [1_000, 5_000_000])
def test_a_disk_that_was_full_is_written_to_again(disk: Disk, path: Path, size: int) -> None:
    """SQLite ends a transaction itself that is larger than its cache: then none is left to undo."""
    journal = SqliteJournal(path)
    token = journal.acquire("a")
    written(journal, "a", token, b"before")
    disk.full = True
    for _ in range(2):
        with pytest.raises(JournalError, match=r"full.*Free some space"):
            journal.save_snapshot("a", token, Snapshot(1, os.urandom(size))).result(WAIT)
        with pytest.raises(JournalError, match=r"full.*Free some space"):
            written(journal, "a", token, os.urandom(size))
    disk.full = False
    written(journal, "a", token, b"after")
    journal.save_snapshot("a", token, Snapshot(2, b"state")).result(WAIT)
    assert list(journal.read("a")) == [(1, b"before"), (2, b"after")]
    journal.close()


def test_a_backup_that_does_not_come_about_leaves_nothing(
    disk: Disk, path: Path, tmp_path: Path
) -> None:
    """An empty file with the name of a backup was left, and the message was "Not an error"."""
    journal = SqliteJournal(path)
    written(journal, "a", journal.acquire("a"), b"record")
    before = sorted(tmp_path.iterdir())
    disk.full = True
    with pytest.raises(JournalError, match="The disk is full"):
        backup_file(path, tmp_path / "copy.db")
    assert sorted(tmp_path.iterdir()) == before
    disk.full = False
    backup_file(path, tmp_path / "copy.db")
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "copy.db"])
    journal.close()


def test_a_backup_overwrites_nothing(journal: SqliteJournal, tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.write_text("mine", encoding="utf-8")
    with pytest.raises(JournalError, match="does not exist yet"):
        journal.backup(there)
    assert there.read_text(encoding="utf-8") == "mine"
    with pytest.raises(JournalError, match="a place to write to"):
        journal.backup(tmp_path / "nowhere" / "copy.db")


# ----------------------------------------------------------------------------- migrations


def version_one(path: Path) -> None:
    """A journal as the first schema wrote it: no checksums."""
    connection = apsw.Connection(str(path))
    migrate(connection, str(path), STEPS[:1])
    connection.execute("INSERT INTO pool (name, token) VALUES ('a', 7)")
    data = msgspec.msgpack.encode([b"1", b"2"])
    connection.execute("INSERT INTO frame (pool, first, last, data) VALUES (1, 1, 2, ?)", (data,))
    connection.execute("INSERT INTO snapshot VALUES (1, 1, ?)", (b"state",))
    connection.close()


def test_an_old_journal_is_brought_up_to_date(path: Path) -> None:
    version_one(path)
    journal = SqliteJournal(path)
    assert journal.migrated == len(STEPS) - 1
    assert [record.data for record in journal.read("a")] == [b"1", b"2"]
    assert journal.snapshot("a") == Snapshot(1, b"state")
    assert journal.check() == ()
    assert journal.acquire("a") == 8
    written(journal, "a", 8, b"3")
    journal.close()
    again = SqliteJournal(path)
    assert again.migrated == 0
    assert again.last("a") == 3
    again.close()


def test_checksums_are_filled_in_from_what_is_there(path: Path) -> None:
    version_one(path)
    SqliteJournal(path).close()
    connection = apsw.Connection(str(path))
    for data, checksum in connection.execute(
        "SELECT data, checksum FROM frame UNION ALL SELECT data, checksum FROM snapshot"
    ):
        assert checksum == zlib.crc32(data)
    connection.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    version_one(path)
    connection = apsw.Connection(str(path))
    steps = (*STEPS, "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(apsw.SQLError):
        migrate(connection, str(path), steps)
    assert schema_version(connection) == len(STEPS)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")]
    assert "half" not in tables
    connection.close()


def test_a_journal_of_a_later_release_is_refused(path: Path) -> None:
    filled(path)
    damage(path, "PRAGMA user_version = 99")
    with pytest.raises(InputError, match="has schema 99"):
        SqliteJournal(path)


def test_another_programs_database_is_refused(path: Path) -> None:
    damage(path, "CREATE TABLE bookmarks (url)")
    with pytest.raises(InputError, match="hoose another path"):
        SqliteJournal(path)
    connection = apsw.Connection(str(path))
    assert schema_version(connection) == 0
    connection.close()


@pytest.mark.parametrize("version", ["3.51.2", "3.7.17", "2.8.17"])
def test_a_sqlite_that_can_lose_the_log_is_refused(version: str) -> None:
    with pytest.raises(InputError, match=r"at least 3\.51\.3"):
        check_sqlite_version(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0"])
def test_a_sqlite_without_the_fault_is_taken(version: str) -> None:
    check_sqlite_version(version)


def test_a_stale_owner_is_refused_after_a_restart(path: Path) -> None:
    journal = SqliteJournal(path)
    token = journal.acquire("a")
    written(journal, "a", token, b"1")
    journal.close()
    again = SqliteJournal(path)
    again.acquire("a")
    with pytest.raises(StaleTokenError):
        write(again, "a", token, b"2").result(WAIT)
    again.close()
