"""With what probability a plan picks each server, for a task of one server.

Implements: LAG section 3 (quoted), the rule of ``allocate.pick`` for k = 1 with the ``choice``
integrated out: the first free server of the list, an equal share among those of its tie, or the
share of the free servers' weight. Ours: the list where no free server has weight.
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
    chance: NDArray[np.float64],
) -> None:
    """Fill ``chance`` (n, R) for n decisions; a row is 0 where no permitted server is free.

    ``free`` (n, R), ``task_type`` (n,), ``headcount`` (n,) tasks in service before the decision.
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
        level, tied = -1, 0
        for position in range(n):
            r = tables.order[v, h, position]
            if tied > 0 and tables.level[v, h, position] != level:
                break
            if free[i, r]:
                level = tables.level[v, h, position]
                chance[i, r] = 1.0
                tied += 1
        for r in range(chance.shape[1]):
            chance[i, r] /= max(tied, 1)
