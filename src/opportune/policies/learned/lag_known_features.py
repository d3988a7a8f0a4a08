"""The second ceiling where tasks have features: LAG on a regression on all recorded tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.truth import known_context_scores


@dataclass(frozen=True)
class LagKnownFeatures:
    """LAG with the regression fitted on the whole log, the tasks to come included."""

    id: ClassVar[str] = "lag-known-features"
    title: ClassVar[str] = "Ceiling: LAG on a regression on the whole log"
    rank: ClassVar[int] = 1
    is_static: ClassVar[bool] = True
    knows_scores: ClassVar[bool] = True
    reads_features: ClassVar[bool] = True

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the fitted scores."""
        return by_price(beliefs, known_context_scores(beliefs), previous, by_context=True)
