"""A comparison of queue policies as a plain record: the JSON shape of ``opportune queue``."""

from __future__ import annotations

from typing import Any

from opportune.experiments.queue import QueueComparison
from opportune.experiments.records import finite

Record = dict[str, Any]

COLUMNS = (
    "policy",
    "queue_regret",
    "standard_error",
    "excess",
    "excess_error",
    "transient_cost",
    "transient_error",
    "mean_queue",
    "final_queue",
    "exploration_share",
    "variance_ratio",
    "worst",
    "note",
)
"""Fields of a row, in the order of the CSV output."""


def queue_record(result: QueueComparison) -> Record:
    """A comparison: what was run, warnings, and one row a policy."""
    world, settings = result.world, result.settings
    return {
        "instance": world.name,
        "arrival_rate": finite(world.arrival_rate),
        "servers": list(world.servers),
        "horizon": result.horizon,
        "replications": settings.replications,
        "seed": settings.seed,
        "servers_at_once": settings.servers_at_once,
        "notes": list(world.notes),
        "warnings": list(result.warnings),
        "rows": queue_rows(result),
    }


def queue_rows(result: QueueComparison) -> list[Record]:
    """One record a policy; what is not finite is None."""
    rows = []
    for row in result.rows:
        record = {name: getattr(row, name) for name in COLUMNS}
        rows.append(
            {
                name: finite(value) if isinstance(value, float) else value
                for name, value in record.items()
            }
        )
    return rows
