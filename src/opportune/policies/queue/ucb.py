"""UCB only: CQB-eta-2 without any exploration (an ablation; the rule of CQB-Opt).

Implements: CQB 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import NO_EXPLORATION, PaperKnobs


@dataclass(frozen=True)
class Ucb(PaperKnobs):
    """Confidence bound alone."""

    id: ClassVar[str] = "ucb"
    title: ClassVar[str] = "UCB without exploration"
    rank: ClassVar[int] = 15
    usual: ClassVar[bool] = False

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        return QueuePlan(self.id, self.tables(world, horizon, NO_EXPLORATION), "an ablation")
