"""What a cluster needs of the node that it works for."""

from __future__ import annotations

from typing import Protocol

from opportune.service.loading import Loaded
from opportune.service.owner import PoolOwner
from opportune.service.pending import Tenure


class Host(Protocol):
    """What a cluster needs of its node."""

    @property
    def owners(self) -> dict[str, PoolOwner]:
        """The pools that are served here."""
        ...

    def read_pool(self, pool: str, tenure: Tenure) -> PoolOwner:
        """The owner of a pool, read from the journal; in any thread."""
        ...

    def read_ahead(self, pool: str) -> Loaded:
        """What is in the journal of a pool that another node owns; in any thread."""
        ...

    def adopt(self, owner: PoolOwner) -> None:
        """Serve a pool from now on."""
        ...

    def drop(self, pool: str) -> PoolOwner | None:
        """Serve a pool no longer; its owner, who takes no more."""
        ...
