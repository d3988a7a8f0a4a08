"""LAG with ties to the cheapest server: equal index, lower capacity price first (ours)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, ordered_plan
from opportune.policies.loss.lag import snapped, snapped_index, tie_order
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation


@dataclass(frozen=True)
class LagCheapest:
    """LAG's index, but of equal servers the one whose time is worth least goes first."""

    id: ClassVar[str] = "lag-cheapest"
    title: ClassVar[str] = "LAG, ties to the cheapest server"
    rank: ClassVar[int] = 11

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """Index descending, then capacity price ascending, then pi.

        Raises:
            OverloadError: If no prices are given and not every task can be served.
        """
        prices = price(instance) if prices is None else prices
        index, pi = snapped_index(prices), tie_order(instance)
        cost = snapped(prices.capacity_price, float(instance.match_reward.max()))
        order = np.array([np.lexsort((pi, cost, -index[v])) for v in range(instance.n_types)])
        return ordered_plan(self.id, instance, prices.index, order)
