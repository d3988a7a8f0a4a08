"""CQB-eta-2 without its third phase: the share eta is explored to the end (an ablation).

Implements: CQB 3.1 with tau_2 = T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.learning.phases import Phases
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import PaperKnobs, three_phases


@dataclass(frozen=True)
class EtaForever(PaperKnobs):
    """Two phases and a confidence bound.

    Attributes:
        fraction: End of phase 1 as a fraction of the horizon.
        eta: Share afterwards; None for epsilon / 4.
    """

    id: ClassVar[str] = "eta-forever"
    title: ClassVar[str] = "CQB-eta-2 without phase 3"
    rank: ClassVar[int] = 14

    fraction: float = 0.2
    eta: float | None = None

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        phases = self.phases(world, horizon, (self.fraction, 1.0), None)
        endless = Phases(phases.tau_1, float(horizon))
        schedule = three_phases(endless, world.slack, self.eta)
        return QueuePlan(self.id, self.tables(world, horizon, schedule), "an ablation")
