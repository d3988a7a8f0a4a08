"""Run a node behind a web server until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import structlog
import uvicorn

from opportune.errors import InputError, Problem
from opportune.model.loss import LossInstance
from opportune.service.app import create_app
from opportune.service.http_limits import limited
from opportune.service.node import Node
from opportune.service.seeding import seed
from opportune.service.settings import ServiceSettings

SWITCH = 0.0005
"""Seconds after which the journal's thread gets its turn while requests are handled."""

KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: a gateway's pool should not find it closed."""

STOPPING = (signal.SIGTERM, signal.SIGINT)
"""Signals that end the service."""

_log = structlog.get_logger("server")


class Seed(NamedTuple):
    """A pool to be there from the start: its id, what it is made from, seconds of a step."""

    pool: str
    instance: LossInstance
    step: float


class _Server(uvicorn.Server):
    """Says where it listens; tells the node before open connections are waited for."""

    def __init__(
        self,
        config: uvicorn.Config,
        node: Node,
        ready: Callable[[str], None],
        first: Seed | None,
    ) -> None:
        super().__init__(config)
        self._first = first
        self._node = node
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Future[None] | None = None

    async def startup(self, sockets: Any = None) -> None:
        """Listen."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            self._node.listens(address)
            if self._node.cluster is not None:  # only now it can know of the others' pools
                await self._node.cluster.see_others()
                await _seed(self._node, self._first)
            self._ready(address)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals end the service well, and are not raised once more behind it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in STOPPING}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Told to stop: event streams end, new requests are refused.

        Among several nodes, first the pools are handed over, and requests are sent on until load
        balancers and clients have turned away. A second signal ends it at once.
        """
        cluster = self._node.cluster
        if cluster is None or cluster.draining or self._loop is None:
            self._node.stop()
            super().handle_exit(sig, frame)
            return
        self._loop.call_soon_threadsafe(self._begin_leaving, sig, frame)

    def _begin_leaving(self, sig: int, frame: FrameType | None) -> None:
        self._node.stop()
        self._leaving = asyncio.ensure_future(self._leave(sig, frame))

    async def _leave(self, sig: int, frame: FrameType | None) -> None:
        cluster = self._node.cluster
        if cluster is not None:
            await cluster.leave()
            if len(cluster.nodes) > 0:
                await asyncio.sleep(cluster.settings.drain)
        super().handle_exit(sig, frame)


def serve(
    settings: ServiceSettings, ready: Callable[[str], None], first: Seed | None = None
) -> int:
    """Serve until SIGTERM or SIGINT; the exit code.

    Args:
        settings: How.
        ready: Told the address when requests are taken.
        first: A pool to be made from an instance, unless it is there.

    Raises:
        InputError: If the journal, the keys, the address or the instance cannot be used.
    """
    node = Node(settings)
    try:
        app = create_app(node)
    except InputError:
        node.journal.close()
        raise
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="auto",
        http=limited(settings.request_timeout),
        lifespan="off",  # ours runs around the server, so that its errors are told
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
    )
    server = _Server(config, node, ready, first)
    sys.setswitchinterval(SWITCH)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        return runner.run(_run(node, server, first))


async def _seed(node: Node, first: Seed | None) -> None:
    if first is not None and not await seed(node, *first):
        _log.info("the pool is there; the instance is not read again", pool=first.pool)


async def _run(node: Node, server: _Server, first: Seed | None) -> int:
    loop = asyncio.get_running_loop()
    try:
        await loop.run_in_executor(None, node.load)
        node.start()
        if node.cluster is None:
            await _seed(node, first)
        gc.collect()
        gc.freeze()
        await server.serve()
    except SystemExit as error:  # what uvicorn does when it cannot listen
        where = f"{node.settings.host}:{node.settings.port}"
        told = Problem("--host, --port", where, "a free address of this machine")
        raise InputError(told) from error
    finally:
        await node.close()
    return 0 if server.started else 1
