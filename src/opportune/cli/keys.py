"""``opportune keys``: make, list and revoke API keys."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from opportune.cli.extras import missing_package
from opportune.cli.options import FORMAT_HELP, Format
from opportune.cli.output import print_csv, print_json, print_note, print_table
from opportune.errors import InputError, Problem

try:
    from opportune.service.keys import SCOPES, KeyFile
    from opportune.service.settings import key_file_beside
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune keys") from error

SCOPE_HELP = f"What the key is for: {', '.join(SCOPES)}; several: --scope decide --scope report."
COLUMNS = ("prefix", "scopes", "note", "created")

keys = App(name="keys", help_format="plaintext")


@Parameter(name="*")
@dataclass(frozen=True)
class KeyOptions:
    """Which file of keys."""

    database: Annotated[Path, Parameter(help="The service's database: its keys are beside it.")] = (
        Path("opportune.db")
    )
    keys: Annotated[Path | None, Parameter(help="The file of keys, if it is elsewhere.")] = None

    def file(self) -> KeyFile:
        """The file.

        Raises:
            InputError: If it is no file of keys.
        """
        return KeyFile(key_file_beside(self.database) if self.keys is None else self.keys)


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
    file = where.file()
    print(file.create(scope, note))
    print_note(f"kept as a hash in {file.path}; send it as 'Authorization: Bearer opp_...'")


@keys.command(name="list")
def list_keys(
    *,
    where: KeyOptions = DEFAULT_FILE,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """List the keys: prefix, scopes, note; never a secret."""
    rows = [
        (key.prefix, " ".join(key.scopes), key.note, _day(key.created)) for key in where.file().keys
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
    where.file().revoke(prefix)
    print_note(f"revoked: {prefix}")


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + " UTC"
