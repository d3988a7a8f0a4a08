"""LAG on the prior: prices are made once, before any outcome, and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.tables import posterior_mean


@dataclass(frozen=True)
class LagStatic:
    """The floor: what a plan earns that never learns. All pairs look alike to the prior."""

    id: ClassVar[str] = "lag-static"
    title: ClassVar[str] = "LAG on the prior, never learning"
    rank: ClassVar[int] = 60
    is_static: ClassVar[bool] = True

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the prior."""
        return by_price(beliefs, posterior_mean(beliefs), previous)
