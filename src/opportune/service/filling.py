"""What happens when a server gets free: short tasks first, then the queue, by index and age.

Queue mode is ours and stands outside the paper's theorem: for a freed server r, waiting tasks are
tried in the order of L(v,r) + priority + age weight x wait; one starts when k servers that it may
have are free. The oldest task, once it has waited for ``reserve_after``, keeps free servers for
itself until it starts; only one task does so at a time, so two cannot wait for each other. A server
of several slots is kept whole.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from opportune.service.deciding import choose, offer
from opportune.service.events import QuarantineStarted, ServersReserved, SlotsMoved, TaskEnded
from opportune.service.events import TaskStarted as Started
from opportune.service.ordering import routing_of
from opportune.service.state import ACCEPTED, OFFERED, State, Task
from opportune.service.turn import Turn

MOST_DOUBLINGS = 60
"""Of the quarantine's back-off: beyond it only the longest quarantine counts."""


def fill(turn: Turn) -> None:
    """Use the servers that got free in this turn."""
    state = turn.state
    again = True
    while again:
        while turn.freed:
            r = turn.freed.pop(0)
            while state.closed[r] == 0 and (state.short or state.waiting.size):
                if not _use(turn, r):
                    break
        again = _reserve(turn)


def free_all(turn: Turn) -> None:
    """Look at every free server: who may serve whom has changed."""
    state = turn.state
    if state.short or state.waiting.size:
        turn.freed = [r for r in range(len(state.servers)) if state.closed[r] == 0]


def _use(turn: Turn, r: int) -> bool:
    """Start or fill up one task, if one can use server r."""
    state = turn.state
    if _reserve(turn):
        return True
    for number in sorted(state.short):
        if refill(turn, state.tasks[number]):
            return True
    allowed = routing_of(state).allowed
    failed: dict[int, int] = {}
    for task in _by_worth(state, r):
        v = task.task_type
        if task.k >= failed.get(v, math.inf) or not allowed[v, r] or r in task.conflicts:
            continue
        if start(turn, task):
            return True
        if not task.pins and not task.conflicts:
            failed[v] = min(task.k, failed.get(v, task.k))
    return False


def _by_worth(state: State, r: int) -> Iterator[Task]:
    """Waiting tasks by L(v,r) + priority + age weight x wait for server r, best first."""
    index = routing_of(state).index
    heads: list[tuple[float, float, int, int, int]] = []

    def push(v: int, at: int) -> None:
        entries = state.waiting.by_type[v]
        if at < len(entries):
            worth = float(index[v, r])
            later, created, number = entries[at]
            key = later - (worth if math.isfinite(worth) else 0.0)
            heapq.heappush(heads, (key, created, number, v, at))

    for v in state.waiting.by_type:
        push(v, 0)
    while heads:
        _, _, number, v, at = heapq.heappop(heads)
        yield state.tasks[number]
        push(v, at + 1)


def start(turn: Turn, task: Task) -> bool:
    """Give a waiting task its servers, if k that it may have are free."""
    choice = choose(turn, task, task.k)
    if not choice.picks:
        return False
    kept = list(task.reserved)
    offer(turn, task, choice)
    turn.freed += [r for r in kept if turn.state.closed[r] == 0]
    return True


def refill(turn: Turn, task: Task) -> bool:
    """Ask other servers in place of those that declined, as far as some are free."""
    if _lost_a_pin(task):
        give_up(turn, task)
        return True
    asked = False
    while task.is_short:
        choice = choose(turn, task, 1)
        if not choice.picks:
            break
        offer(turn, task, choice)
        asked = True
    return asked


def _lost_a_pin(task: Task) -> bool:
    kept = {slot.server for slot in task.slots if slot.state in (OFFERED, ACCEPTED)}
    return any(r not in kept for r in task.pins)


def give_up(turn: Turn, task: Task) -> None:
    """A task that is not full and never will be: it starts with fewer servers, or expires."""
    state = turn.state
    least = state.types[task.task_type].min_servers
    least = turn.settings.min_servers if least is None else least
    move(turn, task, OFFERED, "rescinded")
    accepted = sum(slot.state == ACCEPTED for slot in task.slots)
    if least is not None and accepted >= least and not _lost_a_pin(task):
        turn.emit(Started(time=turn.now, task=task.number))
        return
    move(turn, task, ACCEPTED, "released")
    turn.emit(TaskEnded(time=turn.now, task=task.number, state="expired"))


def move(turn: Turn, task: Task, source: str, target: str, reason: str = "") -> None:
    """All slots of a task in one state go to another, in which they are not held."""
    moved = [slot.server for slot in task.slots if slot.state == source]
    if moved:
        move_servers(turn, task, moved, target, reason)


def move_servers(turn: Turn, task: Task, servers: list[int], target: str, reason: str = "") -> None:
    """Slots of some servers go to a state in which they are not held."""
    names = [turn.state.servers[r].settings.id for r in servers]
    turn.emit(
        SlotsMoved(time=turn.now, task=task.number, servers=names, state=target, reason=reason)
    )
    for r in servers:
        _quarantine(turn, r)
    turn.freed += servers


def _quarantine(turn: Turn, r: int) -> None:
    """Put a server into quarantine that failed too often in a row."""
    settings, server = turn.settings, turn.state.servers[r]
    limit = settings.quarantine_after
    if limit is None or server.strikes < limit or server.quarantined_until or not server.present:
        return
    wait = settings.quarantine_backoff * 2.0 ** min(server.quarantines, MOST_DOUBLINGS)
    until = turn.now + min(wait, settings.quarantine_max)
    turn.emit(QuarantineStarted(time=turn.now, server=server.settings.id, until=until))


def _reserve(turn: Turn) -> bool:
    """Start the oldest task if it waits too long, or keep free servers for it."""
    state, after = turn.state, turn.settings.reserve_after
    number = next(iter(state.queued), None)
    if after is None or number is None:
        return False
    task = state.tasks[number]
    if turn.now - task.created < after:
        return False
    if start(turn, task):
        return True
    may = routing_of(state).allowed[task.task_type].copy()
    may[task.conflicts] = False
    takes = [r for r in may.nonzero()[0].tolist() if state.servers[r].takes_tasks]
    if len(takes) < task.k or any(r not in takes for r in task.pins):
        return False  # it cannot start with what there is: do not keep others waiting
    free = [r for r in takes if state.closed[r] == 0]
    kept = [r for r in task.reserved if r in takes and r not in task.pins]
    room = task.k - len(task.pins) - len(kept)
    wanted = [r for r in free if r in task.pins]
    wanted += [r for r in free if r not in task.pins][: max(room, 0)]
    if not wanted:
        return False
    names = [state.servers[r].settings.id for r in wanted]
    turn.emit(ServersReserved(time=turn.now, task=task.number, servers=names))
    return True
