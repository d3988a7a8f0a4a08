"""Every kind of journal, for tests that hold for all of them. A new kind is one line here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from opportune.service.journal import WATCH, Append, Journal
from opportune.service.memory import MemoryJournal
from opportune.service.postgres import PostgresJournal
from opportune.service.sqlite import SqliteJournal
from tests.service.database import postgres_url, schema_of

Open = Callable[[Path, WATCH | None], Journal]

JOURNALS: dict[str, Open] = {
    "memory": lambda folder, watch: MemoryJournal(watch),
    "sqlite": lambda folder, watch: SqliteJournal(folder / "journal.db", watch),
    "postgres": lambda folder, watch: PostgresJournal(postgres_url(), watch, schema_of(folder)),
}
"""Kind -> how to open one in a folder."""

ON_DISK = ("sqlite", "postgres")
"""Kinds that are there after they were closed."""

WAIT = 60.0
"""Seconds after which a future that does not come is a failure."""


def write(journal: Journal, pool: str, token: int, *records: bytes) -> Future[None]:
    """Append records behind the last one."""
    return journal.append(Append(pool, token, journal.last(pool) + 1, records))


def written(journal: Journal, pool: str, token: int, *records: bytes) -> None:
    """Append records and wait until they are on stable storage."""
    write(journal, pool, token, *records).result(WAIT)
