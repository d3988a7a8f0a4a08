"""Whittle with arrival rates instead of type shares: a stronger baseline (reconstructed)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan
from opportune.policies.loss.whittle import MIXED, whittle_index
from opportune.pricing.relaxation import Relaxation


@dataclass(frozen=True)
class WhittleLoadAware:
    """The Whittle index with lambda in place of p, so that it knows how busy the system is."""

    id: ClassVar[str] = "whittle-load-aware"
    title: ClassVar[str] = "Whittle index with arrival rates"
    rank: ClassVar[int] = 21

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """Servers by the index with rates lambda; equal ones at random."""
        note = MIXED if np.ptp(instance.mean_duration) > 0 else ""
        index = whittle_index(instance, instance.arrival_rate)
        return list_plan(self.id, instance, index, note=note)
