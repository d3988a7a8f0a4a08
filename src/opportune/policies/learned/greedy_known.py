"""Greedy on the true scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_score
from opportune.policies.truth import known_scores


@dataclass(frozen=True)
class GreedyKnown:
    """What greedy would earn if it knew the scores by type."""

    id: ClassVar[str] = "greedy-known"
    title: ClassVar[str] = "Greedy on the true scores"
    rank: ClassVar[int] = 5
    is_static: ClassVar[bool] = True
    knows_scores: ClassVar[bool] = True

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Servers by true score."""
        return by_score(beliefs, known_scores(beliefs))
