"""The events of a pool as callers may see them, and the latest of them, kept for all who follow.

Five hundred dashboards that follow one pool want the same bytes at the same moment: each event is
read and written out once for all of them, and the more of them there are, the more events go out
at a time, so that following takes a bounded share of the node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from opportune.service import events
from opportune.service.api.bodies import EventBody, EventPage
from opportune.service.events import Event
from opportune.service.journal import Journal
from opportune.service.notes import is_note
from opportune.service.owner import PoolOwner
from opportune.service.problems import encode_json

MOST = 1000
"""Records of a page, and events that are kept."""

EACH = 0.001
"""Seconds between two pieces for one follower, by how many there are; none for the first few."""

FEW = 10
"""Followers that are told everything at once."""

LONGEST = 1.0
"""Seconds between two pieces, at most."""

BULKY = {"PlanPut": ("plan", "parts"), "ScoresPut": ("rows",), "LearnedPut": ("learned",)}
"""Fields that are left out: read the plan or the scores instead."""

CONFIDENTIAL = {"TaskCreated": ("conflicts", "fingerprint")}
"""Fields that only ``admin`` sees; besides, why servers were excluded."""


def read_page(journal: Journal, place: tuple[str, int], limit: int, sees_all: bool) -> EventPage:
    """Some records behind a cursor; in any thread.

    Args:
        journal: Where they are.
        place: The pool, and the cursor.
        limit: Most records; more than ``MOST`` are not read.
        sees_all: Whether what is confidential is shown.
    """
    (pool, after), found = place, []
    for sequence, record in journal.read(pool, after, max(min(limit, MOST), 0)):
        after = sequence
        if not is_note(record):
            event = events.decode(record)
            kind = type(event).__name__
            found.append(EventBody(sequence, kind, _shown(kind, event, sees_all)))
    return EventPage(found, after)


def _shown(kind: str, event: Event, sees_all: bool) -> dict[str, Any]:
    """An event as a caller may see it."""
    shown: dict[str, Any] = msgspec.to_builtins(event)
    for field in ("type", *BULKY.get(kind, ())):
        shown.pop(field, None)
    if not sees_all:
        for field in CONFIDENTIAL.get(kind, ()):
            shown.pop(field, None)
        if "why" in shown:
            shown["why"].pop("excluded", None)
    return shown


class Tail:
    """The latest events of a pool, written out for a stream.

    Args:
        owner: Of the pool.
        journal: Where it is written.
        sees_all: Whether what is confidential is shown.

    Attributes:
        followers: How many follow.
    """

    def __init__(self, owner: PoolOwner, journal: Journal, sees_all: bool) -> None:
        self.followers = 0
        self._owner = owner
        self._journal = journal
        self._sees_all = sees_all
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._first = self._last = owner.written
        self._reading = asyncio.Lock()

    @property
    def pause(self) -> float:
        """Seconds for which a follower waits before it is told what has happened."""
        return min(max(self.followers - FEW, 0) * EACH, LONGEST)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count a follower."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def behind(self, after: int) -> tuple[bytes, int]:
        """What a stream says of the events behind a cursor, and the next cursor."""
        if after < self._first:
            pieces, after = await asyncio.to_thread(self._read, after)
            return b"".join(piece for _, piece in pieces), after
        async with self._reading:
            while self._last < min(self._owner.written, after + MOST):
                before = self._last
                pieces, self._last = await asyncio.to_thread(self._read, before)
                if self._last == before:
                    break
                self._pieces += pieces
                while len(self._pieces) > MOST:
                    self._first = self._pieces.popleft()[0]
        if after < self._first:  # many came while others read
            return b"", after
        new = takewhile(lambda one: one[0] > after, reversed(self._pieces))
        return b"".join(reversed([piece for _, piece in new])), self._last

    def _read(self, after: int) -> tuple[list[tuple[int, bytes]], int]:
        """Pieces of a stream with their numbers, and the next cursor; in any thread."""
        place = (self._owner.pool, after)
        page = read_page(self._journal, place, self._owner.written - after, self._sees_all)
        pieces = [
            (
                one.sequence,
                b"id: %d\nevent: %s\ndata: %s\n\n"
                % (one.sequence, one.type.encode(), encode_json(one.event)),
            )
            for one in page.events
        ]
        return pieces, page.next


_TAILS: WeakValueDictionary[tuple[int, bool], Tail] = WeakValueDictionary()
"""By owner and by what is seen; gone with the last follower."""


def tail_of(owner: PoolOwner, journal: Journal, sees_all: bool) -> Tail:
    """The tail that all followers of a pool share who see the same."""
    key = (id(owner), sees_all)
    found = _TAILS.get(key)
    if found is None:
        found = _TAILS[key] = Tail(owner, journal, sees_all)
    return found
