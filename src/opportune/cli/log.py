"""``opportune log``: what a pool of the live service decided, and what came of it, as a log."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, TextIO

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.cli.journal_file import open_journal
from opportune.cli.options import Filled, Place
from opportune.cli.output import csv_stream, print_note
from opportune.errors import InputError, Problem
from opportune.model.spelling import counted, did_you_mean
from opportune.model.writing import put_all

try:
    from opportune.service.decision_log import DecisionLog, columns_file, decision_log
    from opportune.service.settings import shown_place
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune log") from error

DATABASE_HELP = "The service's database: a file (the service must be off), or postgresql://..."
OUT_HELP = "Write log.csv and columns.toml into this folder; else the log is printed."


def log(
    pool: Annotated[str, Parameter(help="The pool.")],
    /,
    *,
    database: Annotated[Filled, Parameter(help=DATABASE_HELP)] = "opportune.db",
    out: Annotated[Place | None, Parameter(help=OUT_HELP)] = None,
) -> None:
    """Write the log of a pool: one row per task and server, as fit and replay read it.

    A running service owns its file: take a backup and read that.
    """
    journal = open_journal(database)
    try:
        known = journal.pools()
        if pool not in known:
            told = f"a pool of {shown_place(database)}: {', '.join(known) or 'it has none'}"
            raise InputError(Problem("POOL", repr(pool), told, did_you_mean(pool, known)))
        found = decision_log(journal, pool)
    finally:
        journal.close()
    if found.left_out:
        names = ", ".join(found.left_out)
        print_note(f"left out of the contexts, not a number in every task: {names}")
    if out is None:
        _write(found, csv_stream())
        return
    rows = io.StringIO()
    _write(found, rows)
    files = {"log.csv": rows.getvalue(), "columns.toml": columns_file(found)}
    put_all({out / name: text.encode() for name, text in files.items()})
    print_note(f"log: {out / 'log.csv'}, {counted(len(found.rows), 'row')}; beside it columns.toml")


def _write(found: DecisionLog, stream: TextIO) -> None:
    writer: Any = csv.writer(stream, lineterminator="\n")
    writer.writerow(found.columns)
    writer.writerows(found.rows)
