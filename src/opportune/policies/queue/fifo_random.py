"""The task that has waited longest goes to a uniform server.

Implements: CQB 7 (baseline).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.kernels.queue import OLDEST_TASK
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import plain_tables


@dataclass(frozen=True)
class FifoRandom:
    """First come first served, by anybody."""

    id: ClassVar[str] = "fifo-random"
    title: ClassVar[str] = "Oldest task, random server"
    rank: ClassVar[int] = 31

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy."""
        return QueuePlan(self.id, plain_tables(OLDEST_TASK))
