"""The file of a SQLite journal: versions, how it is opened, how it is copied."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

import apsw

from opportune.errors import InputError, Problem
from opportune.service.journal import JournalError

LEAST_SQLITE = (3, 51, 3)
"""First version without the race between a checkpoint and the reset of the log."""


def check_sqlite_version(version: str) -> None:
    """Refuse a SQLite that can lose a write-ahead log.

    Raises:
        InputError: If it is older than 3.51.3.
    """
    if tuple(int(part) for part in version.split(".")[:3]) < LEAST_SQLITE:
        least = ".".join(map(str, LEAST_SQLITE))
        raise InputError(
            Problem(
                "installation",
                f"SQLite {version}",
                f"at least {least}: older ones can lose a write-ahead log",
                f"run: pip install 'apsw>={least}'",
            )
        )


def backup_file(
    source: Path, target: Path, finish: Callable[[Path], None] = lambda copy: None
) -> None:
    """Copy a journal's file to a new one with SQLite's online backup; its owner may go on.

    Args:
        source: The journal's file.
        target: The copy.
        finish: What is done to the copy before it has its name.

    Raises:
        JournalError: If the source is no journal, or the target exists or cannot be written.
    """
    if not source.is_file():
        raise JournalError(Problem("--database", str(source), "a journal's file"))
    if target.exists():
        raise JournalError(Problem("--out", str(target), "a file that does not exist yet"))
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        origin = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
        copy = apsw.Connection(str(beside))
        try:
            with copy.backup("main", origin, "main") as run:
                while not run.done:
                    run.step(1000)
            copy.pragma("journal_mode", "delete")  # one file, nothing beside it
        finally:
            copy.close()
            origin.close()
        finish(beside)
        os.replace(beside, target)
    except (apsw.Error, OSError) as error:
        full = isinstance(error, apsw.FullError)
        told = "the disk is full" if full else str(error)
        raise JournalError(Problem("--out", str(target), "a place to write to", told)) from error
    finally:  # half of a copy must not look like one
        for left in beside.parent.glob(f"{glob.escape(beside.name)}*"):
            left.unlink()


def open_database(path: Path) -> apsw.Connection:
    """A connection to a journal's file, with a write-ahead log and full synchronization.

    Raises:
        InputError: If the place cannot have a write-ahead log.
    """
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise InputError(
            Problem(
                "--database",
                f"{path}: journal mode {mode!r}",
                "a place that can have a write-ahead log",
                "use a local disk, not a network drive",
            )
        )
    for name, value in (("synchronous", "full"), ("fullfsync", 1), ("checkpoint_fullfsync", 1)):
        connection.pragma(name, value)
    return connection


def unreadable(path: Path, error: Exception) -> InputError:
    """What to tell where SQLite cannot read a file as a database."""
    return InputError(
        Problem("--database", f"{path}: {error}", "a journal of opportune", "choose another path")
    )
