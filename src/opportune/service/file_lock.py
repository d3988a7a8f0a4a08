"""One process owns a journal's file: a lock beside it that ends with the process, however it ends.

The lock is the operating system's (``flock``, on Windows ``LockFile``), not the file's existence,
so nothing is left over after ``kill -9``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opportune.errors import InputError, Problem

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """Holds ``PATH.lock`` until released or until the process ends.

    Raises:
        InputError: If another process holds it, or the place cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".lock")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            told = error.strerror or str(error)
            raise InputError(
                Problem("--database", str(path), "a path to write to", told)
            ) from error
        try:
            _lock(self._file)
        except OSError as error:
            os.close(self._file)
            raise InputError(
                Problem(
                    "--database",
                    str(path),
                    "a journal that no other process has open",
                    "stop the other `opportune serve`, or choose another file",
                )
            ) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _lock(file: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
