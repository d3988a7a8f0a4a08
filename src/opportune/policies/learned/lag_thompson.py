"""LAG on one draw from the posterior per stretch of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.tables import posterior_draw


@dataclass(frozen=True)
class LagThompson:
    """Score minus opportunity cost on a draw from the Beta(1, 1) posteriors, priced."""

    id: ClassVar[str] = "lag-thompson"
    title: ClassVar[str] = "LAG on posterior draws"
    rank: ClassVar[int] = 22

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of a draw."""
        return by_price(beliefs, posterior_draw(beliefs), previous)
