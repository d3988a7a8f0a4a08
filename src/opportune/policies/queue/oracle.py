"""The pair of largest departure probability: what the regret is measured against.

Implements: CQB 1.3. Attempts are memoryless, so this is the optimum of the known model. Where
outcomes are recorded ones it goes by the rates that the streams call known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.kernels.queue import ORACLE
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import plain_tables


@dataclass(frozen=True)
class Oracle:
    """Knows the departure probabilities."""

    id: ClassVar[str] = "oracle"
    title: ClassVar[str] = "Oracle"
    rank: ClassVar[int] = 90

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy."""
        return QueuePlan(self.id, plain_tables(ORACLE), "knows the departure probabilities")
