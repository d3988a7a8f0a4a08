"""Optimism of half a posterior standard deviation: the default, without knobs to set.

The largest logit z + deviations ||phi||_{H^-1}, H the observed information, ridge 0.1 for features
of length up to 1. No horizon, no slack, no kappa, no delta, no phases. Ours, heuristic: no
regret bound is known. Measured beside CQB-eta-2: as good at the end, a fraction of the queue on the
way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.learning.confidence import constant_radius
from opportune.learning.estimator import RIDGE
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import HEURISTIC, Learning, learner_tables


@dataclass(frozen=True)
class Optimistic:
    """Largest estimated logit plus a constant number of its standard deviations.

    Attributes:
        deviations: How optimistic: 1 is cautious (many servers that look alike), 0 is greedy,
            which gets stuck now and then.
        ridge: lambda_0.
        estimator: ``exact``, ``growth`` or ``online``.
    """

    id: ClassVar[str] = "optimistic"
    title: ClassVar[str] = "Optimism, half a standard deviation"
    rank: ClassVar[int] = 0

    deviations: float = 0.5
    ridge: float = RIDGE
    estimator: str = "growth"

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        learning = Learning(ridge=self.ridge, estimator=self.estimator)
        tables = learner_tables(learning, constant_radius(self.deviations))
        return QueuePlan(self.id, tables, HEURISTIC)
