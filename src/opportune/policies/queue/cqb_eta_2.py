"""CQB-eta-2: explore fully, then a share eta, then not at all (2606.09668, Algorithm 1).

Implements: CQB 3.1 to 3.3. Phase 1 gives every fresh arrival to a uniform server, phase 2 a share
eta = epsilon / 4 of them, phase 3 none; otherwise the largest mu(<phi, theta>) +
beta ||phi||_{V^-1} over all pairs. Regret O(T^-1/2) up to logarithms, proved for the exact
schedule and radius; the fractions and scale that are the default are those of the summary's
experiments, about which nothing is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import PaperKnobs, three_phases


@dataclass(frozen=True)
class CqbEta2(PaperKnobs):
    """Three phases and a confidence bound.

    Attributes:
        fractions: Ends of phases 1 and 2 as fractions of the horizon; None for the exact ones.
        constants: c_1, c_2 of the exact tau_1; None for the form without unknown constants.
        eta: Share of phase 2; None for epsilon / 4.
    """

    id: ClassVar[str] = "cqb-eta-2"
    title: ClassVar[str] = "CQB-eta-2"
    rank: ClassVar[int] = 10

    fractions: tuple[float, float] | None = (0.2, 0.3)
    constants: tuple[float, float] | None = None
    eta: float | None = None

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range, or the exact schedule does not fit the horizon.
        """
        phases = self.phases(world, horizon, self.fractions, self.constants)
        schedule = three_phases(phases, world.slack, self.eta)
        exact = self.fractions is None and self.scale >= 1
        note = "as in the proof" if exact else "knobs of the experiments, not of the proof"
        return QueuePlan(self.id, self.tables(world, horizon, schedule), note)
