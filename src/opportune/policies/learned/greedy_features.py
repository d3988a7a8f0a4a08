"""Greedy with features: a logistic regression per model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_score
from opportune.policies.truth import features_of


@dataclass(frozen=True)
class GreedyFeatures:
    """The best predicted servers for this very task now."""

    id: ClassVar[str] = "greedy-features"
    title: ClassVar[str] = "Greedy with features"
    rank: ClassVar[int] = 33
    reads_features: ClassVar[bool] = True

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Servers by prediction."""
        known = features_of(beliefs)
        return by_score(beliefs, known.model.score(known.x), by_context=True)
