"""A uniform waiting task goes to a uniform server.

Implements: CQB 7 (baseline).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.kernels.queue import ANY_TASK
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import plain_tables


@dataclass(frozen=True)
class Random:
    """No choice at all."""

    id: ClassVar[str] = "random"
    title: ClassVar[str] = "Random task and server"
    rank: ClassVar[int] = 32

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy."""
        return QueuePlan(self.id, plain_tables(ANY_TASK))
