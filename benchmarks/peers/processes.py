"""Peers as processes: started once, asked once per round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from benchmarks.peers.replay import Outcome

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, where ``-m benchmarks.peers.NAME`` is found."""

NEIGHBORS_VARIABLE = "NEIGHBORS_PYTHON"
"""Environment variable with the Python of the neighbors' environment; ``make bench`` sets it."""


def neighbors_python() -> str:
    """The Python that peers run in: of the neighbors' environment, or our own without one."""
    given = os.environ.get(NEIGHBORS_VARIABLE, "")
    return os.path.abspath(given) if given else sys.executable


def neighbors_versions(packages: tuple[str, ...]) -> dict[str, str | None]:
    """Versions of packages where peers run, None for one that is not there; and of Python."""
    program = (
        "import importlib.metadata as m, json, platform, sys\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "names = {name: found.get(name) for name in sys.argv[1:]}\n"
        "print(json.dumps({'python': platform.python_version(), **names}))"
    )
    command = [neighbors_python(), "-c", program, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    versions: dict[str, str | None] = json.loads(done.stdout)
    return versions


class Peer:
    """A peer program that waits for requests. Use it in a ``with`` statement."""

    def __init__(self, module: str, arrivals: Path) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [neighbors_python(), "-m", f"benchmarks.peers.{module}", str(arrivals)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def replay(self, order: str) -> Outcome:
        """Let it replay the arrivals by one of the orders in its file.

        Raises:
            RuntimeError: If it ended instead of answering; its own message is on stderr.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: there will be no answer
            process.stdin.write(order + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer {self._module} ended with code {process.wait()}")
        return Outcome(**json.loads(line))

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
