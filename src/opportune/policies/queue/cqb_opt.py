"""CQB-Opt: always the largest upper confidence bound (2601.19300, adversarial contexts).

Implements: CQB 5.2: no exploration, no tau, no slack. Regret O(log(T)^2) in that harder model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import NO_EXPLORATION, PaperKnobs


@dataclass(frozen=True)
class CqbOpt(PaperKnobs):
    """Confidence bound alone."""

    id: ClassVar[str] = "cqb-opt"
    title: ClassVar[str] = "CQB-Opt"
    rank: ClassVar[int] = 12

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        tables = self.tables(world, horizon, NO_EXPLORATION)
        return QueuePlan(self.id, tables, "radius scaled as in the experiments")
