"""What can be asked of a pool. A command says what is wanted; the engine says what happens.

A command names no pool and no time: the caller knows both (``engine.decide``). Assignments,
tasks and decisions are named as ``pool.t7``, ``pool.a7``, ``pool.d9`` (``naming``).
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from opportune.service.dealing_records import Declared, Mover
from opportune.service.plan_jobs import Rates, Then
from opportune.service.resources import (
    LearnedDocument,
    Name,
    PlanDocument,
    PoolId,
    PoolSettings,
    PositiveSeconds,
    Score,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
    Text,
)

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Revision = Annotated[int, Meta(ge=0, le=2**53)]
Priority = Annotated[float, Meta(ge=-1e100, le=1e100)]
Value = Annotated[float, Meta(ge=-1e100, le=1e100)]


class Command(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag=True, tag_field="command"
):
    """Base of all commands."""


class PutPool(Command, frozen=True):
    """Create the pool, or change its settings."""

    settings: PoolSettings


class PutTaskType(Command, frozen=True):
    """Create a task type, or change it."""

    settings: TaskTypeSettings


class PutServer(Command, frozen=True):
    """Add a server (a new generation if it was removed before), or change it."""

    settings: ServerSettings


class RemoveServer(Command, frozen=True):
    """Take a server out of the pool: its offers are rescinded, its tasks run on without it."""

    server: Name


class ServerHeartbeat(Command, frozen=True):
    """A server is alive."""

    server: Name


class ClearQuarantine(Command, frozen=True):
    """Let a server out of quarantine before its time."""

    server: Name


class PutScores(Command, frozen=True):
    """Set match rewards.

    Attributes:
        rows: ``[task type, server, score]``; the ids must exist, a pair at most once.
        replace: Whether pairs that are not named lose their score.
    """

    rows: list[ScoreRow]
    replace: bool = False


class RequestPlan(Command, frozen=True):
    """Let a plan be made outside the request path (``plan_jobs.PlanJob`` for the fields)."""

    plan: Name
    policy: Name = "lag"
    then: Then = "draft"
    rates: Rates = "declared"
    reason: Text = ""
    seconds: PositiveSeconds = 600.0
    key: Text = ""


class StartPlan(Command, frozen=True):
    """Pricing of a requested plan begins; after too many starts it is given up instead."""

    plan: Name


class EndPlan(Command, frozen=True):
    """No plan comes of a request: ``detail`` says why; None if somebody canceled it."""

    plan: Name
    detail: str | None = None


class PutPlan(Command, frozen=True):
    """Store a plan; ``activate`` puts it in force at once, ``shadow`` lets it decide beside.

    Attributes:
        plan: The plan.
        activate, shadow: What becomes of it.
        reason: Why the service made it by itself; empty if somebody asked.
        parts: Records that hold its tables already (``plan_parts``); empty: none do.
        checked: Whether ``plan_checks`` has passed it already: at 500 types and 1,000 servers that
            takes 20 ms, in which no decision is made.
    """

    plan: PlanDocument
    activate: bool = False
    shadow: bool = False
    reason: Text = ""
    parts: list[int] = []
    checked: bool = False


class ActivatePlan(Command, frozen=True):
    """Put a stored plan in force. Its age counts from now."""

    plan: Name


class RollbackPlan(Command, frozen=True):
    """Put the plan in force that was active before the present one."""


class ShadowPlan(Command, frozen=True):
    """Let a stored plan decide beside the active one: noted, not followed. None: no more."""

    plan: Name | None


class PutLearned(Command, frozen=True):
    """What the pool's learner knows now; its version follows the present one."""

    learned: LearnedDocument


class CreateTask(Command, frozen=True):
    """A task: decided at once; in queue mode it waits where it cannot start.

    Attributes:
        task_type: Its type.
        external_id: The caller's own name for it: the same one again is the same task.
        k: Servers that it needs; None: by type.
        pins: Servers that must be among them.
        conflicts: Servers that must not.
        context: Anything; the pool keeps the fields that it declares.
        priority: Reward added to its index in queue mode.
        start_within: Seconds until it must be in service; None: the pool's.
    """

    task_type: Name
    external_id: Name | None = None
    k: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    pins: list[Name] = []
    conflicts: list[Name] = []
    context: dict[str, Any] = {}
    priority: Priority = 0.0
    start_within: PositiveSeconds | None = None


class CancelTask(Command, frozen=True):
    """End a task that is not over: its servers are free."""

    task: Id


class Accept(Command, frozen=True):
    """Servers take what they were offered.

    Attributes:
        assignment: Which.
        server: Which of its servers; None: all that are open.
        lease: Fencing token: the assignment's present one, or the named server's. None: not
            checked.
    """

    assignment: Id
    server: Name | None = None
    lease: int | None = None


class Decline(Command, frozen=True):
    """Servers do not take what they were offered: others are asked. No label of quality."""

    assignment: Id
    server: Name | None = None
    lease: int | None = None
    reason: Text = ""


class Complete(Command, frozen=True):
    """Servers are done; ``value`` is the outcome, if it is known already."""

    assignment: Id
    server: Name | None = None
    lease: int | None = None
    value: Value | None = None


class Fail(Command, frozen=True):
    """Servers could not do it."""

    assignment: Id
    server: Name | None = None
    lease: int | None = None
    reason: Text = ""


class Release(Command, frozen=True):
    """Let servers go: they neither completed nor failed."""

    assignment: Id
    server: Name | None = None
    lease: int | None = None
    reason: Text = ""


class Heartbeat(Command, frozen=True):
    """An accepted assignment is still worked on: its lease begins anew."""

    assignment: Id
    server: Name | None = None
    lease: int | None = None


class ReportOutcome(Command, frozen=True):
    """What came of an assignment: late, repeated and revised reports are fine.

    Attributes:
        subject: An assignment or a decision.
        value: Reward; None takes an earlier value back.
        server: Which server it is about; None: the assignment as a whole.
        revision: A higher one replaces a lower one; the same one again is a repeat.
    """

    subject: Id
    value: Value | None
    server: Name | None = None
    revision: Revision = 0


class Follow(Command, frozen=True):
    """Declare in a sub-pool what its whole declares (``dealing.Declared``)."""

    declared: Declared


class DealServers(Command, frozen=True):
    """A deal: where the servers that are here go.

    Attributes:
        deal: Its number; an older one than the latest changes nothing.
        partitions: Into how many sub-pools it deals.
        to: Pool by server; who is not named stays.
    """

    deal: int
    partitions: int
    to: dict[str, PoolId]


class TakeIn(Command, frozen=True):
    """Servers that have left other places for this one."""

    servers: list[Mover]


class Tick(Command, frozen=True):
    """Let timers that are due fire; every command does that first as well."""


AnyCommand = (
    PutPool
    | PutTaskType
    | PutServer
    | RemoveServer
    | ServerHeartbeat
    | ClearQuarantine
    | PutScores
    | RequestPlan
    | StartPlan
    | EndPlan
    | PutPlan
    | ActivatePlan
    | RollbackPlan
    | ShadowPlan
    | PutLearned
    | CreateTask
    | CancelTask
    | Accept
    | Decline
    | Complete
    | Fail
    | Release
    | Heartbeat
    | ReportOutcome
    | Follow
    | DealServers
    | TakeIn
    | Tick
)
"""Every command, as a tagged union."""


class RankRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Candidates to be ranked for a task; nothing is stored (``engine.rank``).

    Attributes:
        task_type: The task's type.
        candidates: Servers that the caller holds free; None: those that are free here.
        k: How many the caller needs; None: by type.
        scores: Own scores of the candidates in place of the stored ones, one each.
    """

    task_type: Name
    candidates: list[Name] | None = None
    k: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    scores: list[Score] | None = None
