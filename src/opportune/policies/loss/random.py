"""Random: uniform over the free permitted servers (LAG 5.1, quoted)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan
from opportune.pricing.relaxation import Relaxation


@dataclass(frozen=True)
class Random:
    """Any free permitted servers: the floor that a policy must clear."""

    id: ClassVar[str] = "random"
    title: ClassVar[str] = "Random: any free servers"
    rank: ClassVar[int] = 40

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """All permitted servers tied."""
        return list_plan(self.id, instance, np.zeros(instance.match_reward.shape))
