"""The journal that a command reads: a file that is there and is one, or a database's URL.

Opening a file as a journal makes one of an empty or nearly empty file, as SQLite does. A command
that only reads must not: it looks at the first bytes before.
"""

from __future__ import annotations

from pathlib import Path

from opportune.cli.extras import missing_package
from opportune.errors import InputError, Problem

try:
    from opportune.service.journal import Journal
    from opportune.service.postgres import PostgresJournal
    from opportune.service.settings import is_database_url
    from opportune.service.sqlite import SqliteJournal
except ModuleNotFoundError as error:
    raise missing_package(error, "a command that reads a journal") from error

MAGIC = b"SQLite format 3\0"
"""First bytes of a journal's file."""


def check_journal_file(path: Path) -> None:
    """Refuse a path that is no journal's file; the file stays as it is.

    Raises:
        InputError: If there is no such file, it cannot be read, or it begins with other bytes.
    """
    expected = "a journal's file, or a database's URL"
    try:
        if not path.is_file():
            remedy = "name the file that opportune serve was given by --database"
            raise InputError(Problem("--database", f"{path}: no such file", expected, remedy))
        with path.open("rb") as stream:
            start = stream.read(len(MAGIC))
    except OSError as error:
        told = f"{path}: {error.strerror}"
        raise InputError(Problem("--database", told, "a file that can be read")) from error
    if start != MAGIC:
        what = "is no journal" if start else "is empty"
        raise InputError(Problem("--database", f"{path} {what}", expected, "choose another path"))


def open_journal(database: str) -> Journal:
    """The journal, to read from.

    Raises:
        InputError: If it is none, or another process owns it.
    """
    if is_database_url(database):
        return PostgresJournal(database)
    check_journal_file(Path(database))
    return SqliteJournal(Path(database))
