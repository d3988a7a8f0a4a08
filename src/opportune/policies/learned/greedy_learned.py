"""Greedy on plain posterior means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_score
from opportune.policies.tables import posterior_mean


@dataclass(frozen=True)
class GreedyLearned:
    """The best estimated servers now, by Beta(1, 1) posterior means."""

    id: ClassVar[str] = "greedy-learned"
    title: ClassVar[str] = "Greedy on posterior means"
    rank: ClassVar[int] = 30

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Servers by posterior mean."""
        return by_score(beliefs, posterior_mean(beliefs))
