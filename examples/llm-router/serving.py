"""Run a Litestar application on this machine, and say where."""

from __future__ import annotations

import socket
from typing import Annotated, Any

import uvicorn
from litestar import Litestar
from litestar.params import Body

Json = Annotated[dict[str, Any], Body()]
"""The body of a request: an object."""

KEPT = 60
"""Seconds for which an idle connection is kept: longer than clients keep theirs, so that a request
never meets a connection that is being closed."""


class _Announcing(uvicorn.Server):
    """Says where it serves once the application is ready."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            for one in sockets or ():
                print("serving http://{}:{}".format(*one.getsockname()), flush=True)


def run(app: Litestar, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; port 0 takes a free one."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(1024)
        config = uvicorn.Config(app, log_level="error", access_log=False, timeout_keep_alive=KEPT)
        _Announcing(config).run(sockets=[listening])
