"""Greedy: the free permitted servers of highest match reward, ties at random (LAG 5.1, quoted)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan
from opportune.pricing.relaxation import Relaxation


@dataclass(frozen=True)
class Greedy:
    """The best free servers now, whatever later tasks need."""

    id: ClassVar[str] = "greedy"
    title: ClassVar[str] = "Greedy: best free servers now"
    rank: ClassVar[int] = 30

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """Servers by match reward; equal ones are drawn at random."""
        return list_plan(self.id, instance, instance.match_reward)
