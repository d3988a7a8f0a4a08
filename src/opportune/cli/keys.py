"""``opportune keys``: make, list and revoke API keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from opportune.cli.extras import missing_package
from opportune.cli.options import FORMAT_HELP, Filled, Format, Place
from opportune.cli.output import print_csv, print_json, print_note, print_table
from opportune.errors import InputError, Problem

try:
    from opportune.service.keys import SCOPES, KeyFile, Keys
    from opportune.service.postgres import PostgresJournal
    from opportune.service.postgres_keys import PostgresKeys
    from opportune.service.settings import is_database_url, key_file_beside
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune keys") from error

SCOPE_HELP = f"What the key is for: {', '.join(SCOPES)}; several: --scope decide --scope report."
DATABASE_HELP = "The service's database: the keys are beside the file, or in postgresql://..."
COLUMNS = ("prefix", "scopes", "note", "created")

keys = App(name="keys", help_format="plaintext")


@Parameter(name="*")
@dataclass(frozen=True)
class KeyOptions:
    """Where the keys are."""

    database: Annotated[Filled, Parameter(help=DATABASE_HELP)] = "opportune.db"
    keys: Annotated[Place | None, Parameter(help="The file of keys, if it is elsewhere.")] = None

    @contextmanager
    def open(self) -> Iterator[Keys]:
        """The keys, for a block.

        Raises:
            InputError: If they cannot be read.
        """
        if self.keys is not None:
            yield KeyFile(self.keys)
        elif is_database_url(self.database):
            journal = PostgresJournal(self.database)
            try:
                yield PostgresKeys(journal)
            finally:
                journal.close()
        else:
            yield KeyFile(key_file_beside(Path(self.database)))


DEFAULT_FILE = KeyOptions()


@keys.command
def create(
    *,
    scope: Annotated[list[str], Parameter(help=SCOPE_HELP, negative=())],
    note: Annotated[str, Parameter(help="Whose it is, in words.")] = "",
    where: KeyOptions = DEFAULT_FILE,
) -> None:
    """Make a key. It is printed once and cannot be read again; a running service knows it at once.

    From the first key on, the service answers nobody without one.
    """
    with where.open() as kept:
        print(kept.create(scope, note))
        print_note(f"kept as a hash in {kept.place}; send it as 'Authorization: Bearer opp_...'")


@keys.command(name="list")
def list_keys(
    *,
    where: KeyOptions = DEFAULT_FILE,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """List the keys: prefix, scopes, note; never a secret."""
    with where.open() as kept:
        rows = [
            (key.prefix, " ".join(key.scopes), key.note, _day(key.created)) for key in kept.keys
        ]
    if format == "json":
        print_json({"keys": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    elif format == "csv":
        print_csv(COLUMNS, rows)
    else:
        print_table("API keys", COLUMNS, rows)


@keys.command
def revoke(
    prefix: Annotated[str, Parameter(help="The key's public part, as listed.")],
    /,
    *,
    where: KeyOptions = DEFAULT_FILE,
) -> None:
    """Take a key back; a running service refuses it within a second."""
    if not prefix:
        raise InputError(Problem("prefix", repr(prefix), "the prefix of a key"))
    with where.open() as kept:
        kept.revoke(prefix)
    print_note(f"revoked: {prefix}")


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + " UTC"
