"""Learned LAG with features: a logistic regression per model, types for the prices only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.truth import features_of


@dataclass(frozen=True)
class LagFeatures:
    """Each task's own predicted score minus the opportunity cost of its type.

    Heuristic (ours, ``learned.md`` 2). The linear program sees the mean prediction by type.

    Attributes:
        optimism: Posterior standard deviations added to the logit.
    """

    id: ClassVar[str] = "lag-features"
    title: ClassVar[str] = "Learned LAG with features"
    rank: ClassVar[int] = 11
    reads_features: ClassVar[bool] = True

    optimism: float = 0.0

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the predictions."""
        known = features_of(beliefs)
        score = known.model.score(known.x, self.optimism)
        return by_price(beliefs, score, previous, by_context=True)
