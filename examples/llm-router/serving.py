"""Run a Litestar application on this machine, and say where."""

from __future__ import annotations

import socket

import uvicorn
from litestar import Litestar


def run(app: Litestar, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; port 0 takes a free one."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(1024)
        print("serving http://{}:{}".format(*listening.getsockname()), flush=True)
        config = uvicorn.Config(app, log_level="error", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])
