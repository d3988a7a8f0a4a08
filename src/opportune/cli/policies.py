"""``opportune policies``: what can be compared."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import FORMAT_HELP, Format
from opportune.cli.output import print_csv, print_json, print_table
from opportune.policies.base import loss_policies_by_id


def policies(*, format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table") -> None:
    """List the policies with their ids."""
    found = loss_policies_by_id()
    rows = [(policy.id, policy.title) for policy in found.values()]
    if format == "json":
        print_json({"policies": [{"policy": one, "title": title} for one, title in rows]})
    elif format == "csv":
        print_csv(("policy", "title"), rows)
    else:
        print_table("Policies of the loss model", ("policy", "what it does"), rows)
