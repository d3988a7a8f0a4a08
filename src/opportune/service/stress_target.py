"""A service of its own for a stress run: a process with a database in a temporary folder."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from opportune.errors import OpportuneError, Problem
from opportune.service.peaks import peak_memory

MARK = "serving "
"""What `opportune serve` prints before its address."""

STOP_SECONDS = 60.0


class Target:
    """A service that lives as long as the block.

    Attributes:
        folder: Where its database is.
        address: Where it listens.
        pid: Its process.
        memory: Its largest resident memory in bytes, known at the end where the system tells it.

    Raises:
        OpportuneError: If it does not start; with what it said.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="opportune-stress-")
        self.folder = Path(self._temporary.name)
        self.address = ""
        self.pid = 0
        self.memory: int | None = None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Target:
        command = [sys.executable, "-m", "opportune", "serve", "--port", "0", "--log", "error"]
        command += ["--database", str(self.folder / "stress.db")]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        said = []
        for line in self._process.stderr or ():
            said.append(line)
            if line.startswith(MARK):
                self.address = line.removeprefix(MARK).split()[0]
                return self
        self.__exit__(None, None, None)
        raise OpportuneError(Problem("opportune serve", "".join(said).strip(), "it to start"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None:
            self.memory = peak_memory(process.pid)
            process.terminate()
            try:
                process.communicate(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        self._temporary.cleanup()
