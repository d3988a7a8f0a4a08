"""LAG on upper quantiles: optimism that grows with the number of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.tables import upper_quantile


@dataclass(frozen=True)
class LagUcb:
    """Score minus opportunity cost on Beta(1, 1) quantiles at 1 - 1/i, i the tasks so far."""

    id: ClassVar[str] = "lag-ucb"
    title: ClassVar[str] = "LAG on upper quantiles"
    rank: ClassVar[int] = 21

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the quantiles."""
        return by_price(beliefs, upper_quantile(beliefs), previous)
