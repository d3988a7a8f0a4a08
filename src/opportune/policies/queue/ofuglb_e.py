"""OFUGLB-e: a confidence bound without kappa in its radius; a measured negative in a queue.

Implements: Lee, Yun, Jun 2407.13977, closed form (CQB section 8; reconstructed): the largest
<phi, theta> + sqrt(2 (1 + S) (1 + b_t)) ||phi||_{H^-1}. With S of the data sets its radius is
still far too large for a queue that must be served meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.learning.confidence import ofuglb_radius, ofuglb_ridge
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import Learning, learner_tables


@dataclass(frozen=True)
class OfuglbE:
    """Confidence bound on the logit scale.

    Attributes:
        scale: Factor of the radius.
        delta: Probability of an error; None for 1 / T.
        estimator: ``exact``, ``growth`` or ``online``.
    """

    id: ClassVar[str] = "ofuglb-e"
    title: ClassVar[str] = "OFUGLB-e"
    rank: ClassVar[int] = 42
    usual: ClassVar[bool] = False

    scale: float = 1.0
    delta: float | None = None
    estimator: str = "growth"

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        delta = 1.0 / horizon if self.delta is None else self.delta
        radius = ofuglb_radius(world.dimension, world.norm_bound, delta, self.scale)
        learning = Learning(
            ridge=ofuglb_ridge(world.norm_bound),
            norm_bound=world.norm_bound,
            estimator=self.estimator,
        )
        return QueuePlan(self.id, learner_tables(learning, radius), "a measured negative")
