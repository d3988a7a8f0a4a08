"""``opportune backup``: copy a journal while the service goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.cli.journal_file import check_journal_file
from opportune.cli.options import Place
from opportune.cli.output import print_note

try:
    from opportune.service.restoring import backup_journal
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune backup") from error


def backup(
    out: Annotated[Place, Parameter(help="The copy: a file that does not exist yet.")],
    /,
    *,
    database: Annotated[Place, Parameter(help="The service's database.")] = Path("opportune.db"),
) -> None:
    """Copy the journal to one file, as it is at one moment; the service may be running.

    `opportune serve --database COPY` serves from it, and gives no number again that was given after
    the copy; API keys are in a file of their own.
    """
    check_journal_file(database)
    backup_journal(database, out)
    print_note(f"backup: {out}, {out.stat().st_size} bytes")
