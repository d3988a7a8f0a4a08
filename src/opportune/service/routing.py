"""The active plan in the pool's own numbering, ready for the kernel.

Built by ``ordering.routing_of`` when servers, types, scores or plans have changed, and thrown away
by the next such change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PlanTables
from opportune.kernels.live import Explained

Float = NDArray[np.float64]

STALE = "stale plan: the last active plan decides"
PRIORS = "no plan: prices from the priors"
GREEDY = "no plan: the best free servers by score"
RANDOM = "no plan and no scores: any free servers"


@dataclass(frozen=True, slots=True)
class Routing:
    """V task types and R servers of a pool, in its numbering.

    Attributes:
        tables: What the kernel reads.
        score, index, cost, capacity_price: (V, R), NaN where there is none.
        demand_price, mean_duration: (V,), NaN where there is none.
        allowed: (V, R) permitted pairs; servers that left are not permitted.
        n_permitted: (V,) how many.
        plan: (V,) plan that orders the type's servers, None in a fallback without one.
        degraded: (V,) why it is not the active plan; empty if it is.
        explained: Where the kernel writes.
        passes_stale: Whether the active plan was passed over because it is stale.
        explorable: (V, R) pairs that exploration may take; None: all that are permitted.
        weight: (R, p) what contexts weigh where scores go by them; None: by type.
    """

    tables: PlanTables
    score: Float
    index: Float
    cost: Float
    capacity_price: Float
    demand_price: Float
    mean_duration: Float
    allowed: NDArray[np.bool_]
    n_permitted: list[int]
    plan: list[str | None]
    degraded: list[str]
    explained: Explained
    passes_stale: bool = False
    explorable: NDArray[np.bool_] | None = None
    weight: Float | None = None


class Kept(NamedTuple):
    """A routing that may be needed again, and all that it follows from."""

    made_from: tuple[Any, ...]
    routing: Routing
