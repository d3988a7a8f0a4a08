"""LAG on plain posterior means: no shrinkage, no optimism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.ranking import by_price
from opportune.policies.tables import posterior_mean


@dataclass(frozen=True)
class LagMean:
    """Score minus opportunity cost on Beta(1, 1) posterior means.

    Gets stuck where nothing is congested: a server that looked bad once is not tried again
    (``learned.md`` 1.2).
    """

    id: ClassVar[str] = "lag-mean"
    title: ClassVar[str] = "LAG on posterior means"
    rank: ClassVar[int] = 20

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Prices of the posterior means."""
        return by_price(beliefs, posterior_mean(beliefs), previous)
