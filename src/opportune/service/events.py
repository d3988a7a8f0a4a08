"""What happened in a pool, once and for all: the journal's records.

An event holds everything that ``applying.apply`` needs; nothing is decided again when it is read
back. Servers and task types stand in it by name. Fields may be added with a default, never
renamed or removed: old journals stay readable (unknown fields are ignored).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from opportune.service.dealing_records import Mover
from opportune.service.plan_jobs import Rates, Then
from opportune.service.resources import (
    LearnedDocument,
    PlanDocument,
    PoolSettings,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service.shadowing import ShadowGain


class Event(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Base of all events.

    Attributes:
        time: When, in seconds; never before an earlier event of the pool.
    """

    time: float


class PoolPut(Event, frozen=True):
    """The pool was created, or its settings changed; ``skips``: numbers not given (restoring)."""

    pool: str
    settings: PoolSettings
    skips: int = 0


class TaskTypePut(Event, frozen=True):
    """A task type was created or changed."""

    settings: TaskTypeSettings


class ServerPut(Event, frozen=True):
    """A server was added or changed; ``away`` if it is new here and in another sub-pool."""

    settings: ServerSettings
    generation: int
    away: bool = False


class ServerRemoved(Event, frozen=True):
    """A server left the pool; its open slots are no longer its own."""

    server: str


class ServerSeen(Event, frozen=True):
    """A heartbeat of a server."""

    server: str


class ServerSilent(Event, frozen=True):
    """A server gave no heartbeat for too long: it gets no offers until the next one."""

    server: str


class QuarantineStarted(Event, frozen=True):
    """A server gets no offers until ``until``."""

    server: str
    until: float


class QuarantineEnded(Event, frozen=True):
    """A server may be offered tasks again; ``cleared`` if somebody said so."""

    server: str
    cleared: bool = False


class ScoresPut(Event, frozen=True):
    """Match rewards changed; ``version`` counts these changes."""

    version: int
    rows: list[ScoreRow]
    replace: bool


class PlanRequested(Event, frozen=True):
    """A plan is to be made (``plan_jobs.PlanJob`` for the fields)."""

    plan: str
    policy: str
    then: Then
    rates: Rates = "declared"
    reason: str = ""
    seconds: float = 0.0
    key: str = ""


class PlanStarted(Event, frozen=True):
    """Pricing has begun, perhaps again after a restart."""

    plan: str


class PlanEnded(Event, frozen=True):
    """No plan comes of a request: ``failed`` or ``canceled``."""

    plan: str
    state: str
    detail: str = ""


class PlanPut(Event, frozen=True):
    """A plan was stored; ``reason`` is why the service made it by itself.

    ``parts`` are the records of its tables where it has none here, in the journal (``plan_parts``).
    """

    plan: PlanDocument
    reason: str = ""
    parts: list[int] = []


class PlanActivated(Event, frozen=True):
    """A plan is in force from now; ``rollback`` if it was before the one that it replaces."""

    plan: str
    rollback: bool = False


class PlanShadowed(Event, frozen=True):
    """A plan decides beside the active one from now; None: none does."""

    plan: str | None


class LearnedPut(Event, frozen=True):
    """The pool's learner published what it knows."""

    learned: LearnedDocument


class TaskCreated(Event, frozen=True):
    """A task came in and is decided on next. ``external`` is its caller's name for it."""

    task: int
    task_type: str
    k: int
    deadline: float
    external: str | None = None
    fingerprint: bytes = b""
    pins: list[str] = []
    conflicts: list[str] = []
    context: dict[str, Any] = {}
    priority: float = 0.0


class Pick(Struct, frozen=True, gc=False, omit_defaults=True):
    """A server in a decision, and what its choice was worth.

    Attributes:
        server: Its name.
        score: Match reward; None if the pool has none for the pair.
        index: What the plan orders by.
        opportunity_cost: l_v + E[D_v] q_r in reward; None without prices.
        capacity_price: q_r in reward per second; None without prices.
        propensity: Probability of this pick, given the free servers and the picks before it; for
            a server that was not picked 0.
    """

    server: str
    score: float | None = None
    index: float | None = None
    opportunity_cost: float | None = None
    capacity_price: float | None = None
    propensity: float = 0.0


class Exclusion(Struct, frozen=True, gc=False):
    """A server that the plan would have taken before the last pick, and why it was not."""

    server: str
    reason: str


class Reasons(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Why a decision came out as it did, in bounded form.

    Attributes:
        plan: Id of the plan that ordered the servers, None in a fallback without one.
        rule: ``list``, ``list-ties``, ``weights``, ``pins`` or ``context`` (the task's own).
        degraded: Why no fresh plan was used; empty if one was.
        demand_price: l_v in reward; None without prices.
        mean_duration: E[D_v] in seconds that the cost counts with (a pair may have its own).
        n_permitted: Servers that the task's type permits.
        n_free: Those of them that were free for this task.
        headcount: Tasks in service (busy slots over k) as the plan sees it.
        draws: 32-bit fractions that ties and samples were resolved with.
        alternates: Who would have been next, best first.
        excluded: Who stood before the last pick in the plan's order and was not free.
        shadow: Id of the plan that decided beside this one, None if none did.
        shadow_picks: Whom it would have picked; empty for nobody.
        shadow_gain: What they would have been worth beyond the picks.
        explored: Whether the picks were drawn at random, by the pool's share of exploration.
        given_up: Index of the plan's own picks minus index of those drawn.
    """

    plan: str | None = None
    rule: str = "list"
    degraded: str = ""
    demand_price: float | None = None
    mean_duration: float | None = None
    n_permitted: int = 0
    n_free: int = 0
    headcount: int = 0
    draws: list[int] = []
    alternates: list[Pick] = []
    excluded: list[Exclusion] = []
    shadow: str | None = None
    shadow_picks: list[str] = []
    shadow_gain: ShadowGain | None = None
    explored: bool = False
    given_up: float = 0.0


class Offered(Event, frozen=True):
    """A decision: servers were picked for a task, at first or to fill up.

    Attributes:
        decision: Its number.
        task: The task's.
        lease: Fencing token of these slots, and from now on the assignment's.
        picks: The servers.
        accepted: Whether they hold it at once (``auto_accept``).
        until: When the offer, or the lease, is over.
    """

    decision: int
    task: int
    lease: int
    picks: list[Pick]
    why: Reasons
    accepted: bool
    until: float


class TaskDropped(Event, frozen=True):
    """A decision: too few servers were free, the task is gone. Drops are data."""

    decision: int
    task: int
    why: Reasons
    expected_free: float | None = None


class ServersReserved(Event, frozen=True):
    """Free servers are kept for a task that has waited for too long."""

    task: int
    servers: list[str]


class ServersDealt(Event, frozen=True):
    """Servers are to leave for other pools when they are free: deal ``deal`` of a split pool.

    Attributes:
        deal: Its number.
        partitions: Into how many sub-pools it deals.
        to: Pool by server, "" to stay; only those of whom something else was said before.
    """

    deal: int
    partitions: int
    to: dict[str, str]


class ServersLeft(Event, frozen=True):
    """Servers are not here any more: they go where they were to leave for."""

    servers: list[str]


class ServersJoined(Event, frozen=True):
    """Servers that left another pool are here."""

    servers: list[Mover]


class SlotsMoved(Event, frozen=True):
    """Slots of an assignment changed their state.

    Attributes:
        task: The task's number.
        servers: Whose slots.
        state: ``accepted``, ``declined``, ``timed_out``, ``rescinded``, ``wrapping``,
            ``completed``, ``failed``, ``lost`` or ``released``.
        until: When the lease or the wrap-up is over, for ``accepted`` and ``wrapping``.
        reason: What was said.
    """

    task: int
    servers: list[str]
    state: str
    until: float = 0.0
    reason: str = ""


class LeaseExtended(Event, frozen=True):
    """A heartbeat of an assignment."""

    task: int
    until: float


class TaskStarted(Event, frozen=True):
    """A task begins with fewer servers than k: as many as ``min_servers`` have accepted."""

    task: int


class TaskEnded(Event, frozen=True):
    """A task that holds no slot any more ended as ``expired``, ``cancelled`` or ``failed``."""

    task: int
    state: str


class OutcomeReported(Event, frozen=True):
    """What came of an assignment; replaces what was reported with a lower revision."""

    task: int
    value: float | None
    server: str | None = None
    revision: int = 0
    late: bool = False


AnyEvent = (
    PoolPut
    | TaskTypePut
    | ServerPut
    | ServerRemoved
    | ServerSeen
    | ServerSilent
    | QuarantineStarted
    | QuarantineEnded
    | ScoresPut
    | PlanRequested
    | PlanStarted
    | PlanEnded
    | PlanPut
    | PlanActivated
    | PlanShadowed
    | LearnedPut
    | TaskCreated
    | Offered
    | TaskDropped
    | ServersReserved
    | ServersDealt
    | ServersLeft
    | ServersJoined
    | SlotsMoved
    | LeaseExtended
    | TaskStarted
    | TaskEnded
    | OutcomeReported
)
"""Every event, as a tagged union."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[AnyEvent] = msgspec.msgpack.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """A journal record."""
    if type(event) is PlanPut and event.parts:
        event = structs.replace(event, plan=event.plan.without_tables())
    return _ENCODER.encode(event)


def decode(record: bytes) -> AnyEvent:
    """The event of a journal record; a plan in parts has no tables (``plan_parts.whole_event``).

    Raises:
        msgspec.DecodeError: If it is none (``ValidationError`` is a subclass).
    """
    return _DECODER.decode(record)
