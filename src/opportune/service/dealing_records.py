"""What a split pool is told: who moves, which deal is in force, what sub-pools follow."""

from __future__ import annotations

from msgspec import Struct

from opportune.service.resources import (
    Array,
    PlanDocument,
    PoolSettings,
    ServerSettings,
    TaskTypeSettings,
)


class Mover(Struct, frozen=True, array_like=True, gc=False):
    """A server that has left one place and arrives at another.

    Attributes:
        server: Its name.
        hop: Number of this arrival: one larger than that of its arrival where it left.
        strikes, quarantines, quarantined_until, silent, seen: As in ``state.Server``.
    """

    server: str
    hop: int
    strikes: int = 0
    quarantines: int = 0
    quarantined_until: float = 0.0
    silent: bool = False
    seen: float = 0.0


class Deal(Struct, frozen=True, array_like=True, gc=False):
    """The latest deal that a pool knows.

    Attributes:
        number: From 1; 0 before there was one.
        partitions: Into how many sub-pools it deals.
        time: When it was written.
        most: Into how many any deal has dealt so far: these sub-pools exist.
    """

    number: int = 0
    partitions: int = 1
    time: float = 0.0
    most: int = 1


class Declaration(Struct, frozen=True):
    """A server as the whole has it."""

    settings: ServerSettings
    generation: int
    present: bool


class Declared(Struct, frozen=True, kw_only=True):
    """All that a sub-pool follows its whole in.

    V task types and R servers, in the whole's numbering.

    Attributes:
        settings: The sub-pool's own: those of the whole, but not split itself.
        types, servers: In order.
        score: (V, R) float64, NaN without a score.
        plans: Those that may order servers, or do so in the shadow.
        active, shadow: Names of plans, None without one.
        activated: When the active one was put in force.
    """

    settings: PoolSettings
    types: list[TaskTypeSettings]
    servers: list[Declaration]
    score: Array
    plans: list[PlanDocument]
    active: str | None
    shadow: str | None
    activated: float
