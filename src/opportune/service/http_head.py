"""HTTP as the web server speaks it, with a limit on what comes before a body.

uvicorn reads a head of any length into memory, before anybody has shown a key: one connection that
sends header bytes for ever would take all of it.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opportune.service.problems import problem

MOST_HEAD = 1 << 16
"""Bytes that a head, or a trailer, may go on for after its first piece."""


class LimitedHead(HttpToolsProtocol):
    """A connection of which only the body may be long."""

    _unread = 0
    _moved = False

    def data_received(self, data: bytes) -> None:
        """Bytes came; too many of them that are neither a whole head nor a body end it."""
        self._moved = False
        super().data_received(data)
        self._unread = 0 if self._moved else self._unread + len(data)
        if self._unread > MOST_HEAD and not self.transport.is_closing():
            self.logger.warning("The head of a request is too large.")
            reply = problem("too-large", f"the head of a request has at most {MOST_HEAD} bytes")
            head = (
                f"HTTP/1.1 {reply.status} Content Too Large\r\n"
                f"content-type: {reply.media_type}\r\n"
                f"content-length: {len(reply.body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + reply.body)
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._moved = True
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
        self._moved = True
        super().on_message_complete()
