"""The group index: a server's worth by the busy servers of its group and the headcount (ours).

I(v,g|b,n) = s_vg + E[h_g | taken here] - E[h_g | taken elsewhere], h_g the value of the group's arm
in HC-group-LP; the free group of highest index serves. One server per task. Ties as in
``headcount``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.kernels.group import GROUP, GroupTables
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan
from opportune.policies.levels import tie_levels
from opportune.policies.loss.headcount import (
    better_of,
    not_applicable,
    prices_for,
    resolved,
)
from opportune.policies.loss.lag import tie_order
from opportune.pricing.headcount import surrogate_note
from opportune.pricing.headcount_groups import GroupPrices, group_prices
from opportune.pricing.relaxation import Relaxation

Int = NDArray[np.int64]


@dataclass(frozen=True)
class HeadcountGroup:
    """The index of HC-group-LP. Implements: ours."""

    id: ClassVar[str] = "headcount-group"
    title: ClassVar[str] = "LAG by headcount and by busy servers of each group"
    rank: ClassVar[int] = 13
    usual: ClassVar[bool] = False

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """A rank for every type, group, its busy servers and the headcount.

        Raises:
            InputError: In the field "policy", if the headcount depends on the policy, a task
                takes several servers, no two servers are equal, or the LP is too large.
        """
        problem = self._problem(instance)
        if problem is not None:
            raise InputError(problem)
        try:
            found = group_prices(instance)
        except InputError as error:
            raise not_applicable(self.id, error) from error
        single = prices_for(self.id, instance)
        mean = single.index @ (single.chain.take_law / single.chain.take_law.sum())
        return Plan(
            policy=self.id,
            tables=resolved(instance, single.index),
            index=mean,
            note=surrogate_note(instance),
            counts=_resolved(instance, found),
        )

    def _problem(self, instance: LossInstance) -> Problem | None:
        if instance.one_k is not None and instance.one_k > 1:
            return Problem(
                "policy", f"{self.id}: a task takes {instance.one_k} servers", "one", "headcount"
            )
        columns = {instance.match_reward[:, r].tobytes() for r in range(instance.n_servers)}
        if len(columns) == instance.n_servers > 1 and not instance.has_forbidden_pairs:
            return Problem(
                "policy", f"{self.id}: no two servers are equal", "groups", "use headcount"
            )
        return None


def _resolved(instance: LossInstance, prices: GroupPrices) -> GroupTables:
    pi = tie_order(instance)
    group_pi = np.array(
        [pi[prices.merged.group_of == g].min() for g in range(len(prices.arms))], dtype=np.int64
    )
    forward, backward = (_ranked(instance, prices, way) for way in (group_pi, -group_pi))
    if np.array_equal(forward.rank, backward.rank):
        return forward
    return better_of(instance, forward, backward)


def _ranked(instance: LossInstance, prices: GroupPrices, tie_break: Int) -> GroupTables:
    """All (group, busy) pairs of a type and a headcount in one order, ties by ``tie_break``."""
    copies = prices.merged.copies
    n_busy, size = int(copies.max()) + 1, prices.chain.size
    shape = (instance.n_types, len(copies), n_busy, size + 1)
    index = np.full(shape, -np.inf)
    for g, m in enumerate(copies):
        index[:, g, : m + 1] = prices.index(g)
    unit = float(instance.match_reward.max()) or 1.0
    flat = index.transpose(0, 3, 1, 2).reshape(shape[0], size + 1, -1)
    group = np.repeat(tie_break, n_busy)
    levels = tie_levels(flat, unit)
    order = np.lexsort((np.broadcast_to(group, levels.shape), levels), axis=-1)
    rank = np.empty_like(order)
    best_first = np.broadcast_to(np.arange(order.shape[-1])[::-1], order.shape)
    np.put_along_axis(rank, order, best_first, axis=-1)
    rank = rank.reshape(shape[0], size + 1, len(copies), n_busy).transpose(0, 2, 3, 1)
    return GroupTables(
        rank=np.ascontiguousarray(rank, dtype=np.int32),
        group_of=prices.merged.group_of,
        copies=copies.astype(np.int64),
        rule=GROUP,
    )
