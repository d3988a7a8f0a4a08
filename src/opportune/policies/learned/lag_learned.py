"""Learned LAG: shrunk table plus one posterior standard deviation, through the linear program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.learning.shrinkage import shrink_table
from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price


@dataclass(frozen=True)
class LagLearned:
    """Score minus opportunity cost on estimates shrunk to server and type, optimistic by one sd.

    Heuristic (ours, ``learned.md`` 1): optimism reaches servers that a plan would never try, and
    congestion explores the rest; no forced exploration.

    Attributes:
        optimism: Posterior standard deviations added to the mean before pricing.
    """

    id: ClassVar[str] = "lag-learned"
    title: ClassVar[str] = "Learned LAG: shrunk means plus one deviation, priced"
    rank: ClassVar[int] = 10

    optimism: float = 1.0

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the optimistic table."""
        table = shrink_table(beliefs.success, beliefs.trials)
        return by_price(beliefs, table.mean + self.optimism * table.sd, previous)
