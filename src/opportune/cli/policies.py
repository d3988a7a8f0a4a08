"""``opportune policies``: what can be compared."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import FORMAT_HELP, Format
from opportune.cli.output import print_csv, print_json, print_table
from opportune.experiments.settings import Settings
from opportune.policies.base import loss_policies_by_id


def policies(*, format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table") -> None:
    """List the policies with their ids."""
    found = loss_policies_by_id()
    usual = Settings().policy_ids
    rows = [
        (policy.id, "yes" if policy.id in usual else "no", policy.title)
        for policy in found.values()
    ]
    if format == "json":
        keys = ("policy", "usual", "title")
        print_json({"policies": [dict(zip(keys, row, strict=True)) for row in rows]})
    elif format == "csv":
        print_csv(("policy", "usual", "title"), rows)
    else:
        columns = ("policy", "by default", "what it does")
        print_table("Policies of the loss model", columns, rows)
