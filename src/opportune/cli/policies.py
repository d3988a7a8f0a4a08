"""``opportune policies``: what can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from opportune.cli.options import FORMAT_HELP, Format
from opportune.cli.output import print_csv, print_json, print_table
from opportune.experiments.learn_settings import LearnSettings
from opportune.experiments.queue import REFERENCES, QueueSettings
from opportune.experiments.settings import Settings
from opportune.policies.base import loss_policies_by_id, queue_policies_by_id
from opportune.policies.beliefs import learned_policies_by_id


def policies(*, format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table") -> None:
    """List the policies with their ids: of the loss model, of the queue, and those that learn."""
    loss = _rows(loss_policies_by_id(), Settings().policy_ids)
    queue = _rows(queue_policies_by_id(), QueueSettings().policy_ids)
    queue += [
        (one, "no", f"An oracle that knows the {known} only, for comparison")
        for one, known in REFERENCES.items()
    ]
    learned = _rows(learned_policies_by_id(), LearnSettings().policy_ids(with_features=True))
    keys = ("policy", "usual", "title")
    if format == "json":
        told = {"policies": loss, "queue_policies": queue, "learned_policies": learned}
        print_json(
            {key: [dict(zip(keys, row, strict=True)) for row in own] for key, own in told.items()}
        )
    elif format == "csv":
        models = (("loss", loss), ("queue", queue), ("learned", learned))
        rows = [(*row, model) for model, own in models for row in own]
        print_csv((*keys, "model"), rows)
    else:
        columns = ("policy", "by default", "what it does")
        print_table("Policies of the loss model", columns, loss)
        print_table("Policies of the queue (opportune queue)", columns, queue)
        print_table("Policies that learn hidden scores (opportune learn)", columns, learned)


def _rows(found: Mapping[str, Any], usual: Sequence[str]) -> list[tuple[str, str, str]]:
    return [(one.id, "yes" if one.id in usual else "no", one.title) for one in found.values()]
