"""The journal of several nodes: PostgreSQL, one writer thread a node, one commit for what waits.

What makes several nodes safe is in the pool's row: an append locks it, compares the fencing token
and the last number, and writes the records and the new number in the same transaction. So an owner
that was paused, or cut off, while another took over can write nothing, whatever it believes.

A cut connection leaves open whether its last commit was done. The writer connects again and looks:
records are there with this owner's token and the same bytes, or they are not and are written now.
Records that were appended together are one row (a *frame*), as in ``sqlite``.
"""

from __future__ import annotations

import queue
import threading
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from opportune.errors import InputError, Problem
from opportune.service.frames import Job, closed_error, pack
from opportune.service.journal import (
    WATCH,
    Append,
    DoubtfulError,
    JournalError,
    NotOwnerError,
    Snapshot,
    append_problem,
    snapshot_problem,
)
from opportune.service.postgres_reading import PostgresReader, Row, first_line, shown
from opportune.service.postgres_schema import check_name, migrate

PATIENCE = 10.0
"""Seconds in which a lost database may come back before appends fail."""

READ_PATIENCE = 2.0
"""Seconds that a question waits for a connection."""

RECONNECT = 0.5
"""Seconds after which the pool of connections gives up a lost one; the next question makes another.
Left to itself the pool would try less and less often, and miss a database that is back."""

SNAPSHOTS_KEPT = 2
READERS = 4

ACQUIRE = """
INSERT INTO pool (name, token) VALUES (%s, 1)
ON CONFLICT (name) DO UPDATE
SET token = pool.token + 1, node = NULL, address = NULL, lease_until = NULL
RETURNING token
"""
OWNERS = """
SELECT name, id, token, last, coalesce(lease_until <= clock_timestamp(), false)
FROM pool WHERE name = ANY(%s) ORDER BY id FOR UPDATE
"""
WRITTEN = """
SELECT pool, first, token, checksum FROM frame
WHERE (pool, first) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
"""
INSERT = """
INSERT INTO frame (pool, first, last, token, data, checksum)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %b::bytea[],
    %s::bigint[])
"""
ADVANCE = """
UPDATE pool SET last = ends.last FROM unnest(%s::bigint[], %s::bigint[]) AS ends (id, last)
WHERE pool.id = ends.id
"""
TRIM = """
DELETE FROM snapshot WHERE pool = %(pool)s AND sequence NOT IN (
    SELECT sequence FROM snapshot WHERE pool = %(pool)s ORDER BY sequence DESC LIMIT %(kept)s)
"""


class LeaseOverError(NotOwnerError):
    """The owner's lease has ended, so it may not write, though nobody has taken over yet."""

    def __init__(self, pool: str) -> None:
        super().__init__(
            Problem(
                "lease",
                f"of pool {pool!r} is over",
                "a lease that is renewed in time",
                "take the pool again, and read its journal before going on",
            )
        )


class PostgresJournal(PostgresReader):
    """A journal in a schema of a PostgreSQL database.

    Args:
        url: ``postgresql://user:password@host:port/database``.
        watch: Told of every commit, by the writer thread.
        schema: Name of the schema, made if it is not there.
        patience: Seconds in which a lost database may come back before appends fail.

    Raises:
        InputError: If the database cannot be reached, the schema is not a journal or comes from a
            later release.
    """

    def __init__(
        self,
        url: str,
        watch: WATCH | None = None,
        schema: str = "opportune",
        patience: float = PATIENCE,
    ) -> None:
        check_name(schema)
        self._watch, self._patience = watch, patience
        self._failed: JournalError | None = None
        self.url, self.schema = url, schema
        self._options = f"-c search_path={schema} -c synchronous_commit=on"
        try:
            self._write = self.connect()
        except psycopg.OperationalError as error:
            raise InputError(
                Problem("--database", shown(url), "a database that answers", first_line(error))
            ) from error
        try:
            self.migrated = migrate(self._write, schema)
        except BaseException:
            self._write.close()
            raise
        kwargs = {"autocommit": True, "options": self._options}
        super().__init__(
            url,
            ConnectionPool(
                url,
                kwargs=kwargs,
                min_size=1,
                max_size=READERS,
                timeout=min(patience, READ_PATIENCE),
                reconnect_timeout=RECONNECT,
                open=True,
            ),
        )
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def connect(self) -> psycopg.Connection[Row]:
        """A connection of its own, in the journal's schema and in autocommit mode.

        Raises:
            psycopg.OperationalError: If the database does not answer.
        """
        return psycopg.connect(
            self.url,
            autocommit=True,
            options=self._options,
            connect_timeout=max(2, int(self._patience)),
        )

    # ------------------------------------------------------------------------------ writing

    def acquire(self, pool: str) -> int:
        """A new fencing token of a pool, whoever owns it now and for how long."""
        return int(self.ask(ACQUIRE, (pool,))[0][0])

    def append(self, append: Append) -> Future[None]:
        """Queue records for the next commit."""
        return self._submit(Job(Future(), append=append))

    def save_snapshot(self, pool: str, token: int, snapshot: Snapshot) -> Future[None]:
        """Queue a snapshot behind the appends before it."""

        def save() -> None:
            with self._write.transaction():
                owners = self._write.execute(OWNERS, ([pool],)).fetchall()
                _, one, present, last, over = owners[0] if owners else (pool, 0, 0, 0, False)
                error = snapshot_problem(pool, token, present, snapshot, last)
                if error is not None or over:
                    raise error or LeaseOverError(pool)
                row = (one, snapshot.sequence, snapshot.data, zlib.crc32(snapshot.data))
                self._write.execute(
                    "INSERT INTO snapshot VALUES (%s, %s, %s, %s) ON CONFLICT (pool, sequence) "
                    "DO UPDATE SET data = excluded.data, checksum = excluded.checksum",
                    row,
                )
                self._write.execute(TRIM, {"pool": one, "kept": SNAPSHOTS_KEPT})

        return self._submit(Job(Future(), call=save))

    def _submit(self, job: Job) -> Future[Any]:
        if self._closing:
            job.future.set_exception(closed_error())
        else:
            self._jobs.put(job)
        return job.future

    def _run(self) -> None:
        """The writer thread: appends that wait are one commit; calls run between commits."""
        job = self._jobs.get()
        while job is not None:
            batch: list[Job] = []
            while job is not None and job.append is not None:
                batch.append(job)
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            else:  # a call, or the end
                self._finish(batch)
                if job is None:
                    return
                self._finish([job])
                batch = []
            self._finish(batch)
            job = self._jobs.get()

    def _finish(self, jobs: list[Job]) -> None:
        """Commit appends, or make one call; every future is told."""
        if not jobs:
            return
        start = time.perf_counter()
        try:
            if self._failed is not None:
                raise self._failed
            found = self._persist(jobs)
        except Exception as error:
            failure = self._storage_error(error) if isinstance(error, psycopg.Error) else error
            for job in jobs:
                job.future.set_exception(failure)
            return
        written = [
            job.append for job, one in zip(jobs, found, strict=True) if job.append and one is None
        ]
        if written and self._watch is not None:
            count = sum(len(append.records) for append in written)
            self._watch(count, time.perf_counter() - start)
        for job, one in zip(jobs, found, strict=True):
            if isinstance(one, JournalError):
                job.future.set_exception(one)
            else:
                job.future.set_result(None)

    def _persist(self, jobs: list[Job]) -> list[JournalError | None]:
        """Do it, connecting again where the connection is lost; the error of each job."""
        deadline, again = time.monotonic() + self._patience, False
        while True:
            try:
                call = jobs[0].call
                if call is not None:
                    call()
                    return [None]
                return self._commit([job.append for job in jobs if job.append], again)
            except psycopg.OperationalError as error:
                if not self._write.broken and not self._write.closed:
                    raise  # the server has answered: no room, a lock, a read-only standby
                self._write.close()
                again = True
                self._wait_for_database(deadline, error)

    def _wait_for_database(self, deadline: float, error: Exception) -> None:
        while True:
            try:
                self._write = self.connect()
                return
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    raise error from None
                time.sleep(0.1)

    def _commit(self, appends: Sequence[Append], again: bool) -> list[JournalError | None]:
        """Judge and write appends in one transaction; ``again``: some may be written already."""
        problems: list[JournalError | None] = []
        rows: list[Row] = []
        ends: dict[int, int] = {}
        with self._write.pipeline(), self._write.transaction():  # two round trips in all
            names = sorted({append.pool for append in appends})
            found = self._write.execute(OWNERS, (names,)).fetchall()
            owners = {name: rest for name, *rest in found}
            frames = [pack(append.records) for append in appends]
            before = self._written_before(appends, owners) if again else set()
            for append, frame in zip(appends, frames, strict=True):
                one, token, last, over = owners.get(append.pool, (0, 0, 0, False))
                row = (one, append.first, append.last, append.token, *frame)
                if (one, append.first, append.token, frame[1]) in before:
                    problems.append(None)
                    continue
                problem = append_problem(append, token, ends.get(one, last))
                if problem is None and over:
                    problem = LeaseOverError(append.pool)
                if problem is None:
                    rows.append(row)
                    ends[one] = append.last
                problems.append(problem)
            if rows:
                columns = [list(column) for column in zip(*rows, strict=True)]
                self._write.execute(INSERT, columns)
                self._write.execute(ADVANCE, (list(ends), list(ends.values())))
        return problems

    def _written_before(
        self, appends: Sequence[Append], owners: dict[str, list[Any]]
    ) -> set[tuple[int, ...]]:
        """(pool, first, token, checksum) of frames that stand where these appends go."""
        known = [append for append in appends if append.pool in owners]
        ids = [owners[append.pool][0] for append in known]
        found = self._write.execute(WRITTEN, (ids, [append.first for append in known]))
        return {tuple(row) for row in found}

    def _storage_error(self, error: psycopg.Error) -> JournalError:
        """The error as ours; after any but a full disk or a lost database nothing is written."""
        if isinstance(error, psycopg.OperationalError) and self._write.closed:
            told = f"{shown(self.url)}: {first_line(error)}"
            remedy = "ask again when it is back"
            return DoubtfulError(Problem("journal", told, "a database that answers", remedy))
        full = isinstance(error, psycopg.errors.DiskFull)
        failure = JournalError(
            Problem(
                "journal",
                f"{shown(self.url)}: {first_line(error)}",
                "a database that can be written to",
                "free some space" if full else "mend it, then restart",
            )
        )
        if not full:
            self._failed = failure
        return failure

    def backup(self, path: Path) -> None:
        """Refused: PostgreSQL has tools of its own.

        Raises:
            JournalError: Always.
        """
        told = f"of {shown(self.url)} to {path}"
        raise JournalError(Problem("backup", told, "pg_dump, or an archive of the database"))

    def close(self) -> None:
        """Write what is queued, then close all connections."""
        if self._closing:
            return
        self._closing = True
        self._jobs.put(None)
        self._thread.join()
        while not self._jobs.empty():  # came in while we closed
            late = self._jobs.get()
            if late is not None:
                late.future.set_exception(closed_error())
        self.connections.close()
        self._write.close()
