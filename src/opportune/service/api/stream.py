"""What happened in a pool, as a page or as a stream that goes on (server-sent events).

The cursor is the number of a record: a client that comes back says the last one that it has seen,
``Last-Event-ID`` or ``?after=``, and misses nothing. Numbers of records that are no events (notes)
are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from opportune.errors import Problem, shorten
from opportune.service import events
from opportune.service.api.answering import AnyRequest, Segment, call_of, problems, respond
from opportune.service.api.bodies import EventBody, EventPage
from opportune.service.api.calls import Call, named
from opportune.service.events import Event
from opportune.service.notes import is_note
from opportune.service.problems import Reply, encode_json, refusal

MOST = 1000
"""Records of a page."""

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent."""

BULKY = {"PlanPut": ("plan", "parts"), "ScoresPut": ("rows",), "LearnedPut": ("learned",)}
"""Fields that are left out: read the plan or the scores instead."""

CONFIDENTIAL = {"TaskCreated": ("conflicts", "fingerprint")}
"""Fields that only ``admin`` sees; besides, why servers were excluded."""


@get(
    "/v1/pools/{pool:str}/events",
    opt={"scope": "read"},
    responses=problems("not-found", "invalid"),
)
async def get_events(
    request: AnyRequest,
    pool: Segment,
    after: Annotated[
        int, QueryParameter(ge=0, le=2**53, description="Cursor: the last record seen.")
    ] = 0,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MOST, description="Most events of a page.")
    ] = 100,
) -> Response[EventPage]:
    """What happened behind a cursor: a page, or with `Accept: text/event-stream` a stream."""
    call, name = call_of(request), named(pool)
    owner = call.node.owner(name)
    if "text/event-stream" in request.headers.get("accept", ""):
        seen = request.headers.get("last-event-id", "")
        if seen and not (seen.isascii() and seen.isdigit() and len(seen) < 17):
            wrong = Problem("Last-Event-ID", shorten(seen), "the number of a record", "see id:")
            raise refusal("invalid", str(wrong), [wrong])  # else all would be told once more
        start = int(seen) if seen else after
        return Stream(  # type: ignore[return-value]
            follow_events(call, name, start),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )
    page = await asyncio.to_thread(_page, call, name, after, min(limit, owner.written))
    return respond(Reply(200, encode_json(page)))


async def follow_events(call: Call, pool: str, after: int) -> AsyncGenerator[bytes, None]:
    """Events as they are written, for as long as the client stays."""
    owner = call.node.owner(pool)
    yield b": events of the pool follow\n\n"
    while call.node.ready and not owner.gone:
        if not await owner.wait_beyond(after, KEEP_ALIVE):
            yield b": still here\n\n"
            continue
        page = await asyncio.to_thread(_page, call, pool, after, MOST)
        for event in page.events:
            yield b"id: %d\nevent: %s\ndata: %s\n\n" % (
                event.sequence,
                event.type.encode(),
                encode_json(event.event),
            )
        after = page.next


def _page(call: Call, pool: str, after: int, limit: int) -> EventPage:
    """Some records behind a cursor; in any thread."""
    found = []
    for sequence, record in call.node.journal.read(pool, after, limit):
        after = sequence
        if not is_note(record):
            event = events.decode(record)
            kind = type(event).__name__
            found.append(EventBody(sequence, kind, _shown(kind, event, call.sees_all)))
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


HANDLERS = (get_events,)
