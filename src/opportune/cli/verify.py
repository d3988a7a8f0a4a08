"""``opportune verify``: is the journal whole, and does it give the same decisions again?"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.cli.journal_file import open_journal
from opportune.cli.options import FORMAT_HELP, Filled, Format
from opportune.cli.output import print_csv, print_json, print_table, progress_bar

try:
    from opportune.service.replaying import Replay, replay
    from opportune.service.settings import shown_place
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune verify") from error

COLUMNS = ("pool", "records", "events", "decisions", "different", "state_hash", "capacity_mismatch")


def verify(
    *,
    database: Annotated[
        Filled, Parameter(help="The service's file or postgresql://...; the service must be off.")
    ] = "opportune.db",
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> int:
    """Check a journal: storage, every decision made again, snapshots. Exit code 1 if not well.

    A running service owns its journal: verify a backup of it.
    """
    journal = open_journal(database)
    try:
        problems = list(journal.check())
        found: list[Replay] = []
        if not problems:
            with progress_bar("verifying") as progress:
                for i, pool in enumerate(journal.pools()):
                    progress(i / len(journal.pools()), pool)
                    found.append(replay(journal, pool))
    finally:
        journal.close()
    problems += [problem for one in found for problem in one.problems]
    rows = [
        (
            one.pool,
            one.records,
            one.events,
            one.decisions,
            one.different,
            one.state_hash,
            one.capacity_mismatch,
        )
        for one in found
    ]
    if format == "json":
        told = [
            {"field": p.field, "value": p.value, "expected": p.expected, "remedy": p.remedy}
            for p in problems
        ]
        pools = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        print_json({"ok": not problems, "problems": told, "pools": pools})
    elif format == "csv":
        print_csv(COLUMNS, rows)
    else:
        text = [tuple(str(cell)[:16] for cell in row) for row in rows]
        print_table(shown_place(database), COLUMNS, text, ("pool", "state_hash"))
        print("\n".join(str(problem) for problem in problems) or "no problems found")
    return 1 if problems else 0
