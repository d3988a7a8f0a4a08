"""Policies for many copies of every server: the tables that ``kernels.allocate.waterfill`` reads.

LAG fills by index and shares zero-index servers by the LP's own rates (Appendix A). Any list
is such a policy too: all its servers are in group P, in the order of the list.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.kernels.allocate import PRIORITY, WaterfillTables
from opportune.policies.base import Plan
from opportune.policies.loss.lag import (
    N,
    P,
    T,
    snapped,
    snapped_index,
    tie_order,
    waterfill_groups,
)
from opportune.pricing.relaxation import Relaxation

Float = NDArray[np.float64]


def lag_tables(prices: Relaxation) -> WaterfillTables:
    """LAG for the (m,n)-scaled system and its fluid limit, at one copy or many.

    Implements: LAG Definition A.1 (quoted): P by L descending, T in proportion to w, N by L
    descending; equal indices and equal remainders by pi (pi: ours, as in ``policies.loss.lag``).
    Weights equal within nine digits are made exactly equal (their mean), so that equal servers
    have equal remainders and pi decides, not the last digits of a solver.
    """
    instance = prices.instance
    group = waterfill_groups(prices)
    index, pi = snapped_index(prices), tie_order(instance)
    within = np.where(group == T, 0.0, index)
    within = np.where(instance.allowed, within, -np.inf)
    group = np.where(instance.allowed, group, N).astype(np.int8)
    order = np.array([np.lexsort((pi, -within[v], -group[v])) for v in range(instance.n_types)])
    return WaterfillTables(
        group=group,
        order=order.astype(np.int64),
        n_allowed=instance.allowed.sum(axis=1).astype(np.int64),
        weight=np.where(group == T, _leveled(prices.tie_weight), 0.0),
    )


def list_tables(plan: Plan) -> WaterfillTables:
    """A plan that is a list without ties, as a waterfill that fills its servers in that order.

    Raises:
        InputError: If the plan draws at random, or depends on the headcount.
    """
    tables = plan.tables
    if tables.rule != PRIORITY or tables.order.shape[1] != 1:
        raise InputError(
            Problem(
                "policy",
                f"{plan.policy} (rule {tables.rule}, {tables.order.shape[1]} headcount levels)",
                "a list of servers per task type without ties",
                "use lag or lag-cheapest",
            )
        )
    order = tables.order[:, 0, :].astype(np.int64)
    return WaterfillTables(
        group=np.full(order.shape, P, dtype=np.int8),
        order=order,
        n_allowed=tables.n_allowed.astype(np.int64),
        weight=np.zeros(order.shape),
    )


def _leveled(weight: Float) -> Float:
    """(V, R) weights, those of a type that agree to nine digits replaced by their mean."""
    leveled = np.empty_like(weight)
    for v in range(len(weight)):
        _, kind = np.unique(snapped(weight[v]), return_inverse=True)
        leveled[v] = (np.bincount(kind, weights=weight[v]) / np.bincount(kind))[kind]
    return leveled
