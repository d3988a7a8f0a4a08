"""What happened in a pool, as a page or as a stream that goes on (server-sent events).

The cursor is the number of a record: a client that comes back says the last one that it has seen,
``Last-Event-ID`` or ``?after=``, and misses nothing. Numbers of records that are no events (notes)
are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from opportune.errors import Problem, shorten
from opportune.service.api.answering import AnyRequest, Segment, call_of, problems, respond
from opportune.service.api.bodies import EventPage
from opportune.service.api.calls import Call, named
from opportune.service.api.tail import MOST, read_page, tail_of
from opportune.service.problems import Reply, encode_json, refusal

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent."""


@get(
    "/v1/pools/{pool:str}/events",
    opt={"scope": "read"},
    responses=problems("not-found", "invalid", "conflict"),
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
        start = _known(int(seen) if seen else after, owner.written)
        return Stream(  # type: ignore[return-value]
            follow_events(call, name, start),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )
    place = (name, _known(after, owner.written))
    most = min(limit, owner.written - after)  # what is acknowledged, and no more
    page = await asyncio.to_thread(read_page, call.node.journal, place, most, call.sees_all)
    return respond(Reply(200, encode_json(page)))


def _known(cursor: int, written: int) -> int:
    """A cursor, if the journal has the record.

    Raises:
        RefusalError: If it has not: it was restored from a backup, and whoever waited for the next
            number would miss what happens until then.
    """
    if cursor > written:
        wrong = Problem(
            "after",
            str(cursor),
            f"at most {written}, the last record",
            "the journal is another one than the cursor's: begin anew",
        )
        raise refusal("conflict", str(wrong), [wrong])
    return cursor


async def follow_events(call: Call, pool: str, after: int) -> AsyncGenerator[bytes, None]:
    """Events as they are written, for as long as the client stays and its key is one."""
    owner = call.node.owner(pool)
    tail = tail_of(owner, call.node.journal, call.sees_all)
    yield b": events of the pool follow\n\n"
    with tail.followed():
        while call.node.ready and not owner.gone:
            written = await owner.wait_beyond(after, KEEP_ALIVE)
            if written and tail.pause:
                await asyncio.sleep(tail.pause)
            if not call.still_holds:
                return
            if not written:
                yield b": still here\n\n"
                continue
            told, after = await tail.behind(after)
            if told:
                yield told


HANDLERS = (get_events,)
