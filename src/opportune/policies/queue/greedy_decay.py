"""Greedy with a decaying share of random tries: the runner-up (ours, heuristic).

A fresh arrival goes to a uniform server with probability t^-1/2, otherwise the largest estimated
logit is taken. Best where exploiting at once is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.learning.confidence import constant_radius
from opportune.learning.estimator import RIDGE
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import HEURISTIC, Learning, decaying, learner_tables


@dataclass(frozen=True)
class GreedyDecay:
    """Largest estimated logit; fresh arrivals are tried at random ever less often.

    Attributes:
        exploration: c in min(1, c t^-power).
        power: Of the decay.
        ridge: lambda_0.
        estimator: ``exact``, ``growth`` or ``online``.
    """

    id: ClassVar[str] = "greedy-decay"
    title: ClassVar[str] = "Greedy, exploring t^-1/2"
    rank: ClassVar[int] = 1

    exploration: float = 1.0
    power: float = 0.5
    ridge: float = RIDGE
    estimator: str = "growth"

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        learning = Learning(ridge=self.ridge, estimator=self.estimator)
        schedule = decaying(self.exploration, self.power)
        tables = learner_tables(learning, constant_radius(0.0), schedule)
        return QueuePlan(self.id, tables, HEURISTIC)
