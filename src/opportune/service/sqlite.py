"""The embedded journal: one SQLite file, one writer thread, one write for all that is waiting.

Write-ahead log with ``synchronous=FULL``: a commit returns when its frames are on the disk. While
one commit runs, further appends queue; the next one takes them all. Records that were appended
together are one row (a *frame*), so a commit is one statement however many records it holds, and
the writer thread asks for Python's lock once.

APSW brings a SQLite of its own. Before 3.51.3 a checkpoint could lose a write-ahead log that was
being reset, so older ones are refused.
"""

from __future__ import annotations

import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from opportune.errors import Problem
from opportune.service.file_lock import FileLock
from opportune.service.frames import Job, closed_error, pack, read_frames
from opportune.service.journal import (
    WATCH,
    Append,
    JournalError,
    Record,
    Snapshot,
    append_problem,
    gap_problems,
    snapshot_problem,
)
from opportune.service.migrations import migrate
from opportune.service.sqlite_file import (
    backup_file,
    check_sqlite_version,
    open_database,
    unreadable,
)

SNAPSHOTS_KEPT = 2
"""Snapshots kept per pool: the latest, and one before it should the latest be damaged."""

INSERT = "INSERT INTO frame (pool, first, last, data, checksum) VALUES (?, ?, ?, ?, ?)"
READ = """
SELECT first, data, checksum FROM frame
WHERE pool = ?1 AND first >= coalesce(
    (SELECT max(first) FROM frame WHERE pool = ?1 AND first <= ?2), 0)
ORDER BY first LIMIT ?3
"""


@dataclass
class _Stream:
    """What the writer knows of a pool."""

    id: int
    token: int
    last: int


class SqliteJournal:
    """A journal in one file.

    Args:
        path: The file; made if it is not there.
        watch: Told of every commit, by the writer thread.

    Raises:
        InputError: If another process owns the file, it is not a journal, it comes from a later
            release, SQLite is too old or the place cannot have a write-ahead log.
    """

    def __init__(self, path: Path, watch: WATCH | None = None) -> None:
        check_sqlite_version(apsw.sqlite_lib_version())
        self.path = path
        self._watch = watch
        self._failed: JournalError | None = None
        self._closing = False
        self._lock = FileLock(path)
        try:
            self._write = open_database(path)
            self.migrated = migrate(self._write, str(path))
            self._read = open_database(path)
            self._streams = self._known_streams()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, apsw.Error):
                raise unreadable(path, error) from error
            raise
        self._reading = threading.Lock()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------ writing

    def acquire(self, pool: str) -> int:
        """A new fencing token of a pool, on stable storage."""

        def take() -> int:
            stream = self._streams.get(pool)
            if stream is None:
                self._write.execute("INSERT INTO pool (name, token) VALUES (?, 1)", (pool,))
                self._streams[pool] = _Stream(self._write.last_insert_rowid(), 1, 0)
                return 1
            self._write.execute("UPDATE pool SET token = token + 1 WHERE id = ?", (stream.id,))
            stream.token += 1
            return stream.token

        token: int = self._submit(Job(Future(), call=take)).result()
        return token

    def append(self, append: Append) -> Future[None]:
        """Queue records for the next commit."""
        return self._submit(Job(Future(), append=append))

    def save_snapshot(self, pool: str, token: int, snapshot: Snapshot) -> Future[None]:
        """Queue a snapshot behind the appends before it."""

        def save() -> None:
            stream = self._streams.get(pool, _Stream(0, 0, 0))
            error = snapshot_problem(pool, token, stream.token, snapshot, stream.last)
            if error is not None:
                raise error
            row = (stream.id, snapshot.sequence, snapshot.data, zlib.crc32(snapshot.data))
            with self._transaction():
                self._write.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?)", row)
                self._write.execute(
                    "DELETE FROM snapshot WHERE pool = ?1 AND sequence NOT IN (SELECT sequence "
                    "FROM snapshot WHERE pool = ?1 ORDER BY sequence DESC LIMIT ?2)",
                    (stream.id, SNAPSHOTS_KEPT),
                )

        return self._submit(Job(Future(), call=save))

    def _submit(self, job: Job) -> Future[Any]:
        if self._closing:
            job.future.set_exception(closed_error())
        else:
            self._jobs.put(job)
        return job.future

    def _run(self) -> None:
        """The writer thread: everything that waits is one commit; calls run between commits."""
        while True:
            job = self._jobs.get()
            while job is not None and job.call is not None:
                self._call(job, job.call)
                job = self._jobs.get()
            if job is None:
                return
            batch, then = self._waiting(job)
            self._commit(batch)
            if then is None:
                continue
            if then.call is None:
                return
            self._call(then, then.call)

    def _waiting(self, first: Job) -> tuple[list[Job], Job | None]:
        """The appends that wait behind a first one, up to what must come after their commit."""
        batch = [first]
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch, None
            if job is None:
                return batch, _STOP
            if job.append is None:
                return batch, job
            batch.append(job)

    def _call(self, job: Job, call: Callable[[], Any]) -> None:
        try:
            if self._failed is not None:
                raise self._failed
            result = call()
        except apsw.Error as error:
            job.future.set_exception(self._storage_error(error))
        except Exception as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(result)

    def _commit(self, jobs: list[Job]) -> None:
        """Write appends in one transaction; each future is told its own result."""
        start = time.perf_counter()
        rows, written = [], []
        ends: dict[str, int] = {}
        for job in jobs:
            append = job.append
            if append is None:
                continue
            stream = self._streams.get(append.pool, _Stream(0, 0, 0))
            problem = append_problem(append, stream.token, ends.get(append.pool, stream.last))
            if self._failed is not None or problem is not None:
                job.future.set_exception(self._failed or problem)
                continue
            rows.append((stream.id, append.first, append.last, *pack(append.records)))
            ends[append.pool] = append.last
            written.append(job)
        if not rows:
            return
        try:
            self._insert(rows)
        except apsw.Error as error:
            failure = self._storage_error(error)
            for job in written:
                job.future.set_exception(failure)
            return
        for pool, last in ends.items():
            self._streams[pool].last = last
        if self._watch is not None:
            count = sum(row[2] - row[1] + 1 for row in rows)
            self._watch(count, time.perf_counter() - start)
        for job in written:
            job.future.set_result(None)

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        if len(rows) == 1:  # a transaction of its own
            self._write.execute(INSERT, rows[0])
            return
        with self._transaction():
            self._write.executemany(INSERT, rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing. SQLite itself may end one that fails: on a disk that is full, for one."""
        self._write.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._write.execute("COMMIT")
        except BaseException:
            if not self._write.get_autocommit():
                self._write.execute("ROLLBACK")
            raise

    def _storage_error(self, error: apsw.Error) -> JournalError:
        """The error as ours; after any but a full disk nothing more is written."""
        failure = JournalError(
            Problem(
                "journal",
                f"{self.path}: {error}",
                "storage that can be written to",
                "free some space" if isinstance(error, apsw.FullError) else "mend it, then restart",
            )
        )
        if not isinstance(error, apsw.FullError | apsw.ConstraintError):
            self._failed = failure
        return failure

    # ------------------------------------------------------------------------------ reading

    def pools(self) -> tuple[str, ...]:
        """Names of the pools, sorted."""
        return tuple(sorted(self._streams))

    def last(self, pool: str) -> int:
        """Sequence number of the last record written."""
        stream = self._streams.get(pool)
        return 0 if stream is None else stream.last

    def read(self, pool: str, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Records behind a sequence number, read a few frames at a time.

        Raises:
            JournalError: If a frame is damaged.
        """
        stream = self._streams.get(pool)
        if stream is None:
            return
        one, last = stream.id, self.last(pool)
        end = last if limit is None else min(last, after + limit)
        yield from read_frames(
            pool, after, end, lambda first, most: self._query(READ, (one, first, most))
        )

    def snapshot(self, pool: str) -> Snapshot | None:
        """The latest snapshot that is not damaged."""
        stream = self._streams.get(pool)
        if stream is None:
            return None
        query = (
            "SELECT sequence, data, checksum FROM snapshot WHERE pool = ? ORDER BY sequence DESC"
        )
        for sequence, data, checksum in self._query(query, (stream.id,)):
            if zlib.crc32(data) == checksum:
                return Snapshot(sequence, data)
        return None

    def check(self) -> tuple[Problem, ...]:
        """SQLite's own check, then checksums and the numbers of every pool."""
        problems = [
            Problem("database", str(row[0]), "an undamaged file", "restore a backup")
            for row in self._query("PRAGMA integrity_check", ())
            if row[0] != "ok"
        ]
        if problems:
            return tuple(problems)
        for pool, stream in sorted(self._streams.items()):
            ranges = self._query(
                "SELECT first, last FROM frame WHERE pool = ? ORDER BY first", (stream.id,)
            )
            problems += gap_problems(pool, ranges)
            try:
                for _ in self.read(pool):
                    continue
            except JournalError as error:
                problems += error.problems
            for sequence, data, checksum in self._query(
                "SELECT sequence, data, checksum FROM snapshot WHERE pool = ?", (stream.id,)
            ):
                told = f"of record {sequence} of pool {pool!r}"
                if zlib.crc32(data) != checksum:
                    problems.append(Problem("snapshot", f"{told} is damaged", "the bytes written"))
                if sequence > stream.last:
                    problems.append(Problem("snapshot", told, f"up to record {stream.last}"))
        return tuple(problems)

    def _query(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._reading:
            rows: list[tuple[Any, ...]] = self._read.execute(query, values).fetchall()
            return rows

    def _known_streams(self) -> dict[str, _Stream]:
        rows = self._write.execute(
            "SELECT pool.name, pool.id, pool.token, coalesce(max(frame.last), 0) "
            "FROM pool LEFT JOIN frame ON frame.pool = pool.id GROUP BY pool.id"
        )
        return {name: _Stream(one, token, last) for name, one, token, last in rows}

    # -------------------------------------------------------------------------- whole files

    def backup(self, path: Path) -> None:
        """Copy the file as it is at one moment, while commits go on."""
        backup_file(self.path, path)

    def close(self) -> None:
        """Write what is queued, fold the log into the file, release the lock."""
        if self._closing:
            return
        self._closing = True
        self._jobs.put(None)
        self._thread.join()
        while not self._jobs.empty():  # came in while we closed
            late = self._jobs.get()
            if late is not None:
                late.future.set_exception(closed_error())
        self._read.close()
        self._write.close()
        self._lock.release()


_STOP = Job(Future())
