"""Greedy on posterior draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_score
from opportune.policies.tables import posterior_draw


@dataclass(frozen=True)
class GreedyThompson:
    """The best servers now by one draw per stretch from the Beta(1, 1) posteriors."""

    id: ClassVar[str] = "greedy-thompson"
    title: ClassVar[str] = "Greedy on posterior draws"
    rank: ClassVar[int] = 32

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Servers by draw."""
        return by_score(beliefs, posterior_draw(beliefs))
