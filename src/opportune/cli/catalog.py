"""``opportune catalog``: the instances that are built in."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import FORMAT_HELP, Format
from opportune.cli.output import print_csv, print_json, print_table
from opportune.model.catalog import catalog as entries
from opportune.model.queue_catalog import queue_catalog
from opportune.model.recorded_catalog import recorded_catalog

COLUMNS = ("instance", "needs data", "what it is", "source")


def catalog(*, format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table") -> None:
    """List the built-in instances; those that need data read the folder OPPORTUNE_DATA names."""
    rows = [
        (
            entry.id if entry.samples == 1 else f"{entry.id}@0",
            "yes" if entry.needs_data else "no",
            entry.title,
            entry.source,
        )
        for entry in (*entries(), *queue_catalog(), *recorded_catalog())
    ]
    if format == "json":
        keys = ("instance", "needs_data", "title", "source")
        print_json({"instances": [dict(zip(keys, row, strict=True)) for row in rows]})
    elif format == "csv":
        print_csv(COLUMNS, rows)
    else:
        print_table("Built-in instances", COLUMNS, rows)
