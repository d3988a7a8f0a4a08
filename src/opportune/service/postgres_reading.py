"""Reading a PostgreSQL journal: pools, records, snapshots, and whether all of it is whole.

Questions go through a pool of connections, each a transaction of its own, from any thread.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from opportune.errors import Problem
from opportune.service.frames import closed_error, read_frames
from opportune.service.journal import JournalError, Record, Snapshot, gap_problems

READ = """
SELECT first, data, checksum FROM frame WHERE pool = %(pool)s AND first >= coalesce(
    (SELECT max(first) FROM frame WHERE pool = %(pool)s AND first <= %(first)s), 0)
ORDER BY first LIMIT %(limit)s
"""

Row = tuple[Any, ...]


class PostgresReader:
    """The half of a journal that reads.

    Args:
        url: Of the database, for messages.
        connections: Connections in autocommit mode, in the journal's schema.
    """

    def __init__(self, url: str, connections: ConnectionPool[psycopg.Connection[Row]]) -> None:
        self.url = url
        self.connections = connections
        self._closing = False

    def ask(self, query: str, values: Any = ()) -> list[Row]:
        """Rows of one statement, which is a transaction of its own.

        Raises:
            JournalError: If the database does not answer.
        """
        if self._closing:
            raise closed_error()
        try:
            with self.connections.connection() as connection:
                return connection.execute(query.encode(), values).fetchall()
        except (psycopg.OperationalError, PoolTimeout) as error:
            told = f"{shown(self.url)}: {first_line(error)}"
            raise JournalError(Problem("journal", told, "a database that answers")) from error

    def pools(self) -> tuple[str, ...]:
        """Names of the pools, sorted."""
        return tuple(sorted(str(name) for (name,) in self.ask("SELECT name FROM pool")))

    def last(self, pool: str) -> int:
        """Sequence number of the last record written, by whatever node."""
        return self._stream(pool)[1]

    def _stream(self, pool: str) -> tuple[int, int]:
        rows = self.ask("SELECT id, last FROM pool WHERE name = %s", (pool,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)

    def read(self, pool: str, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Records behind a sequence number, read a few frames at a time.

        Raises:
            JournalError: If a frame is damaged, or the database does not answer.
        """
        one, last = self._stream(pool)
        end = last if limit is None else min(last, after + limit)
        yield from read_frames(
            pool,
            after,
            end,
            lambda first, most: self.ask(READ, {"pool": one, "first": first, "limit": most}),
        )

    def snapshot(self, pool: str) -> Snapshot | None:
        """The latest snapshot that is not damaged."""
        rows = self.ask(
            "SELECT s.sequence, s.data, s.checksum FROM snapshot s JOIN pool ON pool.id = s.pool "
            "WHERE pool.name = %s ORDER BY s.sequence DESC",
            (pool,),
        )
        whole = [row for row in rows if zlib.crc32(row[1]) == row[2]]
        return Snapshot(int(whole[0][0]), bytes(whole[0][1])) if whole else None

    def check(self) -> tuple[Problem, ...]:
        """Whether commits reach the disk; numbers and checksums of every pool."""
        problems = [
            Problem(name, "off", "on", "a commit must be on the disk when it is acknowledged")
            for name in ("fsync", "full_page_writes")
            if self.ask(f"SHOW {name}")[0][0] != "on"
        ]
        for name, one, last in self.ask("SELECT name, id, last FROM pool ORDER BY name"):
            ranges = [
                (int(first), int(end))
                for first, end in self.ask(
                    "SELECT first, last FROM frame WHERE pool = %s ORDER BY first", (one,)
                )
            ]
            problems += gap_problems(name, ranges)
            if last != (ranges[-1][1] if ranges else 0):
                told = f"the last record of pool {name!r} is said to be {last}"
                problems.append(Problem("sequence", told, "the number of the last one stored"))
            try:
                for _ in self.read(name):
                    continue
            except JournalError as error:
                problems += error.problems
            problems += self._snapshot_problems(name, one, last)
        return tuple(problems)

    def _snapshot_problems(self, pool: str, one: int, last: int) -> list[Problem]:
        problems = []
        for sequence, data, checksum in self.ask(
            "SELECT sequence, data, checksum FROM snapshot WHERE pool = %s", (one,)
        ):
            told = f"of record {sequence} of pool {pool!r}"
            if zlib.crc32(data) != checksum:
                problems.append(Problem("snapshot", f"{told} is damaged", "the bytes written"))
            if sequence > last:
                problems.append(Problem("snapshot", told, f"up to record {last}"))
        return problems


def shown(url: str) -> str:
    """A database's URL without its password, for messages."""
    try:
        found = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "the database"
    place = f"{found.get('host') or 'localhost'}:{found.get('port') or 5432}"
    return f"postgresql://{place}/{found.get('dbname') or ''}"


def first_line(error: Exception) -> str:
    """What an error of the database says first."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
