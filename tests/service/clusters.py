"""Several nodes on one PostgreSQL as processes of their own, to be asked, killed and paused."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from opportune.service.settings import ClusterSettings
from tests.service.cluster_target import Asked, run

START_SECONDS = 120.0

LEASE = 5.0
"""Seconds of a lease: a node that a busy machine lets wait keeps its pools."""

HOLD = 60.0
"""Seconds that a request waits for its pool to get an owner."""


class Answer(NamedTuple):
    """An answer: status, body, headers."""

    status: int
    body: Any
    headers: dict[str, str]


class NodeProcess:
    """A node.

    Attributes:
        address: Where it listens.
        name: Its number, as people read it.
    """

    def __init__(self, process: BaseProcess, address: str, name: str) -> None:
        self.process, self.address, self.name = process, address, name

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process.pid is not None
        return self.process.pid

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()

    def stop(self, wait: bool = True) -> None:
        """Tell it to stop well."""
        self.process.terminate()
        if wait:
            self.process.join(START_SECONDS)
            # 255: multiprocessing could not read the status from its fork server
            assert self.process.exitcode in (0, 255), self.process.exitcode

    def pause(self) -> None:
        """Let it do nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def __call__(
        self, method: str, path: str, body: Any = None, timeout: float = 2 * HOLD, **headers: str
    ) -> Answer:
        """Ask it; headers with ``_`` for ``-``."""
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            named.setdefault("content-type", "application/json")
        request = urllib.request.Request(self.address + path, data, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                found, status, told = response.read(), response.status, response.headers
        except urllib.error.HTTPError as error:
            found, status, told = error.read(), error.code, error.headers
        is_json = "json" in told.get("content-type", "")
        text = json.loads(found) if is_json and found else found.decode()
        return Answer(status, text, {name.lower(): value for name, value in told.items()})

    def good(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask for what must go well; the body."""
        answer = self(method, path, body, **headers)
        assert answer.status < 300, answer
        return answer.body

    def pools(self) -> list[str]:
        """Pools that it owns."""
        return list(self.good("GET", "/readyz").get("pools", []))


class Nodes:
    """Nodes on one schema of a database.

    Args:
        url: Of the database.
        schema: Theirs.
        settings: More of ``ClusterSettings``.
    """

    def __init__(self, url: str, schema: str, **settings: Any) -> None:
        self._url, self._schema, self._settings = url, schema, settings
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.service.cluster_target"])
        self._number = 0
        self.nodes: list[NodeProcess] = []

    def start(self, **asked: Any) -> NodeProcess:
        """Start one more; ``url`` lets it go to the database another way."""
        self._number += 1
        name = f"node-{self._number}"
        url = asked.pop("url", self._url)
        settings = {"drain": 0.3, "hold": HOLD, "lease": LEASE, **self._settings}
        cluster = ClusterSettings(url, schema=self._schema, name=name, **settings)
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=run, args=(Asked(cluster, **asked), sender))
        process.start()
        sender.close()
        assert receiver.poll(START_SECONDS), "the node does not start"
        node = NodeProcess(process, receiver.recv(), name)
        self.nodes.append(node)
        return node

    def living(self) -> list[NodeProcess]:
        """Those that run."""
        return [node for node in self.nodes if node.process.is_alive()]

    def end(self) -> None:
        """End all."""
        for node in self.living():
            node.kill()


@contextmanager
def cluster(url: str, schema: str, n: int, **settings: Any) -> Iterator[Nodes]:
    """Nodes for a block."""
    nodes = Nodes(url, schema, **settings)
    try:
        for _ in range(n):
            nodes.start()
        yield nodes
    finally:
        nodes.end()
