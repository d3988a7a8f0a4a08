"""The service that ``kills`` kills: imported once, by a fork server, so that it starts fast."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

from opportune.service.engine import warm_up
from opportune.service.log import set_up_logs
from opportune.service.serving import serve
from opportune.service.settings import ServiceSettings

set_up_logs("warning")
warm_up()


def run(database: Path, snapshot_every: int, tell: Connection) -> None:
    """Serve on a free port; the address goes through the pipe."""
    settings = ServiceSettings(database=database, port=0, snapshot_every=snapshot_every)
    serve(settings, tell.send)
