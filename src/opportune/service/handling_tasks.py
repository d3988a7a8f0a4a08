"""Commands about tasks: create and cancel."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from opportune.service.answers import Complaint
from opportune.service.commands import CancelTask, CreateTask
from opportune.service.deciding import choose, expected_free, offer
from opportune.service.events import TaskCreated, TaskDropped, TaskEnded
from opportune.service.filling import move
from opportune.service.naming import ASSIGNMENT, TASK
from opportune.service.ordering import routing_of
from opportune.service.reading import assignment_of, decision_of, present_body, task_of
from opportune.service.refusing import Refused, Reply, task_named
from opportune.service.state import ACCEPTED, OFFERED, QUEUED, RUNNING, State, Task
from opportune.service.turn import Turn

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode


def create_task(turn: Turn, command: CreateTask) -> Reply:
    """A task comes in and is decided on at once.

    Raises:
        Refused: If the type is unknown, a pin or conflict is wrong, k servers will never be there,
            the context cannot be stored, or the external id stands for other content.
    """
    state, settings = turn.state, turn.settings
    fingerprint = b""
    if command.context:
        _check_context(command)
    if command.external_id is not None:
        fingerprint = hashlib.blake2b(_ENCODE(command), digest_size=8).digest()
        known = state.external.get(command.external_id)
        if known is not None:
            return _known_task(state, state.tasks[known], fingerprint)
    v = state.type_index.get(command.task_type)
    if v is None:
        raise Refused(
            "not-found", "task_type", f"there is no task type {command.task_type!r}", "create it"
        )
    k = command.k if command.k is not None else state.k_of(v)
    if command.pins or command.conflicts:
        _check_servers(state, v, k, command)
    _check_capacity(state, v, k, command)
    within = settings.start_within if command.start_within is None else command.start_within
    context = {name: command.context[name] for name in settings.context if name in command.context}
    number = state.last_task + 1
    turn.emit(
        TaskCreated(
            time=turn.now,
            task=number,
            task_type=command.task_type,
            k=k,
            deadline=turn.now + within,
            external=command.external_id,
            fingerprint=fingerprint,
            pins=command.pins,
            conflicts=command.conflicts,
            context=context,
            priority=command.priority,
        )
    )
    return _decide(turn, state.tasks[number])


def _check_context(command: CreateTask) -> None:
    """Refuse whole numbers that the journal cannot hold.

    Raises:
        Refused: If there is one.
    """
    for name, value in command.context.items():
        try:
            _ENCODE(value)
        except OverflowError:
            raise Refused(
                "invalid",
                f"context.{name}",
                "it holds a whole number below -2**63 or above 2**64 - 1",
                "send it as text",
            ) from None


def _decide(turn: Turn, task: Task) -> Reply:
    state = turn.state
    choice = choose(turn, task, task.k)
    if choice.picks:
        event = offer(turn, task, choice)
        return Reply(body=lambda: assignment_of(state, task, event), created=True)
    if turn.settings.mode == "queue":
        return Reply(body=lambda: present_body(state, task), waiting=True)
    when = expected_free(turn, task)
    dropped = TaskDropped(
        time=turn.now,
        decision=state.last_decision + 1,
        task=task.number,
        why=choice.why,
        expected_free=when,
    )
    turn.emit(dropped)
    problem = Complaint(
        code="no-capacity",
        field="task_type",
        detail=(
            f"{choice.why.n_free} of {choice.why.n_permitted} permitted servers can be picked, "
            f"{task.k} are needed; the drop is recorded"
        ),
        remedy="try again when servers are free, or use a pool in mode queue",
        expected_free=when,
        body=decision_of(state, task, dropped),
    )
    return Reply(body=lambda: None, problem=problem)


def _known_task(state: State, task: Task, fingerprint: bytes) -> Reply:
    """The answer for a task that was created before.

    Raises:
        Refused: If it was created with other content.
    """
    if task.fingerprint != fingerprint:
        raise Refused(
            "conflict",
            "external_id",
            f"task {task.external!r} exists with other content",
            "use another external_id, or send the same content",
            task_of(state, task),
        )
    waiting = task.state == QUEUED
    return Reply(body=lambda: present_body(state, task), repeated=True, waiting=waiting)


def _check_servers(state: State, v: int, k: int, command: CreateTask) -> None:
    """Pins and conflicts are known, pins are permitted and fit.

    Raises:
        Refused: If one is not.
    """
    for field, names in (("pins", command.pins), ("conflicts", command.conflicts)):
        unknown = [name for name in names if name not in state.server_index]
        if unknown:
            raise Refused("invalid", field, f"unknown servers: {_listed(unknown)}")
    if len(set(command.pins)) != len(command.pins):
        raise Refused("invalid", "pins", "a server is pinned twice")
    both = [name for name in command.pins if name in command.conflicts]
    if both:
        raise Refused("invalid", "pins", f"pinned and in conflict: {_listed(both)}")
    allowed = routing_of(state).allowed[v]
    refused = [name for name in command.pins if not allowed[state.server_index[name]]]
    if refused:
        told = f"not permitted for type {command.task_type!r}: {_listed(refused)}"
        raise Refused("invalid", "pins", told, "pin servers that are eligible, scored and present")
    if len(command.pins) > k:
        raise Refused("invalid", "pins", f"{len(command.pins)} pins for k={k} servers")


def _check_capacity(state: State, v: int, k: int, command: CreateTask) -> None:
    """There are k servers at all; who is busy does not matter.

    Raises:
        Refused: If there are fewer.
    """
    routing = routing_of(state)
    n = routing.n_permitted[v]
    if command.conflicts:
        taken = {state.server_index[name] for name in command.conflicts}
        n -= sum(bool(routing.allowed[v, r]) for r in taken)
    if k > n:
        raise Refused(
            "invalid",
            "k",
            f"the task needs {k} servers and {n} of the pool may ever serve it",
            "add servers or scores, or lower k",
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def cancel_task(turn: Turn, command: CancelTask) -> Reply:
    """End a task: exactly its own servers are free.

    Raises:
        Refused: If there is no such task, it has ended, or its servers wrap up already.
    """
    state = turn.state
    task = task_named(state, command.task, TASK + ASSIGNMENT, "task")
    reply = Reply(body=lambda: task_of(state, task))
    if task.state == "cancelled":
        return Reply(body=reply.body, repeated=True)
    if task.state not in RUNNING:
        body = task_of(state, task)
        raise Refused("already-ended", "task", f"the task is {task.state}", "", body)
    kept = list(task.reserved)
    held = [slot.state for slot in task.slots]
    if task.state == "in_service" and ACCEPTED not in held:
        told = "its servers have completed and wrap up"
        raise Refused("conflict", "task", told, "", task_of(state, task))
    move(turn, task, OFFERED, "rescinded")
    move(turn, task, ACCEPTED, "released")
    if task.state in (QUEUED, "offering"):
        turn.emit(TaskEnded(time=turn.now, task=task.number, state="cancelled"))
        turn.freed += kept
    return reply
