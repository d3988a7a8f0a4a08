"""ECOLog: a confidence bound without kappa from one proximal step a round.

Implements: ada-OFU-ECOLog (Faury et al. 2201.01985; radius reconstructed, CQB section 8): the
largest mu(<phi, theta>) + radius ||phi||_{W^-1}, W the information at the online estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.learning.confidence import ecolog_radius
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import Learning, learner_tables


@dataclass(frozen=True)
class Ecolog:
    """Confidence bound of an online estimate.

    Attributes:
        scale: Factor of the radius.
        ridge: lambda.
        delta: Probability of an error; None for 1 / T.
    """

    id: ClassVar[str] = "ecolog"
    title: ClassVar[str] = "ECOLog"
    rank: ClassVar[int] = 43
    usual: ClassVar[bool] = False

    scale: float = 1.0
    ridge: float = 1.0
    delta: float | None = None

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        delta = 1.0 / horizon if self.delta is None else self.delta
        radius = ecolog_radius(self.ridge, world.norm_bound, delta, self.scale)
        learning = Learning(self.ridge, world.norm_bound, estimator="ecolog", logit=False)
        return QueuePlan(self.id, learner_tables(learning, radius), "radius reconstructed")
