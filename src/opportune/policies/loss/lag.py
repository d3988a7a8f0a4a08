"""LAG: servers by score minus opportunity cost, zero-index ties by the LP's own rates.

At one copy per server the waterfill and rounding of Appendix A are a static list per task
type for every k (lemma ours, tested in ``tests/laws/test_static_order.py``): first P (L > 0) by L
descending, then T (L = 0, w > 0) by w descending, then N (the rest) by L descending; equal ones
by pi: the less generally useful server first, then position (pi: ours, ``lag.md`` section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, ordered_plan
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation

P, T, N = 2, 1, 0
"""Groups of Definition A.1: positive index; zero index with weight; the rest."""


@dataclass(frozen=True)
class Lag:
    """Score minus opportunity cost. Implements: LAG Def. 3.3 and Appendix A (quoted)."""

    id: ClassVar[str] = "lag"
    title: ClassVar[str] = "LAG: score minus opportunity cost"
    rank: ClassVar[int] = 10

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """The static lists of LAG.

        Raises:
            OverloadError: If no prices are given and not every task can be served.
        """
        prices = price(instance) if prices is None else prices
        group = waterfill_groups(prices)
        within = np.where(group == T, snapped(prices.tie_weight), snapped_index(prices))
        pi = tie_order(instance)
        order = np.array([np.lexsort((pi, -within[v], -group[v])) for v in range(instance.n_types)])
        return ordered_plan(self.id, instance, prices.index, order)


def waterfill_groups(prices: Relaxation) -> NDArray[np.int8]:
    """(V, R) the group P, T or N of every pair; forbidden pairs are in N with index -inf."""
    tied = (prices.index == 0) & (snapped(prices.tie_weight) > 0)
    return np.where(prices.index > 0, P, np.where(tied, T, N)).astype(np.int8)


def tie_order(instance: LossInstance) -> NDArray[np.int64]:
    """(R,) rank of each server in pi: ascending sum_v p_v s_vr, then position."""
    total = instance.arrival_rate.sum()
    share = instance.arrival_rate / total if total > 0 else instance.arrival_rate
    useful = snapped(share @ instance.match_reward, float(instance.match_reward.max()))
    rank = np.empty(instance.n_servers, dtype=np.int64)
    rank[np.argsort(useful, kind="stable")] = np.arange(instance.n_servers)
    return rank


def snapped_index(prices: Relaxation) -> NDArray[np.float64]:
    """The index in units of the largest reward, rounded to nine digits to tell ties."""
    return snapped(prices.index, float(prices.instance.match_reward.max()))


def snapped(values: NDArray[np.float64], scale: float = 1.0) -> NDArray[np.float64]:
    """Values in units of ``scale``, rounded to nine digits, so that equal means equal."""
    return np.round(values / (scale if scale > 0 else 1.0), 9)
