"""Greedy on the regression that all recorded tasks give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_score
from opportune.policies.truth import known_context_scores


@dataclass(frozen=True)
class GreedyKnownFeatures:
    """Greedy with the regression fitted on the whole log, the tasks to come included."""

    id: ClassVar[str] = "greedy-known-features"
    title: ClassVar[str] = "Greedy on a regression on the whole log"
    rank: ClassVar[int] = 6
    is_static: ClassVar[bool] = True
    knows_scores: ClassVar[bool] = True
    reads_features: ClassVar[bool] = True

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Servers by fitted score."""
        return by_score(beliefs, known_context_scores(beliefs), by_context=True)
