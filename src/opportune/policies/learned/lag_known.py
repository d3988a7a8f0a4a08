"""The ceiling: LAG on the true scores, rates and durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.truth import known_scores


@dataclass(frozen=True)
class LagKnown:
    """LAG as ``compare`` runs it. One tie rule of LAG, not the optimum: learners may exceed it."""

    id: ClassVar[str] = "lag-known"
    title: ClassVar[str] = "Ceiling: LAG on the true scores"
    rank: ClassVar[int] = 0
    is_static: ClassVar[bool] = True
    knows_scores: ClassVar[bool] = True

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the true scores by type."""
        return by_price(beliefs, known_scores(beliefs), previous, as_lag=True)
