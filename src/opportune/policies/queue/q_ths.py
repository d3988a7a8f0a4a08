"""Q-ThS: a Beta draw for each server's mean, contexts ignored.

Implements: Krishnasamy, Sen, Johari, Shakkottai 1604.06377 for one queue (CQB section 8): with
probability min(1, 3 K log(t)^2 / t) a uniform server, otherwise the largest draw from
Beta(successes + 1, failures + 1); the oldest task is served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.kernels.queue import MEAN_THOMPSON
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan
from opportune.policies.queue_tables import NO_EXPLORATION, plain_tables


@dataclass(frozen=True)
class QThs:
    """One rate a server, by a draw from its posterior."""

    id: ClassVar[str] = "q-ths"
    title: ClassVar[str] = "Q-ThS, without contexts"
    rank: ClassVar[int] = 21

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The tables of this policy."""
        schedule = NO_EXPLORATION._replace(
            decay=3.0 * world.n_servers, power=1.0, power_log=2.0, fresh_only=False
        )
        return QueuePlan(self.id, plain_tables(MEAN_THOMPSON, schedule), "ignores contexts")
