"""Copies of a journal that may be served from in its place: their numbers are never given twice.

A copy knows nothing of the tasks that came after it. Served as it is, it would give their numbers
and lease tokens to other tasks, and a client that completes ``desk.a7`` of before would complete
somebody else's. So every pool of a copy begins with numbers that the original never reaches.
"""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from opportune.service import events
from opportune.service.idempotency import KeyMemory
from opportune.service.journal import Append, Journal
from opportune.service.loading import load_pool
from opportune.service.sqlite import SqliteJournal
from opportune.service.sqlite_file import backup_file

SKIPPED = 10**9
"""Numbers that a copy leaves out: more tasks than come between two backups."""


def backup_journal(source: Path, target: Path) -> None:
    """Copy a journal's file to a new one that can be served from; its owner may go on.

    Raises:
        JournalError: If the source is no journal, or the target exists or cannot be written.
    """
    backup_file(source, target, _begin_anew)


def skip_numbers(journal: Journal) -> None:
    """Let every pool of a journal go on with numbers that were never given.

    Raises:
        JournalError: If it cannot be read or written.
    """
    for pool in journal.pools():
        state = load_pool(journal, pool, KeyMemory(0)).state
        if state.settings is None:
            continue
        event = events.PoolPut(
            time=max(time.time(), state.clock),
            pool=pool,
            settings=state.settings,
            skips=SKIPPED,
        )
        token = journal.acquire(pool)
        first = journal.last(pool) + 1
        journal.append(Append(pool, token, first, [events.encode(event)])).result()


def _begin_anew(copy: Path) -> None:
    journal = SqliteJournal(copy)
    try:
        skip_numbers(journal)
    finally:
        journal.close()
    connection = apsw.Connection(str(copy))
    connection.pragma("journal_mode", "delete")  # one file, nothing beside it
    connection.close()
