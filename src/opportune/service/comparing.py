"""One decision of the shadow against the active plan's, in reward (``shadowing`` for the meaning).

Implements: ours. Differences of s_vr and of s_vr - E[D_vr] q_r over the servers that only one of
the two picks.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from opportune.service.routing import Routing
from opportune.service.shadowing import ShadowGain

Float = NDArray[np.float64]


def gain_of(
    routings: tuple[Routing, Routing], v: int, ours: Collection[int], theirs: Collection[int]
) -> ShadowGain:
    """What the shadow's picks would be worth beyond the active plan's.

    Args:
        routings: Of the active plan, of the shadow.
        v: Task type.
        ours: Indices of the servers that the active plan picks.
        theirs: Those that the shadow picks, equally many.
    """
    active = routings[0]
    more = [r for r in theirs if r not in ours]
    less = [r for r in ours if r not in theirs]
    worth = [active.score[v]]
    worth += [active.score[v] - (one.cost[v] - one.demand_price[v]) for one in routings]
    priced = [True, *(math.isfinite(float(one.demand_price[v])) for one in routings)]
    found = [
        _difference(value, more, less) if known else None
        for value, known in zip(worth, priced, strict=True)
    ]
    return ShadowGain(*found)


def _difference(worth: Float, more: list[int], less: list[int]) -> float | None:
    total = math.fsum([*worth[more].tolist(), *(-worth[less]).tolist()])
    return total if math.isfinite(total) else None
