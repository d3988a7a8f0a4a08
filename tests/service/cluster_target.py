"""A node of a cluster as a process: imported once, by a fork server, so that it starts fast."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import NamedTuple

from opportune.service.engine import warm_up
from opportune.service.log import set_up_logs
from opportune.service.serving import serve
from opportune.service.settings import ClusterSettings, ServiceSettings

set_up_logs("error")
warm_up()


class Asked(NamedTuple):
    """How a node runs: its settings, seconds by which its clock is wrong, least level of logs."""

    cluster: ClusterSettings
    snapshot_every: int = 50_000
    skew: float = 0.0
    logs: str = "error"


def run(asked: Asked, tell: Connection) -> None:
    """Serve on a free port; the address goes through the pipe."""
    set_up_logs(asked.logs)  # type: ignore[arg-type]
    if asked.skew:
        real = time.time
        time.time = lambda: real() + asked.skew
    settings = ServiceSettings(port=0, snapshot_every=asked.snapshot_every, cluster=asked.cluster)
    serve(settings, tell.send)
