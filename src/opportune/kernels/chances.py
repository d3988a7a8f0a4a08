"""With what probability a server is among those that a plan picks.

Implements: LAG section 3 (quoted), the rule of ``allocate.pick`` with the ``choice`` integrated
out: the first k free servers of the list, and of a tie in which m of n free ones are picked m / n
each; or, for k = 1, the share of the free servers' weight. Ours: the list where no free server has
weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import SAMPLE, PlanTables
from opportune.kernels.jit import jit


@jit
def fill_chances(
    tables: PlanTables,
    free: NDArray[np.bool_],
    task_type: NDArray[np.int64],
    headcount: NDArray[np.int64],
    wanted: NDArray[np.int64],
    chance: NDArray[np.float64],
) -> None:
    """Fill ``chance`` (n, R) for n decisions; a row sums to less than k where too few are free.

    ``free`` (n, R), ``task_type`` (n,), ``headcount`` (n,) tasks in service before the decision,
    ``wanted`` (n,) servers k that each task takes; 1 where the plan draws by weight.
    """
    levels = tables.order.shape[1]
    for i in range(free.shape[0]):
        v = task_type[i]
        h = min(headcount[i], levels - 1)
        n = tables.n_allowed[v]
        for r in range(chance.shape[1]):
            chance[i, r] = 0.0
        total = 0.0
        if tables.rule == SAMPLE:
            for position in range(n):
                r = tables.order[v, h, position]
                if free[i, r]:
                    total += tables.weight[v, r]
        if total > 0.0:
            for position in range(n):
                r = tables.order[v, h, position]
                if free[i, r]:
                    chance[i, r] = tables.weight[v, r] / total
            continue
        left, start = wanted[i], 0
        while start < n and left > 0:
            level, stop, tied = tables.level[v, h, start], start, 0
            while stop < n and tables.level[v, h, stop] == level:
                tied += free[i, tables.order[v, h, stop]]
                stop += 1
            picked = min(left, tied)
            for position in range(start, stop):
                r = tables.order[v, h, position]
                if free[i, r]:
                    chance[i, r] = picked / tied
            left -= picked
            start = stop
