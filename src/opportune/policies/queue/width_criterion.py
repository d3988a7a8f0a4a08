"""Explore until every confidence interval is narrow: a measured negative.

Every fresh arrival goes to a uniform server until all 1.96-sd widths on the probability scale,
over the last arrivals, are at most factor times the estimated slack; then the largest estimated
logit. Ours (CQB 11, the observable end of phase 1), heuristic: random service is unstable at
load .7 and the criterion needs thousands of rounds, so the queue grows to about 100 meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.errors import InputError, Problem, shorten
from opportune.learning.confidence import constant_radius
from opportune.learning.estimator import RIDGE
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import NO_EXPLORATION, Learning, learner_tables


@dataclass(frozen=True)
class WidthCriterion:
    """Explore fully until it is known well enough, then greedy.

    Attributes:
        factor: Widths allowed, as a share of the estimated slack.
        ridge: lambda_0.
        estimator: ``exact``, ``growth`` or ``online``.
    """

    id: ClassVar[str] = "width-criterion"
    title: ClassVar[str] = "Explore until widths are small"
    rank: ClassVar[int] = 41
    usual: ClassVar[bool] = False

    factor: float = 0.25
    ridge: float = RIDGE
    estimator: str = "growth"

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy.

        Raises:
            InputError: If a knob is out of range.
        """
        if not self.factor > 0:
            raise InputError(Problem("factor", shorten(self.factor), "a number above 0"))
        schedule = NO_EXPLORATION._replace(first=1.0, width_factor=float(self.factor))
        learning = Learning(ridge=self.ridge, estimator=self.estimator)
        tables = learner_tables(learning, constant_radius(0.0), schedule)
        return QueuePlan(self.id, tables, "heuristic; a measured negative")
