"""The journal: what happened in every pool, in order, on stable storage before anyone is told.

A journal keeps one stream of records per pool, numbered 1, 2, 3, ... without a gap. A record is
bytes; what is in them is the owner's business. Three rules hold for every journal:

- **Write first.** The future of :meth:`Journal.append` is done only when the records are on stable
  storage. What is appended while the last write is on its way is written together (group commit).
- **One owner.** A pool is written by whoever called :meth:`Journal.acquire` last: that call hands
  out a fencing token, one larger than the last, and an append with an older one fails.
- **All or nothing.** Records of one append are written together or not at all.

Snapshots only shorten a restart: state at a snapshot plus the records behind it is the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from opportune.errors import OpportuneError, Problem

WATCH = Callable[[int, float], None]
"""Told of every write: the number of records in it, and seconds."""


class Record(NamedTuple):
    """One record of a pool.

    Attributes:
        sequence: Its number in the pool's stream, from 1.
        data: What the owner wrote.
    """

    sequence: int
    data: bytes


class Snapshot(NamedTuple):
    """A pool's whole state after a record.

    Attributes:
        sequence: Number of the last record in it; 0 for a pool without records.
        data: What the owner wrote.
    """

    sequence: int
    data: bytes


@dataclass(frozen=True)
class Append:
    """Records to be written together.

    Attributes:
        pool: Whose.
        token: Fencing token from :meth:`Journal.acquire`.
        first: Sequence number of the first one: one more than the last record written.
        records: At least one.
    """

    pool: str
    token: int
    first: int
    records: Sequence[bytes]

    @property
    def last(self) -> int:
        """Sequence number of the last one."""
        return self.first + len(self.records) - 1


class JournalError(OpportuneError):
    """The journal could not do what it was asked; nothing of it was written."""


class NotOwnerError(JournalError):
    """Whoever appends is not the pool's owner (any more); for certain nothing was written."""


class DoubtfulError(JournalError):
    """The storage was lost in the middle: what was appended may be written, or may be not."""


class StaleTokenError(NotOwnerError):
    """Somebody else has acquired the pool since: this owner may not write any more."""

    def __init__(self, pool: str, token: int, present: int) -> None:
        super().__init__(
            Problem(
                "token",
                f"{token} of pool {pool!r}",
                f"the token of its present owner, {present}",
                "another owner took the pool over; read its journal again before going on",
            )
        )


class SequenceError(JournalError):
    """An append does not start where the pool's stream ends."""

    def __init__(self, append: Append, last: int) -> None:
        super().__init__(
            Problem(
                "sequence",
                f"first record {append.first} of pool {append.pool!r}",
                f"{last + 1}, the number behind the last one written",
                "read the pool's journal again before going on",
            )
        )


class Journal(Protocol):
    """What the owner of a pool needs of its storage. All methods may be called by any thread."""

    def pools(self) -> tuple[str, ...]:
        """Names of the pools that have been acquired once, sorted."""
        ...

    def acquire(self, pool: str) -> int:
        """Become the owner of a pool, known or new; the fencing token, 1 for a new one."""
        ...

    def append(self, append: Append) -> Future[None]:
        """Queue records; the future is done when they are on stable storage.

        It fails with StaleTokenError, SequenceError or, where the storage failed, JournalError.
        """
        ...

    def last(self, pool: str) -> int:
        """Sequence number of the last record written; 0 if there is none."""
        ...

    def read(self, pool: str, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Records behind a sequence number in order, at most ``limit`` of them."""
        ...

    def save_snapshot(self, pool: str, token: int, snapshot: Snapshot) -> Future[None]:
        """Queue a snapshot of a state that is written; older ones but one are dropped."""
        ...

    def snapshot(self, pool: str) -> Snapshot | None:
        """The latest snapshot, if any."""
        ...

    def check(self) -> tuple[Problem, ...]:
        """What is wrong with what is stored: damage, gaps, snapshots ahead of their records."""
        ...

    def backup(self, path: Path) -> None:
        """Write a whole copy of what is stored to a new file, while others write.

        Raises:
            JournalError: If the file exists or this journal is nowhere.
        """
        ...

    def close(self) -> None:
        """Write what is queued, then let go of the storage."""
        ...


def append_problem(append: Append, token: int, last: int) -> JournalError | None:
    """Why an append must not be written.

    Args:
        append: What is to be written.
        token: The present token of the pool, 0 for one that nobody acquired.
        last: Sequence number of the last record of the pool.
    """
    if append.token != token or not token:
        return StaleTokenError(append.pool, append.token, token)
    if append.first != last + 1 or not append.records:
        return SequenceError(append, last)
    return None


def snapshot_problem(
    pool: str, token: int, present: int, snapshot: Snapshot, last: int
) -> JournalError | None:
    """Why a snapshot must not be written: not the owner, or ahead of the records."""
    if token != present or not present:
        return StaleTokenError(pool, token, present)
    if not 0 <= snapshot.sequence <= last:
        return JournalError(
            Problem("snapshot", f"of record {snapshot.sequence}", f"a record written, up to {last}")
        )
    return None


def gap_problems(pool: str, ranges: Sequence[tuple[int, int]]) -> list[Problem]:
    """Holes and overlaps in the (first, last) numbers of stored records, in stored order."""
    problems, expected = [], 1
    for first, last in ranges:
        if first != expected or last < first:
            told = f"records {first} to {last} of pool {pool!r}"
            problems.append(Problem("sequence", told, f"the next to be {expected}"))
        expected = last + 1
    return problems
