"""``opportune explain``: why a decision of the live service came out as it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from opportune.cli.connecting import THIS_MACHINE, Service
from opportune.cli.extras import missing_package
from opportune.cli.journal_file import check_journal_file
from opportune.cli.options import FORMAT_HELP, Format, Place
from opportune.cli.output import print_csv, print_json, print_table
from opportune.errors import InputError, Problem, shorten

try:
    from opportune.service.answers import DecisionBody
    from opportune.service.idempotency import KeyMemory
    from opportune.service.loading import load_pool
    from opportune.service.naming import pool_of
    from opportune.service.reading import decision_body
    from opportune.service.sqlite import SqliteJournal
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune explain") from error

COLUMNS = (
    "server",
    "role",
    "score",
    "demand_price",
    "busy_seconds",
    "capacity_price",
    "capacity_cost",
    "opportunity_cost",
    "index",
    "by_prices",
    "propensity",
)
"""Fields of ``explaining.ExplainedServer``."""

RULES = {
    "list": "the plan's list, from the top",
    "list-ties": "the plan's list, ties at random",
    "weights": "at random, by the plan's weights",
    "context": "by the scores of the task's own context, less the opportunity cost of its type",
    "pins": "pinned by the task",
}


def explain(
    decision: Annotated[str, Parameter(help="Such as desk.d9: an assignment has decision_id.")],
    /,
    *,
    service: Service = THIS_MACHINE,
    database: Annotated[
        Place | None,
        Parameter(help="Read it from this database instead; the service must be off."),
    ] = None,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """Why: the servers, score less opportunity cost, who came next, by which plan.

    The opportunity cost is the demand price of the task's type plus what the server's time is
    worth: its capacity price times the mean seconds of service. Who was excluded and for which
    reason is shown to a key of scope admin only.
    """
    if database is None:
        with service.client() as client:
            body = client.get_decision(decision)
    else:
        body = _from_database(database, decision)
    rows = [tuple(getattr(one, name) for name in COLUMNS) for one in body.servers]
    if format == "json":
        print_json(json.loads(msgspec.json.encode(body)))
    elif format == "csv":
        print_csv(COLUMNS, rows)
    else:
        shown = [name.replace("_", " ") for name in COLUMNS]
        print_table(decision, shown, [[_cell(cell) for cell in row] for row in rows])
        print("\n".join(_lines(body)))


def _from_database(database: Path, decision: str) -> DecisionBody:
    """A decision read from a journal.

    Raises:
        InputError: If there is no such file or decision.
    """
    check_journal_file(database)
    pool = pool_of(decision)
    journal = SqliteJournal(database)
    try:
        known = pool is not None and pool in journal.pools()
        state = load_pool(journal, str(pool), KeyMemory(0)).state if known else None
        body = None if state is None else decision_body(state, decision)
    finally:
        journal.close()
    if body is None:
        remedy = "it never was, or it is over and was forgotten (see the pool's `retain`)"
        raise InputError(Problem("decision", shorten(decision), "a decision in it", remedy))
    return body


def _lines(body: DecisionBody) -> list[str]:
    """What the table does not hold, in words."""
    why, picked = body.why, [pick.server for pick in body.picks]
    found = f"task {body.task_id} of type {body.task_type}: " + (
        ", ".join(picked) if picked else "dropped"
    )
    lines = [
        found,
        f"rule: {RULES.get(why.rule, why.rule)}" + ("; drawn to explore" if why.explored else ""),
        f"plan: {why.plan or 'none'}" + (f" ({why.degraded})" if why.degraded else ""),
        f"servers: {why.n_permitted} permitted, {why.n_free} of them free; "
        f"headcount {why.headcount}",
    ]
    if body.lost_by is not None:
        lines.append(f"runner-up: {why.alternates[0].server}, lost by {_cell(body.lost_by)}")
    if why.excluded:
        told = ", ".join(f"{one.server} ({one.reason})" for one in why.excluded)
        lines.append(f"before the last pick, but not free: {told}")
    if why.shadow is not None:
        theirs = ", ".join(why.shadow_picks) or "nobody"
        same = "the same" if set(why.shadow_picks) == set(picked) else theirs
        lines.append(f"shadow plan {why.shadow}: {same}")
    if any(one.by_prices is False for one in body.servers):
        lines.append("index is not score - opportunity cost: scores are newer than the plan")
    return lines


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
