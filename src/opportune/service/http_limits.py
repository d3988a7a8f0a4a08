"""HTTP as the web server speaks it, with limits on a request that is not whole yet.

uvicorn reads a head of any length into memory, and waits for the rest of a request for ever, before
anybody has shown a key: one connection that sends header bytes without end would take all memory,
and connections that send nothing more would take all there can be. (Its time-out is for connections
that are idle between two requests, and every byte ends it.)

The time of a request grows with what has come of it, so a long upload may take as long as it
needs, but not one byte a minute.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opportune.service.problems import Reply, problem

MOST_HEAD = 1 << 16
"""Bytes that a head, or a trailer, may go on for after its first piece."""

LEAST_RATE = 4096
"""Bytes of a request for which its sender gets one more second."""

REASONS = {400: "Bad Request", 408: "Request Timeout", 413: "Content Too Large"}


class LimitedRequests(HttpToolsProtocol):
    """A connection of which only the body may be long, and no request may stand still.

    Attributes:
        seconds: For a request to come, beside what its bytes give; also for the first one to begin.
    """

    seconds: float = 30.0
    _unread = 0
    _moved = False
    _whole = False
    _began = 0.0
    _came = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there, and has some time to ask something."""
        super().connection_made(transport)
        self._wait_for_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came; too many of them that are neither a whole head nor a body end it."""
        self._moved = self._whole = False
        super().data_received(data)
        self._unread = 0 if self._moved else self._unread + len(data)
        if self._unread > MOST_HEAD:
            told = f"the head of a request has at most {MOST_HEAD} bytes"
            self._refuse(problem("too-large", told))
        elif not self._whole:
            if self._timer is None:
                self._wait_for_rest()
            self._came += len(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._moved, self._whole = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._moved = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        self._moved = self._whole = True
        if self._timer is not None:
            self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP: told as a problem, like everything else."""
        self._refuse(problem("malformed", "what came is no HTTP request"))

    # ------------------------------------------------------------------------------- time

    def _wait_for_rest(self) -> None:
        self._began, self._came = self.loop.time(), 0
        self._timer = self.loop.call_later(self.seconds, self._look)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End a request that has not come in time, unless it is we who let it wait."""
        self._timer = None
        if self.transport.is_closing():
            return
        left = self._began + self.seconds + self._came / LEAST_RATE - self.loop.time()
        if left <= 0 and (self.flow.read_paused or self._answers()):
            left = self.seconds
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
        elif self._came == 0 and self.cycle is None:
            self.transport.close()  # nothing was asked, so nothing is answered
        else:
            told = f"a request has {self.seconds:g} s to come, and one more for {LEAST_RATE} bytes"
            self._refuse(problem("too-slow", told))

    def _answers(self) -> bool:
        """Whether a whole request is being answered; what came behind it has time."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _is_answered(self) -> bool:
        """Whether the request that is not whole has an answer already, or a part of one."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and cycle.response_started

    def _refuse(self, reply: Reply) -> None:
        """End the connection; if nothing is answered yet, say why."""
        if self.transport.is_closing():
            return
        self.logger.warning("A request was ended: %s", REASONS[reply.status])
        if not self._is_answered():
            head = (
                f"HTTP/1.1 {reply.status} {REASONS[reply.status]}\r\n"
                f"content-type: {reply.media_type}\r\n"
                f"content-length: {len(reply.body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + reply.body)
        self.transport.close()


def limited(seconds: float) -> type[LimitedRequests]:
    """Connections on which a request has so many seconds to come."""
    return type("LimitedRequests", (LimitedRequests,), {"seconds": seconds})
