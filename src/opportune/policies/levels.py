"""Plans from an index that is known up to a solver's tolerance: near-ties are ties on purpose.

Indices closer than 1e-6 of the largest reward are a tie (multipliers are good to about 1e-8),
and a tie is never resolved by the number of a server: it cost 6 points on one instance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PRIORITY, PlanTables

Float = NDArray[np.float64]
Int = NDArray[np.int64]

TIE = 1e-6
"""Difference of indices, in units of the largest reward, up to which neighbors are a tie."""


def tie_levels(index: Float, unit: float) -> Int:
    """(..., n) rank of each value along the last axis: 0 the largest, near-ties share a rank."""
    order = np.argsort(-index, axis=-1, kind="stable")
    ordered = np.take_along_axis(index, order, axis=-1)
    with np.errstate(invalid="ignore"):  # two forbidden ones: -inf - -inf
        apart = ordered[..., :-1] - ordered[..., 1:] > TIE * unit
    first = np.zeros((*index.shape[:-1], 1), dtype=np.int64)
    rank = np.concatenate([first, np.cumsum(apart, axis=-1)], axis=-1)
    out = np.empty_like(rank)
    np.put_along_axis(out, order, rank, axis=-1)
    return out


def headcount_list(index: Float, tie_break: Int, unit: float) -> PlanTables:
    """A list of servers for every type and headcount.

    Args:
        index: (V, R, M) larger is better, at headcounts 0, ..., M - 1.
        tie_break: (R,) smaller goes first where indices tie.
        unit: Largest reward.
    """
    n_types, n_servers, _ = index.shape
    levels = tie_levels(index.transpose(0, 2, 1), unit)  # (V, M, R)
    order = np.lexsort((np.broadcast_to(tie_break, levels.shape), levels), axis=-1)
    order = np.concatenate([order, order[:, -1:]], axis=1)  # at M no task begins
    return PlanTables(
        order=np.ascontiguousarray(order, dtype=np.uint32),
        level=np.ascontiguousarray(
            np.broadcast_to(np.arange(n_servers, dtype=np.int32), order.shape)
        ),
        n_allowed=np.full(n_types, n_servers, dtype=np.int32),
        weight=np.zeros((n_types, 0)),
        rule=PRIORITY,
    )
