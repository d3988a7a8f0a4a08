"""What an owner holds for its callers: who waits, for how long it owns, what is told on failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from opportune.service.idempotency import Ticket
from opportune.service.journal import DoubtfulError, Journal, NotOwnerError
from opportune.service.loading import Loaded
from opportune.service.notes import Audited, Remembered, decode_note
from opportune.service.problems import Reply, moved, problem


class Waiting(NamedTuple):
    """A caller whose reply goes out with a write."""

    future: asyncio.Future[Reply]
    reply: Reply
    key: bytes | None = None


class Request(NamedTuple):
    """A command on its way: who waits for it, its key, who is to be noted, when it came."""

    future: asyncio.Future[Reply]
    asked: Ticket | None
    audit: Audited | None
    now: float


class Tenure(NamedTuple):
    """For how long an owner owns its pool, among several nodes.

    Attributes:
        token: Its fencing token.
        clock: Seconds of a clock that is the same on all nodes.
        over: Told pool, token and error when the owner can go on no longer: another node has
            replaced it, or the pool must be read again.
        ahead: What was read of the pool before it was this owner's, None for nothing.
    """

    token: int
    clock: Callable[[], float]
    over: Callable[[str, int, BaseException | None], None]
    ahead: Loaded | None = None


def remembered(asked: Ticket, reply: Reply, now: float) -> Remembered:
    """The note of a reply to a request with a key."""
    return Remembered(
        now,
        asked.key,
        asked.fingerprint,
        reply.status,
        reply.body,
        reply.headers,
        reply.media_type,
    )


def recorded(journal: Journal, pool: str, sequence: int) -> Reply:
    """The reply that is noted in a record; in any thread."""
    for _, record in journal.read(pool, sequence - 1, 1):
        note = decode_note(record)
        if isinstance(note, Remembered):
            headers = {**note.headers, "idempotency-replayed": "true"}
            return Reply(note.status, note.body, headers, note.media_type)
    return problem("internal", f"no reply in record {sequence}")


def unwritten(error: BaseException, among_nodes: bool) -> Reply:
    """The reply to a request that is not written, or may be not."""
    if among_nodes and isinstance(error, NotOwnerError):
        return moved()
    if isinstance(error, DoubtfulError):
        return moved(certain=False)
    told = "it could not be written to the journal; nothing happened"
    return problem("unavailable", told, headers={"retry-after": "1"})
