"""``opportune check``: is this instance well formed, and can its tasks be served?"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import FORMAT_HELP, INSTANCE_HELP, LOAD_HELP, Format, Number
from opportune.cli.output import print_csv, print_json, print_table
from opportune.errors import Problem
from opportune.model.files import check_instance, load_instance
from opportune.model.queue_files import check_queue, is_queue
from opportune.pricing.feasibility import feasibility


def check(
    instance: Annotated[str, Parameter(help=INSTANCE_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> int:
    """Check an instance: every problem with its field, value and remedy. Exit code 1 if any."""
    waits = is_queue(instance)
    found = check_queue(instance, load) if waits else check_instance(instance, load)
    problems, summary = found.problems, found.summary
    if not problems and not waits:
        loss = load_instance(instance, load)
        feasible = feasibility(loss)
        summary += f", largest feasible load {feasible.max_load:.4g}"
        nothing_to_choose = int(loss.servers_per_task.max()) == loss.n_servers
        problems = () if nothing_to_choose else feasible.problems
    if format == "json":
        print_json({"ok": not problems, "problems": _records(problems), "summary": summary})
    elif format == "csv":
        rows = [(p.field, p.value, p.expected, p.remedy) for p in problems]
        print_csv(("field", "value", "expected", "remedy"), rows)
    else:
        print(summary)
        if problems:
            told = [(p.field, p.value, p.expected, p.remedy) for p in problems]
            print_table("Problems", ("field", "value", "expected", "what to change"), told)
        else:
            print("no problems found")
    return 1 if problems else 0


def _records(problems: tuple[Problem, ...]) -> list[dict[str, str]]:
    return [
        {"field": p.field, "value": p.value, "expected": p.expected, "remedy": p.remedy}
        for p in problems
    ]
