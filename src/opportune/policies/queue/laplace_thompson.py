"""Thompson sampling from the Laplace posterior: a measured negative.

theta is drawn from N(theta_hat, deviations^2 H^-1) in every round and the largest <phi, theta> is
taken. Ours, heuristic. With many weights the draws of all servers together are far too bold: on 9
servers with 17 weights each ten times the queue of the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.kernels.queue import THOMPSON
from opportune.learning.confidence import constant_radius
from opportune.learning.estimator import RIDGE
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import Learning, learner_tables


@dataclass(frozen=True)
class LaplaceThompson:
    """Largest drawn logit.

    Attributes:
        deviations: Factor of the posterior's root.
        ridge: lambda_0.
        estimator: ``exact``, ``growth`` or ``online``.
    """

    id: ClassVar[str] = "laplace-thompson"
    title: ClassVar[str] = "Thompson sampling, Laplace posterior"
    rank: ClassVar[int] = 40
    usual: ClassVar[bool] = False

    deviations: float = 1.0
    ridge: float = RIDGE
    estimator: str = "growth"

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        learning = Learning(ridge=self.ridge, estimator=self.estimator)
        tables = learner_tables(learning, constant_radius(self.deviations), rule=THOMPSON)
        return QueuePlan(self.id, tables, "heuristic; a measured negative")
