"""A split pool as a plain record: the JSON of ``opportune split``."""

from __future__ import annotations

from opportune.experiments.records import Record, finite, rounded
from opportune.experiments.split import Splitting


def splitting_record(result: Splitting) -> Record:
    """What each split earns beside one owner; ``redeal`` is null where servers are dealt once."""
    settings = result.settings
    return {
        "instance": result.instance.name,
        "digest": result.instance.digest,
        "load": rounded(result.instance.load),
        "servers": result.instance.n_servers,
        "steps": settings.steps,
        "warm_up": result.warm_up,
        "replications": settings.replications,
        "seed": settings.seed,
        "priced_at": result.priced_at,
        "bound": {"name": "occ-lp-at-most", "value": finite(result.bound)},
        "rows": [
            {
                "policy": row.policy,
                "subpools": row.split.subpools,
                "redeal": row.split.redeal,
                "tries": row.split.tries,
                "reward": finite(row.reward),
                "percent_of_one_owner": finite(row.percent_of_one_owner),
                "half_width": finite(row.half_width),
                "percent_of_bound": finite(row.percent_of_bound),
                "blocking": finite(row.blocking),
            }
            for row in result.rows
        ],
        "warnings": list(result.warnings),
    }
