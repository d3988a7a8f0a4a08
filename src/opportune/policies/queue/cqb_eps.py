"""CQB-eps: explore in round-robin order, then with probability T^-1/2 (2601.19300).

Implements: CQB 5.1 (phase 1: the fresh arrival to the servers in turn; a round without one takes
the best index: reconstructed). Regret O(T^-1/4) up to logarithms. The estimate and its radius are
those of all weights together, also with one weight a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import NO_EXPLORATION, PaperKnobs


@dataclass(frozen=True)
class CqbEps(PaperKnobs):
    """Round-robin, then rare exploration to the end, with a confidence bound.

    Attributes:
        fraction: tau as a fraction of the horizon; None for the exact tau_1 of CQB-eta-2.
        constants: c_1, c_2 of the exact tau_1; None for the form without unknown constants.
    """

    id: ClassVar[str] = "cqb-eps"
    title: ClassVar[str] = "CQB-eps"
    rank: ClassVar[int] = 11

    fraction: float | None = 0.2
    constants: tuple[float, float] | None = None

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range, or the exact schedule does not fit the horizon.
        """
        ends = None if self.fraction is None else (self.fraction, self.fraction)
        phases = self.phases(world, horizon, ends, self.constants)
        schedule = NO_EXPLORATION._replace(
            tau_1=float(phases.tau_1),
            tau_2=float(phases.tau_1),
            first=1.0,
            after=horizon**-0.5,
            round_robin=True,
        )
        note = "knobs of the experiments, not of the proof"
        return QueuePlan(self.id, self.tables(world, horizon, schedule), note)
