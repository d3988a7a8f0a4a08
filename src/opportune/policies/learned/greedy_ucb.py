"""Greedy on upper quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_score
from opportune.policies.tables import upper_quantile


@dataclass(frozen=True)
class GreedyUcb:
    """The best servers now by Beta(1, 1) quantiles at 1 - 1/i."""

    id: ClassVar[str] = "greedy-ucb"
    title: ClassVar[str] = "Greedy on upper quantiles"
    rank: ClassVar[int] = 31

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Servers by quantile."""
        return by_score(beliefs, upper_quantile(beliefs))
