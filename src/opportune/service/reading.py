"""Reading a pool: bodies of its resources. Nothing here changes anything."""

from __future__ import annotations

import msgspec

from opportune.errors import shorten
from opportune.service.answers import (
    AssignmentBody,
    DecisionBody,
    OutcomeBody,
    PoolBody,
    ScoresBody,
    ServerBody,
    SlotBody,
    TaskBody,
    TaskTypeBody,
)
from opportune.service.deciding import degraded_now, why_unavailable
from opportune.service.events import Offered, Pick, TaskDropped
from opportune.service.explaining import explained, lost_by
from opportune.service.naming import ASSIGNMENT, DECISION, TASK, name_of, number_in
from opportune.service.ordering import routing_of
from opportune.service.routing import STALE
from opportune.service.settling import waiting_entry
from opportune.service.state import (
    ACCEPTED,
    OFFERED,
    OFFERING,
    QUEUED,
    WRAPPING,
    State,
    Task,
    capacity_mismatch,
)

_DECISION: msgspec.msgpack.Decoder[Offered | TaskDropped] = msgspec.msgpack.Decoder(
    Offered | TaskDropped
)
TYPES_NAMED = 3
"""Task types that a sentence names."""

_ENDED_AS = {"done": "completed", "cancelled": "released"}


def stored_decision(state: State, number: int) -> Offered | TaskDropped | None:
    """The event of a decision; None if it was forgotten."""
    data = state.decisions.get(number)
    return None if data is None else _DECISION.decode(data)


def assignment_of(state: State, task: Task, offered: Offered | None = None) -> AssignmentBody:
    """The assignment of a task that has one; ``offered`` is its only decision, if at hand."""
    picks: dict[str, Pick] = {}
    latest = offered
    if offered is not None and len(task.decisions) == 1:
        picks = {pick.server: pick for pick in offered.picks}
    else:
        for number in task.decisions:
            decision = stored_decision(state, number)
            if isinstance(decision, Offered):
                latest = decision
                for pick in decision.picks:
                    picks[pick.server] = pick
    slots = []
    for slot in task.slots:
        name = state.servers[slot.server].settings.id
        pick = picks.get(name) or Pick(name)
        slots.append(
            SlotBody(
                id=name,
                state=slot.state,
                lease=slot.lease,
                index=pick.index,
                score=pick.score,
                opportunity_cost=pick.opportunity_cost,
                propensity=pick.propensity,
            )
        )
    number = task.number
    return AssignmentBody(
        assignment_id=name_of(state.pool, ASSIGNMENT, number),
        decision_id=name_of(state.pool, DECISION, task.decisions[-1]),
        task_id=name_of(state.pool, TASK, number),
        task_type=state.types[task.task_type].id,
        external_id=task.external,
        state=assignment_state(task),
        task_state=task.state,
        servers=slots,
        alternates=[] if latest is None else latest.why.alternates,
        lease=task.lease,
        deadline=_deadline(task),
        plan=None if latest is None else latest.why.plan,
        degraded="" if latest is None else latest.why.degraded,
        created_at=task.created,
        started_at=task.started,
        ended_at=task.ended,
    )


def assignment_state(task: Task) -> str:
    """The state of an assignment as a whole (``answers.AssignmentBody``)."""
    if task.state == OFFERING:
        return OFFERED
    found = {slot.state for slot in task.slots}
    for state in (ACCEPTED, WRAPPING):
        if state in found:
            return state
    if task.state == "failed":
        return "failed" if "failed" in found else "lost"
    if task.state == "expired":
        return "timed_out" if "timed_out" in found else "rescinded"
    if task.state == "cancelled" and task.started is None:
        return "rescinded"
    return _ENDED_AS[task.state]


def _deadline(task: Task) -> float | None:
    held = {slot.state for slot in task.slots}
    if task.state == OFFERING:
        return min(
            [slot.until for slot in task.slots if slot.state == OFFERED], default=task.deadline
        )
    if ACCEPTED in held:
        return task.lease_until
    return max((slot.until for slot in task.slots if slot.state == WRAPPING), default=None)


def task_of(state: State, task: Task) -> TaskBody:
    """A task."""
    position = None
    if task.state == QUEUED:
        position = state.waiting.position(waiting_entry(state, task))
    return TaskBody(
        task_id=name_of(state.pool, TASK, task.number),
        task_type=state.types[task.task_type].id,
        external_id=task.external,
        k=task.k,
        state=task.state,
        position=position,
        priority=task.priority,
        pins=[state.servers[r].settings.id for r in task.pins],
        conflicts=[state.servers[r].settings.id for r in task.conflicts],
        context=task.context,
        deadline=task.deadline,
        created_at=task.created,
        ended_at=task.ended,
        assignment_id=name_of(state.pool, ASSIGNMENT, task.number) if task.slots else None,
        decision_id=name_of(state.pool, DECISION, task.decisions[-1]) if task.decisions else None,
        reserved=[state.servers[r].settings.id for r in task.reserved],
    )


def present_body(state: State, task: Task) -> AssignmentBody | TaskBody:
    """The assignment of a task that has one, else the task."""
    return assignment_of(state, task) if task.slots else task_of(state, task)


def decision_of(state: State, task: Task, event: Offered | TaskDropped) -> DecisionBody:
    """A decision, from its event."""
    offered = isinstance(event, Offered)
    return DecisionBody(
        decision_id=name_of(state.pool, DECISION, event.decision),
        task_id=name_of(state.pool, TASK, event.task),
        task_type=state.types[task.task_type].id,
        assignment_id=name_of(state.pool, ASSIGNMENT, event.task) if offered else None,
        time=event.time,
        picks=event.picks if isinstance(event, Offered) else [],
        why=event.why,
        expected_free=None if isinstance(event, Offered) else event.expected_free,
        servers=explained(event),
        lost_by=lost_by(event),
    )


def task_body(state: State, name: str) -> TaskBody | None:
    """The task of a name; None if there is none (any more)."""
    task = state.tasks.get(number_in(name, state.pool, TASK) or 0)
    return None if task is None else task_of(state, task)


def assignment_body(state: State, name: str) -> AssignmentBody | None:
    """The assignment of a name; None if there is none (any more)."""
    task = state.tasks.get(number_in(name, state.pool, ASSIGNMENT) or 0)
    return assignment_of(state, task) if task is not None and task.slots else None


def decision_body(state: State, name: str) -> DecisionBody | None:
    """The decision of a name; None if there is none, or it was forgotten."""
    event = stored_decision(state, number_in(name, state.pool, DECISION) or 0)
    task = None if event is None else state.tasks.get(event.task)
    return None if event is None or task is None else decision_of(state, task, event)


def waiting_tasks(state: State, limit: int | None = None) -> list[TaskBody]:
    """Waiting tasks in the order of priority + age weight x wait, at most ``limit``."""
    entries = list(state.waiting.in_order())[:limit]
    return [task_of(state, state.tasks[number]) for _, _, number in entries]


def pool_body(state: State, now: float) -> PoolBody | None:
    """The pool at a glance; None before it is created."""
    if state.settings is None:
        return None
    plan = state.active_plan
    present = [
        (r, server) for r, server in enumerate(state.servers) if server.present and server.here
    ]
    return PoolBody(
        id=state.pool,
        settings=state.settings,
        servers=len(present),
        servers_free=sum(int(state.closed[r] == 0) for r, _ in present),
        slots=sum(server.settings.capacity for _, server in present),
        slots_open=state.open_slots,
        tasks_open=state.n_tasks_open,
        tasks_waiting=state.waiting.size,
        plan=None if plan is None else plan.id,
        plan_age=None if plan is None else max(now - state.activated[plan.id], 0.0),
        degraded=_degraded(state, max(now, state.clock)),
        counts=dict(state.counts),
        reward=state.reward,
        capacity_mismatch=capacity_mismatch(state),
    )


def _degraded(state: State, now: float) -> str:
    """The first reason by which a type is decided without a fresh plan, and of which types."""
    routing = routing_of(state)
    reasons = [degraded_now(state, routing, v, now) for v in range(len(state.types))]
    told = next(
        (reason for reason in reasons if reason and reason != STALE), max(reasons, default="")
    )
    of = [one.id for one, reason in zip(state.types, reasons, strict=True) if reason == told]
    if not told or len(of) == len(reasons):
        return told
    more = f" and {len(of) - TYPES_NAMED} more" if len(of) > TYPES_NAMED else ""
    return f"{told} (task type {', '.join(map(shorten, of[:TYPES_NAMED]))}{more})"


def server_body(state: State, name: str) -> ServerBody | None:
    """The server of a name; None if there never was one."""
    r = state.server_index.get(name)
    return None if r is None else server_of(state, r)


def server_bodies(state: State) -> list[ServerBody]:
    """All servers in the pool; those of another sub-pool are not in it."""
    return [
        server_of(state, r)
        for r, server in enumerate(state.servers)
        if server.present and server.here
    ]


def absent_bodies(state: State) -> list[ServerBody]:
    """Servers that were declared in the pool and are in a sub-pool, or on their way."""
    return [
        server_of(state, r)
        for r, server in enumerate(state.servers)
        if server.present and not server.here
    ]


def server_of(state: State, r: int) -> ServerBody:
    """The server of an index."""
    server = state.servers[r]
    return ServerBody(
        settings=server.settings,
        generation=server.generation,
        state=server_state(state, r),
        open_slots=state.n_open[r],
        quarantined_until=server.quarantined_until or None,
        strikes=server.strikes,
        assignments=[name_of(state.pool, ASSIGNMENT, n) for n in sorted(state.holders[r])],
    )


def server_state(state: State, r: int) -> str:
    """One word for a server (``answers.ServerBody``)."""
    server = state.servers[r]
    if not server.takes_tasks:
        return why_unavailable(state, r)
    if server.reserved_for:
        return "reserved"
    return "busy" if state.closed[r] else "free"


def task_type_bodies(state: State) -> list[TaskTypeBody]:
    """All task types, in the order in which they were created."""
    permitted = routing_of(state).n_permitted
    return [
        TaskTypeBody(settings=settings, n_permitted=permitted[v])
        for v, settings in enumerate(state.types)
    ]


def scores_body(state: State) -> ScoresBody:
    """Version and size of the scores."""
    score = state.score[: len(state.types), : len(state.servers)]
    return ScoresBody(version=state.score_version, pairs=int((score == score).sum()))


def outcome_of(state: State, task: Task, server: str | None) -> OutcomeBody:
    """What is recorded for an assignment and a server."""
    outcome = task.outcomes[server or ""]
    return OutcomeBody(
        assignment_id=name_of(state.pool, ASSIGNMENT, task.number),
        server=server,
        value=outcome.value,
        revision=outcome.revision,
        late=outcome.late,
    )
