"""One process owns a journal's file: a lock beside it that ends with the process, however it ends.

The lock is the operating system's (``flock``, on Windows ``LockFile``), not the file's existence,
so nothing is left over after ``kill -9``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        with suppress(OSError):  # who holds it is for people only: a disk may be full
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait until no other process changes a file, and keep the others waiting.

    Args:
        path: The file; the lock is ``PATH.lock`` beside it.

    Raises:
        OSError: If the place cannot be written to.
    """
    file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file, waits=True)
        yield
    finally:
        os.close(file)


def _lock(file: int, waits: bool = False) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file, msvcrt.LK_LOCK if waits else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
