"""ACQB with Thompson sampling (2602.02061, one server a round).

Implements: CQB 6 (reconstructed from the abstract): a fresh arrival goes to a uniform server with
probability min(1, c t^-1/2); otherwise theta is drawn from N(theta_hat, (scale beta)^2 V^-1) and
the largest <phi, theta> is taken. Anytime: no tau, no slack; queue length regret O(t^-1/4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.kernels.queue import THOMPSON
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import PaperKnobs, decaying


@dataclass(frozen=True)
class AcqbTs(PaperKnobs):
    """Exploration that decays, and a draw from the posterior.

    Attributes:
        exploration: c in min(1, c t^-1/2).
    """

    id: ClassVar[str] = "acqb-ts"
    title: ClassVar[str] = "ACQB, Thompson sampling"
    rank: ClassVar[int] = 13

    exploration: float = 1.0

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        schedule = decaying(self.exploration, 0.5)
        tables = self.tables(world, horizon, schedule, THOMPSON)
        return QueuePlan(self.id, tables, "reconstructed from an abstract")
