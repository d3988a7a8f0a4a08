"""A TCP proxy in front of a PostgreSQL that cuts a connection between a commit and its answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

COMMIT = b"COMMIT"
"""What a client says that ends a transaction, in either of the protocol's ways."""


class CuttingProxy:
    """Listens on a port of this machine and passes everything on, until it is armed.

    Args:
        url: Of the database: a host and port, or a folder with its socket.

    Attributes:
        url: Of the database through the proxy.
        cuts: How many answers to a commit were swallowed.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        folder = parse_qs(parts.query).get("host", [""])[0]
        self._target = folder or (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        user = f"{parts.username}@" if parts.username else ""
        self.url = f"postgresql://{user}127.0.0.1:{port}{parts.path}"
        self.cuts = 0
        self._armed = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, holding: bytes) -> None:
        """Cut the next connection that commits a transaction in which these bytes were sent."""
        self._armed = holding

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, str):
            one = socket.socket(socket.AF_UNIX)
            one.connect(f"{self._target}/.s.PGSQL.5432")
            return one
        return socket.create_connection(self._target)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server, cutting = self._connect(), threading.Event()
                for one, two, check in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._pass, args=(one, two, cutting, check), daemon=True
                    ).start()

    def _pass(
        self, source: socket.socket, to: socket.socket, cutting: threading.Event, asks: bool
    ) -> None:
        sent = b""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if asks and self._armed:
                    sent += data
                    if self._armed in sent and COMMIT in data:
                        self._armed = b""
                        cutting.set()
                elif not asks and cutting.is_set():
                    self.cuts += 1
                    break  # it is committed, and nobody is told
                to.sendall(data)
        for one in (source, to):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
