"""How far a task is, said anew after its slots changed; and what is forgotten when it is over."""

from __future__ import annotations

import numpy as np

from opportune.service.state import (
    ACCEPTED,
    HELD,
    IN_SERVICE,
    OFFERING,
    QUEUED,
    RUNNING,
    State,
    Task,
    hold,
    refresh,
)
from opportune.service.waiting import WaitingTasks, entry_of

NAME_IS_FREE = frozenset({"dropped", "expired", "cancelled"})
"""A task that ended so was not served: its external id may name a new attempt."""


def count(state: State, what: str, n: int = 1) -> None:
    """One more of something that is counted."""
    state.counts[what] = state.counts.get(what, 0) + n


def wrap_up_of(state: State, task: Task) -> float:
    """Seconds that a server stays busy after it has completed this task."""
    own = state.types[task.task_type].wrap_up
    if own is not None:
        return own
    return 0.0 if state.settings is None else state.settings.wrap_up


def settle(state: State, task: Task, time: float) -> None:
    """Say anew how far a task is, from its slots."""
    if task.state == OFFERING:
        taken = sum(slot.state == ACCEPTED for slot in task.slots)
        if taken >= task.k:
            task.state, task.started = IN_SERVICE, time
            count(state, "started")
    if task.state == IN_SERVICE and not task.n_held:
        found = {slot.state for slot in task.slots}
        if "completed" in found:
            end_task(state, task, "done", time)
        elif "failed" in found or "lost" in found:
            end_task(state, task, "failed", time)
        else:
            end_task(state, task, "cancelled", time)
    if task.is_short:
        state.short.add(task.number)
    else:
        state.short.discard(task.number)


def end_task(state: State, task: Task, how: str, time: float) -> None:
    """A task is over, in the state ``how``."""
    task.state, task.ended = how, time
    state.ended.append(task.number)
    if how in NAME_IS_FREE:
        _free_name(state, task)
    count(state, how)
    forget_ended(state)


def forget_ended(state: State) -> None:
    """Forget the tasks that ended first, beyond those that stay readable."""
    retain = 0 if state.settings is None else state.settings.retain
    while len(state.ended) > retain:
        task = state.tasks.pop(state.ended.popleft())
        for number in task.decisions:
            del state.decisions[number]
        _free_name(state, task)


def _free_name(state: State, task: Task) -> None:
    """The caller's name for a task may name another one."""
    if task.external is not None and state.external.get(task.external) == task.number:
        del state.external[task.external]


def start_waiting(state: State, task: Task) -> None:
    """A task begins to wait."""
    state.waiting.add(task.task_type, waiting_entry(state, task))
    state.queued[task.number] = None


def stop_waiting(state: State, task: Task) -> None:
    """A task does not wait any more; what was kept for it is not."""
    state.waiting.remove(task.task_type, waiting_entry(state, task))
    del state.queued[task.number]
    for r in task.reserved:
        state.servers[r].reserved_for = 0
        refresh(state, r)
    task.reserved = []


def rebuild_waiting(state: State) -> None:
    """The queues anew from the tasks."""
    state.waiting = WaitingTasks()
    state.queued = {}
    for task in state.tasks.values():
        if task.state == QUEUED:
            start_waiting(state, task)


def waiting_entry(state: State, task: Task) -> tuple[float, float, int]:
    """Where a task stands in its queue."""
    weight = 0.0 if state.settings is None else state.settings.age_weight
    return entry_of(weight, task.priority, task.created, task.number)


def rebuild_ledger(state: State) -> None:
    """Who holds which slot, and until when that is expected, anew from the tasks."""
    n = len(state.servers)
    if n > len(state.closed):
        state.closed = np.ones(2 * n, dtype=np.int64)
        state.busy_until = np.zeros(2 * n)
        state.ready = np.zeros(2 * n, dtype=np.bool_)
    state.n_open = [0] * n
    state.holders = [{} for _ in range(n)]
    state.open_slots = 0
    state.busy_until[:] = 0.0
    for task in state.tasks.values():
        if task.state not in RUNNING:
            continue
        wrap_up = wrap_up_of(state, task)
        for slot in task.slots:
            server = state.servers[slot.server]
            if slot.state in HELD and server.present and slot.generation == server.generation:
                hold(state, slot.server, task, wrap_up, slot.since)
    for r in range(n):
        refresh(state, r)
