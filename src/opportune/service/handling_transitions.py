"""Commands about assignments: accept, decline, complete, fail, release, heartbeat, outcomes.

Terminal states never change. A command whose target is the present state has been carried out: it
is repeated, with the same body. A stale fencing token is refused before anything else is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from opportune.service.answers import Code
from opportune.service.commands import (
    Accept,
    Complete,
    Decline,
    Fail,
    Heartbeat,
    Release,
    ReportOutcome,
)
from opportune.service.events import LeaseExtended, OutcomeReported, SlotsMoved
from opportune.service.filling import move_servers, refill
from opportune.service.naming import ASSIGNMENT, DECISION
from opportune.service.reading import assignment_of, outcome_of
from opportune.service.refusing import Refused, Reply, server_named, task_named
from opportune.service.settling import wrap_up_of
from opportune.service.state import ACCEPTED, IN_SERVICE, OFFERED, WRAPPING, Slot, State, Task
from opportune.service.turn import Turn

Transition = Accept | Decline | Complete | Fail | Release | Heartbeat

NEVER_SERVED = frozenset({"declined", "timed_out", "rescinded"})
"""States of a slot whose server never took the task: nothing can come of it, good or bad."""


@dataclass(frozen=True)
class Step:
    """A transition: from which states, and in which it has been carried out already."""

    verb: str
    sources: tuple[str, ...]
    done: tuple[str, ...]


ACCEPTS = Step("accept", (OFFERED,), (ACCEPTED,))
DECLINES = Step("decline", (OFFERED,), ("declined",))
COMPLETES = Step("complete", (ACCEPTED,), (WRAPPING, "completed"))
FAILS = Step("fail", (ACCEPTED,), ("failed",))
RELEASES = Step("release", (OFFERED, ACCEPTED), ("released", "rescinded"))
BEATS = Step("heartbeat", (ACCEPTED,), ())


def _affected(state: State, command: Transition, step: Step) -> tuple[Task, list[Slot]]:
    """The task, and the slots to move; none if that has been done already.

    Raises:
        Refused: If there is no such assignment or server, the token is stale, or the state does
            not allow it.
    """
    task = task_named(state, command.assignment, ASSIGNMENT, "assignment")
    slots = task.slots
    tokens = {task.lease}
    if command.server is not None:
        r = server_named(state, command.server)
        slots = [slot for slot in task.slots if slot.server == r]
        if not slots:
            told = f"server {command.server!r} has no slot in {command.assignment!r}"
            raise Refused("not-found", "server", told, "", assignment_of(state, task))
        tokens.add(slots[-1].lease)
    if command.lease is not None and command.lease not in tokens:
        raise Refused(
            "stale-lease",
            "lease",
            f"{command.lease} is not the present token",
            "read the assignment again: its servers have changed",
            assignment_of(state, task),
        )
    found = [slot for slot in slots if slot.state in step.sources]
    if found or any(slot.state in step.done for slot in slots):
        return task, found
    states = ", ".join(sorted({slot.state for slot in slots}))
    told = f"cannot {step.verb}: {states}"
    runs = any(slot.state in (OFFERED, ACCEPTED) for slot in slots)
    code: Code = "conflict" if runs else "already-ended"
    raise Refused(code, "assignment", told, "", assignment_of(state, task))


def _done(state: State, task: Task, repeated: bool = False) -> Reply:
    return Reply(body=lambda: assignment_of(state, task), repeated=repeated)


def accept(turn: Turn, command: Accept) -> Reply:
    """Servers take what they were offered; the lease begins.

    Raises:
        Refused: As :func:`_affected`.
    """
    task, slots = _affected(turn.state, command, ACCEPTS)
    if slots:
        names = [turn.state.servers[slot.server].settings.id for slot in slots]
        until = turn.now + turn.settings.lease
        turn.emit(
            SlotsMoved(time=turn.now, task=task.number, servers=names, state=ACCEPTED, until=until)
        )
    return _done(turn.state, task, not slots)


def decline(turn: Turn, command: Decline) -> Reply:
    """Servers do not want it: others are asked; the slots of others stay as they are.

    Raises:
        Refused: As :func:`_affected`.
    """
    task, slots = _affected(turn.state, command, DECLINES)
    return _leave(turn, task, slots, "declined", command.reason)


def fail(turn: Turn, command: Fail) -> Reply:
    """Servers could not do it.

    Raises:
        Refused: As :func:`_affected`.
    """
    task, slots = _affected(turn.state, command, FAILS)
    return _leave(turn, task, slots, "failed", command.reason)


def release(turn: Turn, command: Release) -> Reply:
    """Servers are let go: offers are rescinded, accepted slots released.

    Raises:
        Refused: As :func:`_affected`.
    """
    task, slots = _affected(turn.state, command, RELEASES)
    offered = [slot for slot in slots if slot.state == OFFERED]
    accepted = [slot for slot in slots if slot.state == ACCEPTED]
    if offered and accepted:
        move_servers(turn, task, [slot.server for slot in offered], "rescinded", command.reason)
        offered = []
    target = "rescinded" if offered else "released"
    return _leave(turn, task, offered or accepted, target, command.reason)


def _leave(turn: Turn, task: Task, slots: list[Slot], target: str, reason: str) -> Reply:
    """Slots are free again; a task that has not begun gets other servers for them."""
    if slots:
        move_servers(turn, task, [slot.server for slot in slots], target, reason)
        if task.is_short:
            refill(turn, task)
    return _done(turn.state, task, not slots)


def complete(turn: Turn, command: Complete) -> Reply:
    """Servers are done: they wrap up, or are free at once.

    Raises:
        Refused: As :func:`_affected`; also if a server has not accepted yet, the value is out of
            the pool's range, or another value was reported before.
    """
    state = turn.state
    try:
        task, slots = _affected(state, command, COMPLETES)
    except Refused as refused:
        late = _late(turn, command)
        if refused.complaint.code != "already-ended" or late is None:
            raise
        return late
    if slots and task.state != IN_SERVICE:
        told = "cannot complete: not all of its servers have accepted"
        raise Refused("conflict", "assignment", told, "", assignment_of(state, task))
    _check_range(turn, task, command.server, command.value)
    outcome = command.value is not None and _is_new(task, command.server, command.value, 0)
    if slots:
        wrap_up = wrap_up_of(state, task)
        if wrap_up > 0:
            names = [state.servers[slot.server].settings.id for slot in slots]
            until = turn.now + wrap_up
            turn.emit(
                SlotsMoved(
                    time=turn.now, task=task.number, servers=names, state=WRAPPING, until=until
                )
            )
        else:
            move_servers(turn, task, [slot.server for slot in slots], "completed")
    if outcome:
        _report(turn, task, command.server, command.value, 0)
    return _done(state, task, not slots and not outcome)


def _late(turn: Turn, command: Complete) -> Reply | None:
    """A completion after the lease was lost: an outcome that frees nothing.

    Raises:
        Refused: If the value is out of the pool's range, or another one was reported before.
    """
    task = task_named(turn.state, command.assignment, ASSIGNMENT, "assignment")
    if not any(slot.state == "lost" for slot in task.slots):
        return None
    _check_range(turn, task, command.server, command.value)
    known = (command.server or "") in task.outcomes
    new = not known
    if known and command.value is not None:
        new = _is_new(task, command.server, command.value, 0)
    if new:
        _report(turn, task, command.server, command.value, 0)
    return _done(turn.state, task, not new)


def heartbeat(turn: Turn, command: Heartbeat) -> Reply:
    """The lease begins anew.

    Raises:
        Refused: As :func:`_affected`.
    """
    task, _ = _affected(turn.state, command, BEATS)
    until = turn.now + turn.settings.lease
    turn.emit(LeaseExtended(time=turn.now, task=task.number, until=until))
    return _done(turn.state, task)


def report_outcome(turn: Turn, command: ReportOutcome) -> Reply:
    """What came of an assignment, whenever it comes.

    Raises:
        Refused: If there is no such assignment or server, nobody served, the value is out of the
            pool's range, or the same revision was reported with another value.
    """
    state = turn.state
    task = task_named(state, command.subject, ASSIGNMENT + DECISION, "subject")
    if not task.slots:
        raise Refused("conflict", "subject", "the task was dropped: nothing can come of it")
    slots = task.slots
    if command.server is not None:
        r = server_named(state, command.server)
        slots = [slot for slot in slots if slot.server == r]
        if not slots:
            told = f"server {command.server!r} has no slot in it"
            raise Refused("not-found", "server", told)
    if all(slot.state in NEVER_SERVED for slot in slots):
        told = "declined, timed out or rescinded: nobody served"
        raise Refused("conflict", "server" if command.server else "subject", told)
    _check_range(turn, task, command.server, command.value)
    new = _is_new(task, command.server, command.value, command.revision)
    if new:
        _report(turn, task, command.server, command.value, command.revision)
    return Reply(
        body=lambda: outcome_of(state, task, command.server), created=new, repeated=not new
    )


def _check_range(turn: Turn, task: Task, server: str | None, value: float | None) -> None:
    """A pool that learns takes outcomes in its declared range only.

    Of a server from ``low`` to ``high``; of an assignment of k servers, whose outcome is the sum
    of theirs, k times as much.

    Raises:
        Refused: If the value is outside.
    """
    settings = turn.settings
    if value is None or settings.learning == "off":
        return
    n = 1 if server is not None else task.k
    low, high = n * settings.learner.low, n * settings.learner.high
    if not low <= value <= high:
        whose = "of a server" if server is not None else f"of {n} servers"
        told = f"{value} {whose} is not from {low:g} to {high:g}"
        raise Refused("invalid", "value", told, "declare the range in the pool's learner")


def _is_new(task: Task, server: str | None, value: float | None, revision: int) -> bool:
    """Whether a report says something new; an older revision does not.

    Raises:
        Refused: If the same revision was reported with another value.
    """
    before = task.outcomes.get(server or "")
    if before is None or revision > before.revision:
        return True
    if revision == before.revision and value != before.value:
        raise Refused(
            "conflict",
            "revision",
            f"revision {revision} was reported with value {before.value}",
            f"report revision {before.revision + 1}",
        )
    return False


def _report(turn: Turn, task: Task, server: str | None, value: float | None, revision: int) -> None:
    late = any(slot.state == "lost" for slot in task.slots)
    turn.emit(
        OutcomeReported(
            time=turn.now,
            task=task.number,
            value=value,
            server=server,
            revision=revision,
            late=late,
        )
    )
