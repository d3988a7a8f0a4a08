"""From an event to the next state: the only place where a pool changes.

``apply`` decides nothing: equal events give equal states, whenever and wherever they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune.service import applying_plans, dealing_events, events
from opportune.service.resources import PoolSettings
from opportune.service.settling import (
    count,
    end_task,
    forget_ended,
    rebuild_ledger,
    rebuild_waiting,
    settle,
    start_waiting,
    stop_waiting,
    wrap_up_of,
)
from opportune.service.state import (
    ACCEPTED,
    HELD,
    IN_SERVICE,
    LEASE_ENDS,
    OFFER_ENDS,
    OFFERED,
    OFFERING,
    QUARANTINE_ENDS,
    QUEUED,
    RESERVES,
    SILENCE,
    START_ENDS,
    WRAP_ENDS,
    WRAPPING,
    Outcome,
    Server,
    Slot,
    State,
    Task,
    hold,
    let_go,
    refresh,
    set_timer,
    timers_of,
)

_ENCODE = msgspec.msgpack.Encoder().encode
_STRIKES = frozenset({"timed_out", "failed", "lost"})


def apply(state: State, event: events.Event) -> State:
    """Change ``state`` in place by one event; returns it."""
    if event.time > state.clock:
        state.clock = event.time
    _APPLY[type(event)](state, event)
    return state


def _pool_put(state: State, event: events.PoolPut) -> None:
    before = None if state.settings is None else state.settings.heartbeat_timeout
    if state.settings is not None and _unit(state.settings) != _unit(event.settings):
        state.learned = None  # its scores were in another unit
    state.settings = event.settings
    state.last_task += event.skips
    state.last_decision += event.skips
    state.last_lease += event.skips
    if before is None or event.settings.heartbeat_timeout is None:
        for server in state.servers:  # heartbeats count from now, or not at all
            server.seen, server.silent = event.time, False
    state.routing = state.shadow_routing = None
    rebuild_waiting(state)
    rebuild_ledger(state)
    state.timers = sorted(timers_of(state))
    forget_ended(state)
    applying_plans.count_arrivals(state, event.settings.replan_window)


def _task_type_put(state: State, event: events.TaskTypePut) -> None:
    settings = event.settings
    v = state.type_index.setdefault(settings.id, len(state.types))
    if v == len(state.types):
        state.types.append(settings)
        state.score = _grown(state.score, (v + 1, len(state.servers)))
    else:
        state.types[v] = settings
        rebuild_ledger(state)
    state.routing = state.shadow_routing = None


def _grown(array: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The array with room for ``shape``, doubled where it was too small."""
    room = [
        max(have, 2 * need if need > have else have)
        for have, need in zip(array.shape, shape, strict=True)
    ]
    if tuple(room) == array.shape:
        return array
    grown = np.full(room, np.nan)
    grown[: array.shape[0], : array.shape[1]] = array
    return grown


def _server_put(state: State, event: events.ServerPut) -> None:
    settings = event.settings
    r = state.server_index.get(settings.id)
    if r is None:
        r = state.server_index[settings.id] = len(state.servers)
        here = not event.away
        state.servers.append(Server(settings, event.generation, seen=event.time, here=here))
        _add_column(state)
        state.routing = state.shadow_routing = None
    else:
        server = state.servers[r]
        if not server.present:  # a new generation: nothing of the old one counts
            state.servers[r] = Server(
                settings,
                event.generation,
                seen=event.time,
                hop=server.hop,
                here=server.here,
                to=server.to,
            )
            state.routing = state.shadow_routing = None
        else:
            if server.settings.attributes != settings.attributes:
                state.routing = state.shadow_routing = None
            server.settings = settings
    refresh(state, r)
    timeout = None if state.settings is None else state.settings.heartbeat_timeout
    if timeout is not None:
        set_timer(state, state.servers[r].seen + timeout, SILENCE, r)


def _add_column(state: State) -> None:
    n = len(state.servers)
    if n > len(state.closed):
        closed = np.ones(2 * n, dtype=np.int64)
        closed[: len(state.closed)] = state.closed
        state.closed = closed
        state.busy_until = np.concatenate([state.busy_until, np.zeros(2 * n)])[: 2 * n]
        state.ready = np.concatenate([state.ready, np.zeros(2 * n, dtype=np.bool_)])[: 2 * n]
    state.score = _grown(state.score, (len(state.types), n))
    state.n_open.append(0)
    state.holders.append({})


def _server_removed(state: State, event: events.ServerRemoved) -> None:
    r = state.server_index[event.server]
    server = state.servers[r]
    if server.reserved_for:
        task = state.tasks[server.reserved_for]
        task.reserved.remove(r)
        server.reserved_for = 0
    server.present = False
    server.quarantined_until = 0.0
    state.open_slots -= state.n_open[r]
    state.n_open[r] = 0
    state.holders[r].clear()
    state.busy_until[r] = 0.0
    refresh(state, r)
    state.routing = state.shadow_routing = None


def _server_seen(state: State, event: events.ServerSeen) -> None:
    r = state.server_index[event.server]
    server = state.servers[r]
    was_silent, before = server.silent, server.seen
    server.seen, server.silent = event.time, False
    timeout = None if state.settings is None else state.settings.heartbeat_timeout
    if timeout is not None and (was_silent or event.time < before):
        set_timer(state, event.time + timeout, SILENCE, r)
    refresh(state, r)


def _server_silent(state: State, event: events.ServerSilent) -> None:
    r = state.server_index[event.server]
    state.servers[r].silent = True
    refresh(state, r)


def _quarantine_started(state: State, event: events.QuarantineStarted) -> None:
    r = state.server_index[event.server]
    server = state.servers[r]
    server.quarantined_until = event.until
    server.quarantines += 1
    server.strikes = 0
    set_timer(state, event.until, QUARANTINE_ENDS, r)
    count(state, "quarantined")
    refresh(state, r)


def _quarantine_ended(state: State, event: events.QuarantineEnded) -> None:
    r = state.server_index[event.server]
    server = state.servers[r]
    server.quarantined_until = 0.0
    server.strikes = 0
    if event.cleared:
        server.quarantines = 0
    refresh(state, r)


def _scores_put(state: State, event: events.ScoresPut) -> None:
    if event.replace:
        state.score[:] = np.nan
    for row in event.rows:
        state.score[state.type_index[row.task_type], state.server_index[row.server]] = row.score
    state.score_version = event.version
    state.routing = state.shadow_routing = None


def _unit(settings: PoolSettings) -> tuple[float, float]:
    return settings.learner.low, settings.learner.high


def _learned_put(state: State, event: events.LearnedPut) -> None:
    state.learned = event.learned
    state.routing = state.shadow_routing = None


def _task_created(state: State, event: events.TaskCreated) -> None:
    task = Task(
        event.task,
        state.type_index[event.task_type],
        event.k,
        event.time,
        event.deadline,
        event.external,
        event.fingerprint,
        [state.server_index[name] for name in event.pins],
        [state.server_index[name] for name in event.conflicts],
        event.context,
        event.priority,
    )
    state.tasks[task.number] = task
    state.last_task = task.number
    if task.external is not None:
        state.external[task.external] = task.number
    start_waiting(state, task)
    set_timer(state, task.deadline, START_ENDS, task.number)
    if state.settings is not None and state.settings.reserve_after is not None:
        set_timer(state, event.time + state.settings.reserve_after, RESERVES, task.number)
    count(state, "created")
    if state.arrivals is not None:
        state.arrivals.note(event.time, task.task_type)


def _offered(state: State, event: events.Offered) -> None:
    task = state.tasks[event.task]
    if task.state == QUEUED:
        stop_waiting(state, task)
        task.state = OFFERING
    slot_state = ACCEPTED if event.accepted else OFFERED
    wrap_up = wrap_up_of(state, task)
    for pick in event.picks:
        r = state.server_index[pick.server]
        generation = state.servers[r].generation
        until = 0.0 if event.accepted else event.until
        slot = Slot(r, generation, slot_state, event.lease, until, event.decision, event.time)
        task.slots.append(slot)
        hold(state, r, task, wrap_up, event.time)
    task.lease = state.last_lease = event.lease
    state.last_decision = event.decision
    task.decisions.append(event.decision)
    state.decisions[event.decision] = _ENCODE(event)
    count(state, "slots_offered", len(event.picks))
    if event.why.shadow is not None:
        applying_plans.shadow_decided(state, event)
    if event.accepted:
        task.lease_until = event.until
        set_timer(state, event.until, LEASE_ENDS, task.number)
        count(state, "slots_accepted", len(event.picks))
    else:
        set_timer(state, event.until, OFFER_ENDS, task.number)
    settle(state, task, event.time)


def _task_dropped(state: State, event: events.TaskDropped) -> None:
    task = state.tasks[event.task]
    stop_waiting(state, task)
    state.last_decision = event.decision
    task.decisions.append(event.decision)
    state.decisions[event.decision] = _ENCODE(event)
    end_task(state, task, "dropped", event.time)


def _servers_reserved(state: State, event: events.ServersReserved) -> None:
    task = state.tasks[event.task]
    for name in event.servers:
        r = state.server_index[name]
        state.servers[r].reserved_for = task.number
        task.reserved.append(r)
        refresh(state, r)


def _slots_moved(state: State, event: events.SlotsMoved) -> None:
    task = state.tasks[event.task]
    for name in event.servers:
        r = state.server_index[name]
        slot = next(slot for slot in reversed(task.slots) if slot.server == r)
        slot.state = event.state
        if event.state == WRAPPING:
            slot.until = event.until
            set_timer(state, event.until, WRAP_ENDS, task.number)
        elif event.state not in HELD:
            let_go(state, slot, task.number)
        server = state.servers[r]
        if server.generation == slot.generation:
            if event.state in _STRIKES:
                server.strikes += 1
            elif event.state in (WRAPPING, "completed"):
                server.strikes = server.quarantines = 0
    if event.state == ACCEPTED:
        task.lease_until = max(task.lease_until, event.until)
        set_timer(state, task.lease_until, LEASE_ENDS, task.number)
    count(state, f"slots_{event.state}", len(event.servers))
    settle(state, task, event.time)


def _lease_extended(state: State, event: events.LeaseExtended) -> None:
    task = state.tasks[event.task]
    if event.until < task.lease_until:  # the pool's lease became shorter
        set_timer(state, event.until, LEASE_ENDS, task.number)
    task.lease_until = event.until


def _task_started(state: State, event: events.TaskStarted) -> None:
    task = state.tasks[event.task]
    task.state, task.started = IN_SERVICE, event.time
    count(state, "started")
    settle(state, task, event.time)


def _task_ended(state: State, event: events.TaskEnded) -> None:
    task = state.tasks[event.task]
    if task.state == QUEUED:
        stop_waiting(state, task)
    state.short.discard(task.number)
    end_task(state, task, event.state, event.time)


def _outcome_reported(state: State, event: events.OutcomeReported) -> None:
    task = state.tasks[event.task]
    key = event.server or ""
    before = task.outcomes.get(key)
    if before is not None and before.value is not None:
        state.reward -= before.value
    if event.value is not None:
        state.reward += event.value
    task.outcomes[key] = Outcome(event.value, event.revision, event.late)
    count(state, "outcomes")


_APPLY: dict[type, Callable[[State, Any], None]] = {
    events.PoolPut: _pool_put,
    events.TaskTypePut: _task_type_put,
    events.ServerPut: _server_put,
    events.ServerRemoved: _server_removed,
    events.ServerSeen: _server_seen,
    events.ServerSilent: _server_silent,
    events.QuarantineStarted: _quarantine_started,
    events.QuarantineEnded: _quarantine_ended,
    events.ScoresPut: _scores_put,
    **applying_plans.APPLY,
    **dealing_events.APPLY,
    events.LearnedPut: _learned_put,
    events.TaskCreated: _task_created,
    events.Offered: _offered,
    events.TaskDropped: _task_dropped,
    events.ServersReserved: _servers_reserved,
    events.SlotsMoved: _slots_moved,
    events.LeaseExtended: _lease_extended,
    events.TaskStarted: _task_started,
    events.TaskEnded: _task_ended,
    events.OutcomeReported: _outcome_reported,
}
