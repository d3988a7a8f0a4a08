"""A journal in memory: for tests, and for a pool that may be forgotten with its process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from opportune.errors import Problem
from opportune.service.journal import (
    WATCH,
    Append,
    JournalError,
    Record,
    Snapshot,
    append_problem,
    snapshot_problem,
)


@dataclass
class _Stream:
    """What is kept of one pool."""

    token: int = 0
    records: list[bytes] = field(default_factory=list)
    snapshot: Snapshot | None = None


class MemoryJournal:
    """Keeps every promise of a :class:`~opportune.service.journal.Journal` but the storage.

    Args:
        watch: Told of every write.
    """

    def __init__(self, watch: WATCH | None = None) -> None:
        self._streams: dict[str, _Stream] = {}
        self._watch = watch
        self._closed = False
        self._lock = threading.RLock()

    def pools(self) -> tuple[str, ...]:
        """Names of the pools, sorted."""
        with self._lock:
            return tuple(sorted(self._streams))

    def acquire(self, pool: str) -> int:
        """A new fencing token of a pool."""
        with self._lock:
            stream = self._streams.setdefault(pool, _Stream())
            stream.token += 1
            return stream.token

    def append(self, append: Append) -> Future[None]:
        """Write at once."""
        future: Future[None] = Future()
        start = time.perf_counter()
        with self._lock:
            stream = self._streams.get(append.pool, _Stream())
            error = append_problem(append, stream.token, len(stream.records))
            error = self._closed_error() or error
            if error is None:
                stream.records.extend(append.records)
        if error is not None:
            future.set_exception(error)
            return future
        if self._watch is not None:
            self._watch(len(append.records), time.perf_counter() - start)
        future.set_result(None)
        return future

    def last(self, pool: str) -> int:
        """Sequence number of the last record."""
        with self._lock:
            return len(self._streams[pool].records) if pool in self._streams else 0

    def read(self, pool: str, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Records behind a sequence number, as they were when asked."""
        with self._lock:
            records = self._streams[pool].records if pool in self._streams else []
            chosen = records[after : None if limit is None else after + limit]
        yield from (Record(after + 1 + i, data) for i, data in enumerate(chosen))

    def save_snapshot(self, pool: str, token: int, snapshot: Snapshot) -> Future[None]:
        """Keep a snapshot."""
        future: Future[None] = Future()
        with self._lock:
            stream = self._streams.get(pool, _Stream())
            error = snapshot_problem(pool, token, stream.token, snapshot, len(stream.records))
            error = self._closed_error() or error
            if error is None:
                stream.snapshot = snapshot
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
        return future

    def snapshot(self, pool: str) -> Snapshot | None:
        """The latest snapshot."""
        with self._lock:
            return self._streams[pool].snapshot if pool in self._streams else None

    def check(self) -> tuple[Problem, ...]:
        """Nothing can be wrong with a list."""
        return ()

    def backup(self, path: Path) -> None:
        """Refused.

        Raises:
            JournalError: Always: there is no file to copy.
        """
        raise JournalError(Problem("backup", str(path), "a journal on disk, not in memory"))

    def close(self) -> None:
        """Nothing is written any more; what is there can still be read."""
        self._closed = True

    def _closed_error(self) -> JournalError | None:
        return JournalError(Problem("journal", "closed", "an open one")) if self._closed else None
