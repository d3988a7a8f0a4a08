"""Timers: what happens by itself. Every state that is not final has a deadline.

A timer only says when to look again: what is due is read from the task or server itself.
"""

from __future__ import annotations

import heapq

from opportune.service.events import QuarantineEnded, ServerSilent, TaskEnded
from opportune.service.filling import fill, give_up, move, move_servers, refill
from opportune.service.state import (
    ACCEPTED,
    LEASE_ENDS,
    OFFER_ENDS,
    OFFERED,
    OFFERING,
    QUARANTINE_ENDS,
    QUEUED,
    SILENCE,
    START_ENDS,
    WRAP_ENDS,
    WRAPPING,
    State,
    Task,
    set_timer,
)
from opportune.service.turn import Turn

AT_MOST = 1000
"""Timers that fire in one turn; the rest fires in the next."""


def next_deadline(state: State) -> float | None:
    """When something may happen by itself, in seconds of the pool's clock; None: never."""
    return state.timers[0][0] if state.timers else None


def fire_due(turn: Turn) -> None:
    """Let what is due happen."""
    state = turn.state
    for _ in range(AT_MOST):
        if not state.timers or state.timers[0][0] > turn.now:
            return
        _, kind, number = heapq.heappop(state.timers)
        if kind in (QUARANTINE_ENDS, SILENCE):
            _server_timer(turn, kind, number)
        else:
            task = state.tasks.get(number)
            if task is not None and task.ended is None:
                _task_timer(turn, kind, task)
        fill(turn)


def _server_timer(turn: Turn, kind: int, r: int) -> None:
    server = turn.state.servers[r]
    if kind == QUARANTINE_ENDS:
        if server.quarantined_until and server.quarantined_until <= turn.now:
            turn.emit(QuarantineEnded(time=turn.now, server=server.settings.id))
            turn.freed.append(r)
        return
    timeout = turn.settings.heartbeat_timeout
    if timeout is None or server.silent or not server.present or not server.here:
        return
    if server.seen + timeout <= turn.now:
        turn.emit(ServerSilent(time=turn.now, server=server.settings.id))
    else:
        set_timer(turn.state, server.seen + timeout, SILENCE, r)


def _task_timer(turn: Turn, kind: int, task: Task) -> None:
    """For ``RESERVES`` nothing: ``fill`` looks at the task that has waited longest anyway."""
    now = turn.now
    if kind == WRAP_ENDS:
        _move_due(turn, task, WRAPPING, "completed")
    elif kind == OFFER_ENDS and task.state == OFFERING:
        _move_due(turn, task, OFFERED, "timed_out")
        refill(turn, task)
    elif kind == LEASE_ENDS and any(slot.state == ACCEPTED for slot in task.slots):
        if task.lease_until > now:
            set_timer(turn.state, task.lease_until, LEASE_ENDS, task.number)
        else:
            move(turn, task, ACCEPTED, "lost")
            if task.is_short:
                refill(turn, task)
    elif kind == START_ENDS and task.state == QUEUED:
        kept = list(task.reserved)
        turn.emit(TaskEnded(time=now, task=task.number, state="expired"))
        turn.freed += kept
    elif kind == START_ENDS and task.state == OFFERING:
        give_up(turn, task)


def _move_due(turn: Turn, task: Task, source: str, target: str) -> None:
    due = [slot.server for slot in task.slots if slot.state == source and slot.until <= turn.now]
    if due:
        move_servers(turn, task, due, target)
