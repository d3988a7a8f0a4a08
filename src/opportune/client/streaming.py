"""A pool's events out of a stream of bytes (server-sent events), and when to connect again."""

from __future__ import annotations

import time

import msgspec

from opportune.client.calls import Call, path_of
from opportune.client.retrying import Retries, Trial
from opportune.service.api.bodies import EventBody

SILENCE = 60.0
"""Seconds without a byte after which a stream counts as broken; the service speaks every 15."""

LASTED = 1.0
"""Seconds after which a connection counts as a good one: the next failure is a first one."""

_DATA = msgspec.json.Decoder(dict[str, object])


class EventReader:
    """Cuts events out of what arrives. Only a whole event, with its empty line, counts.

    Lines end with a line feed and nothing else: text may hold other separators.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[EventBody]:
        """The events that a piece of the stream completes."""
        *whole, self._rest = (self._rest + chunk).split(b"\n\n")
        return [event for block in whole if (event := _event_in(block)) is not None]


def _event_in(block: bytes) -> EventBody | None:
    """The event of a block of lines; None for a comment."""
    found: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        found[name] = value.removeprefix(b" ")
    if b"data" not in found:
        return None
    return EventBody(int(found[b"id"]), found[b"event"].decode(), _DATA.decode(found[b"data"]))


class Following:
    """Where a reader of a pool's events stands; outlives its connections.

    Args:
        pool: Whose events.
        after: Cursor: number of the last record seen.
        retries: How often a broken connection is made again before one lasts.
    """

    def __init__(self, pool: str, after: int, retries: Retries) -> None:
        self.after = after
        self._call = Call("GET", path_of("pools", pool, "events"), bytes)
        self._retries = retries
        self._trial = Trial(retries)
        self._reader = EventReader()
        self._since = 0.0

    @property
    def path(self) -> str:
        """Where to connect."""
        return self._call.path

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The headers of a request that goes on behind the last event."""
        asked = {"accept": "text/event-stream", "last-event-id": str(self.after)}
        return {**self._call.headers(api_key), **asked}

    def connected(self) -> None:
        """A connection is there: half an event of the one before is forgotten."""
        self._reader = EventReader()
        self._since = time.monotonic()

    def feed(self, chunk: bytes) -> list[EventBody]:
        """The events that a piece of the stream completes; call :meth:`seen` for each."""
        if time.monotonic() - self._since > LASTED:
            self._trial = Trial(self._retries)
        return self._reader.feed(chunk)

    def seen(self, event: EventBody) -> EventBody:
        """An event is handed on: a new connection begins behind it."""
        self.after = event.sequence
        self._trial = Trial(self._retries)
        return event

    def broken(self, cause: Exception | str) -> float:
        """The connection ended: seconds to wait.

        Raises:
            UnavailableError: If it is not worth another try.
        """
        return self._trial.after_silence(cause)

    def refused(self, status: int, content: bytes, retry_after: str | None) -> float:
        """The answer is no stream: seconds to wait.

        Raises:
            ServiceError: If it is final.
        """
        return self._trial.after_answer(status, content, retry_after)
