"""A real `opportune serve` for the client to talk to: it can be killed, and comes back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import httpx

from opportune.client import AsyncClient
from opportune.service.stress_target import MARK


class Served:
    """A service in a process of its own, on a database in a folder.

    Attributes:
        url: Where it listens; the same after every start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = ""
        self.start()

    def start(self) -> None:
        """Start it; returns when it answers."""
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "opportune", "serve", "--port", port]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=self._folder
        )
        for line in self._process.stderr or ():
            if line.startswith(MARK):
                self.url = line.removeprefix(MARK).split()[0]
                return
        raise AssertionError("it does not serve")

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.communicate()


class Losing(httpx.HTTPTransport):
    """Lets every request through and loses the answer to its first try.

    Attributes:
        tries: How often each idempotency key was sent; "" for requests without.
    """

    def __init__(self, lose: bool = True) -> None:
        super().__init__()
        self.lose = lose
        self.tries: Counter[str] = Counter()
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        key = request.headers.get("idempotency-key", "")
        with self._lock:
            self.tries[key] += 1
            first = self.tries[key] == 1
        response = super().handle_request(request)
        if self.lose and key and first:
            response.read()
            response.close()
            raise httpx.ReadError("the answer is lost")
        return response


class Waiting:
    """An AsyncClient whose methods wait, so that both clients pass the same tests."""

    def __init__(self, *words: Any, **named: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(_made(*words, **named))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *words, **named: self._runner.run(_awaited(method(*words, **named)))

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._runner.close()

    def first_events(self, pool: str, after: int, count: int) -> list[Any]:
        """The first events that a stream brings."""

        async def take() -> list[Any]:
            found: list[Any] = []
            events = self._client.follow_events(pool, after)
            async for event in events:
                found.append(event)
                if len(found) == count:
                    break
            await events.aclose()
            return found

        return self._runner.run(take())


async def _made(*words: Any, **named: Any) -> AsyncClient:
    return AsyncClient(*words, **named)


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
