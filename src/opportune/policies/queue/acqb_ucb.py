"""ACQB with a confidence bound in place of Thompson sampling (2602.02061, one server a round).

Implements: CQB 6 (reconstructed from the abstract): a fresh arrival goes to a uniform server with
probability min(1, c t^-1/2); otherwise the largest mu(<phi, theta>) + scale beta
||phi||_{V^-1} is taken. Anytime: no tau, no slack; queue length regret O(t^-1/4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import PaperKnobs, decaying


@dataclass(frozen=True)
class AcqbUcb(PaperKnobs):
    """Exploration that decays, and a confidence bound.

    Attributes:
        exploration: c in min(1, c t^-1/2).
    """

    id: ClassVar[str] = "acqb-ucb"
    title: ClassVar[str] = "ACQB, confidence bound"
    rank: ClassVar[int] = 16

    exploration: float = 1.0

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        schedule = decaying(self.exploration, 0.5)
        tables = self.tables(world, horizon, schedule)
        return QueuePlan(self.id, tables, "reconstructed from an abstract")
