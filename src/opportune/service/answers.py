"""What the engine says: the bodies that callers get, and the problems with a stable code.

An :class:`Answer` carries the events that must be on stable storage before its body, or its
problem, goes out.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from opportune.service.events import Event, Pick, Reasons
from opportune.service.explaining import ExplainedServer
from opportune.service.resources import PoolSettings, ServerSettings, TaskTypeSettings

Code = Literal[
    "",
    "not-found",
    "no-capacity",
    "conflict",
    "stale-lease",
    "already-ended",
    "invalid",
]
"""Problem codes; ``""`` is none.

- ``not-found``: the pool, task type, server, plan, task, assignment or decision does not exist (any
  more).
- ``no-capacity``: fewer than k permitted servers are free in loss mode; the drop is recorded.
- ``conflict``: the state, or other content under the same natural key, does not allow it.
- ``stale-lease``: the fencing token is not the present one.
- ``already-ended``: the assignment, task or named slot is over, and not as was asked for.
- ``invalid``: a value that can never be right, for example k above the number of servers.
"""


class Complaint(Struct, frozen=True, kw_only=True):
    """Why a command was not carried out.

    Attributes:
        code: Stable code.
        field: What is wrong, as the command names it.
        detail: One sentence for a person.
        remedy: What to change.
        value: What the command says there, shortened; empty where it says nothing.
        expected_free: For ``no-capacity``: seconds of the pool's clock at which k permitted
            servers are expected to be free; None if nobody knows.
        body: The present state of what the command is about, if it exists.
    """

    code: Code
    field: str
    detail: str
    remedy: str = ""
    value: str = ""
    expected_free: float | None = None
    body: Any = None


class Answer(Struct, frozen=True, kw_only=True):
    """What a command came to.

    Attributes:
        events: What happened, in order; already applied to the state in memory.
        body: What the caller gets; None together with a problem, and for ``Tick``.
        problem: Why not, if it was refused.
        created: Whether something new exists (201).
        waiting: Whether the task waits (202).
        repeated: Whether the command had been carried out before: nothing happened now.
    """

    events: list[Event]
    body: Any = None
    problem: Complaint | None = None
    created: bool = False
    waiting: bool = False
    repeated: bool = False


class SlotBody(Struct, frozen=True, kw_only=True):
    """One server of an assignment.

    Attributes:
        id: The server.
        state: Of its slot.
        lease: Its fencing token.
        index, score, opportunity_cost, propensity: As decided (``events.Pick``).
    """

    id: str
    state: str
    lease: int
    index: float | None
    score: float | None
    opportunity_cost: float | None
    propensity: float


class AssignmentBody(Struct, frozen=True, kw_only=True):
    """A task's servers, and how far it is.

    Attributes:
        assignment_id, task_id, decision_id: Names; the decision is the latest one.
        task_type: Type of the task.
        external_id: The caller's name for the task.
        state: ``offered``, ``accepted``, ``wrapping``, ``completed``, ``failed``, ``lost``,
            ``released``, ``timed_out`` or ``rescinded``.
        task_state: ``offering``, ``in_service``, ``done``, ``expired``, ``cancelled``, ``failed``.
        servers: Its slots; those that were declined or timed out are listed too.
        alternates: Who would have been next.
        lease: Present fencing token.
        deadline: When the present state ends by itself (offer, lease or wrap-up); None when over.
        plan: Plan that decided, None in a fallback without one.
        degraded: Why no fresh plan was used; empty if one was.
        created_at, started_at, ended_at: Seconds of the pool's clock.
    """

    assignment_id: str
    decision_id: str
    task_id: str
    task_type: str
    external_id: str | None
    state: str
    task_state: str
    servers: list[SlotBody]
    alternates: list[Pick]
    lease: int
    deadline: float | None
    plan: str | None
    degraded: str
    created_at: float
    started_at: float | None
    ended_at: float | None


class TaskBody(Struct, frozen=True, kw_only=True):
    """A task.

    Attributes:
        task_id, task_type, external_id, k, priority, pins, conflicts, context: As created.
        state: ``queued``, ``offering``, ``in_service``, ``done``, ``dropped``, ``expired``,
            ``cancelled`` or ``failed``.
        position: Place in the queue, 1 for the first; None when it does not wait.
        deadline: By when it must be in service.
        created_at, ended_at: Seconds of the pool's clock.
        assignment_id: Its assignment, None before the first decision.
        decision_id: Its latest decision, a drop included.
        reserved: Servers kept for it.
    """

    task_id: str
    task_type: str
    external_id: str | None
    k: int
    state: str
    position: int | None
    priority: float
    pins: list[str]
    conflicts: list[str]
    context: dict[str, Any]
    deadline: float
    created_at: float
    ended_at: float | None
    assignment_id: str | None
    decision_id: str | None
    reserved: list[str]


class DecisionBody(Struct, frozen=True, kw_only=True):
    """Why: one decision.

    Attributes:
        decision_id, task_id, task_type: Names.
        assignment_id: None for a drop.
        time: Seconds of the pool's clock.
        picks: The servers; empty for a drop.
        why: Everything that led to them. ``why.excluded`` is confidential: scope ``read`` does
            not see it.
        expected_free: For a drop: when k permitted servers were expected to be free.
        servers: The picks and who would have been next, with the parts of their index.
        lost_by: Index of the last pick minus index of the runner-up; None without one.
    """

    decision_id: str
    task_id: str
    task_type: str
    assignment_id: str | None
    time: float
    picks: list[Pick]
    why: Reasons
    expected_free: float | None = None
    servers: list[ExplainedServer] = []
    lost_by: float | None = None


class PoolBody(Struct, frozen=True, kw_only=True):
    """A pool at a glance.

    Attributes:
        id: Its name.
        settings: As set.
        servers, servers_free: How many there are; how many have a slot free and take tasks.
        slots, slots_open: Slots in all, and those that are held by an assignment.
        tasks_open, tasks_waiting: Tasks that are not over; those that wait.
        plan: The active plan.
        plan_age: Seconds since it was activated.
        degraded: Why no fresh plan is used; empty if one is.
        counts: How often each thing happened: tasks by how far they got (``created``, ``started``,
            ``done``, ``dropped``, ...), slots by state (``slots_offered``, ...), ``outcomes``,
            ``quarantined``, and how often a shadow plan agreed (``shadow_agreed``) or not
            (``shadow_differed``).
        reward: Sum of the reported outcomes, latest revisions.
        capacity_mismatch: Slots by the ledger against slots by the tasks; must be 0.
    """

    id: str
    settings: PoolSettings
    servers: int
    servers_free: int
    slots: int
    slots_open: int
    tasks_open: int
    tasks_waiting: int
    plan: str | None
    plan_age: float | None
    degraded: str
    counts: dict[str, int]
    reward: float
    capacity_mismatch: int


class ServerBody(Struct, frozen=True, kw_only=True):
    """A server.

    Attributes:
        settings: As set.
        generation: Grows when it is removed and added again.
        state: ``free``, ``busy``, ``draining``, ``unavailable``, ``silent``, ``quarantined``,
            ``reserved`` or ``removed``.
        open_slots: Slots that are held.
        quarantined_until: None if it is not in quarantine.
        strikes: Timed-out, failed or lost assignments in a row.
        assignments: Whose slots it holds.
    """

    settings: ServerSettings
    generation: int
    state: str
    open_slots: int
    quarantined_until: float | None
    strikes: int
    assignments: list[str]


class TaskTypeBody(Struct, frozen=True, kw_only=True):
    """A task type and how many servers it permits."""

    settings: TaskTypeSettings
    n_permitted: int


class ScoresBody(Struct, frozen=True, kw_only=True):
    """Version of the scores and number of scored pairs."""

    version: int
    pairs: int


class OutcomeBody(Struct, frozen=True, kw_only=True):
    """What is recorded for an assignment after a report.

    Attributes:
        assignment_id: Which.
        server: None for the assignment as a whole.
        value: The recorded value.
        revision: Its revision.
        late: Whether it came when the lease was over.
    """

    assignment_id: str
    server: str | None
    value: float | None
    revision: int
    late: bool


class RankedServer(Struct, frozen=True, kw_only=True):
    """A candidate in a ranking (``events.Pick`` for the numbers)."""

    id: str
    index: float | None
    score: float | None
    opportunity_cost: float | None
    propensity: float


class RankBody(Struct, frozen=True, kw_only=True):
    """A ranking: the first k are the choice; candidates that are not permitted are left out.

    Attributes:
        task_type: Of the task.
        k: Servers needed.
        servers: Candidates, best first.
        excluded: Candidates that are unknown to the pool or not permitted.
        plan, degraded: As in an assignment.
    """

    task_type: str
    k: int
    servers: list[RankedServer]
    excluded: list[str]
    plan: str | None
    degraded: str
