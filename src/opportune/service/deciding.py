"""Which servers a task gets now, by the plan's order, and why.

The pick is the simulator's own (``kernels.allocate``). What a single task adds is a mask laid over
the free servers for a moment: its conflicts, those that it asked before, its pins, those that are
kept for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PRIORITY, SAMPLE
from opportune.kernels.allocate import Task as KernelTask
from opportune.kernels.live import pick_explained
from opportune.service.comparing import gain_of
from opportune.service.contextual import for_task
from opportune.service.events import Exclusion, Offered, Pick, Reasons
from opportune.service.exploring import Explored, Place, explore, share_of
from opportune.service.ordering import routing_of, shadow_of
from opportune.service.routing import PRIORS, STALE, Routing
from opportune.service.shadowing import ShadowGain
from opportune.service.state import State, Task, refresh
from opportune.service.turn import Turn

_RULES = {PRIORITY: "list", SAMPLE: "weights"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Servers for a task; no picks if fewer than needed are free."""

    picks: list[Pick]
    why: Reasons


def choose(turn: Turn, task: Task, need: int) -> Choice:
    """Pick ``need`` servers (at least 1) for a task, all or none."""
    state = turn.state
    routing = for_task(state, routing_of(state), task)
    asked = [slot.server for slot in task.slots]
    pins = [r for r in task.pins if r not in asked] if task.pins else []
    touched = _lay_mask(state, task, asked)
    try:
        pinned = bool(pins) and len(pins) <= need
        if pinned and any(state.closed[r] for r in pins):
            return Choice([], _refused(turn, routing, task, pins))
        if pinned:
            for r in pins:
                state.closed[r] += 1
            touched = [*touched, *pins]
        return _pick(turn, routing, task, pins if pinned else [], need)
    finally:
        for r in touched:
            refresh(state, r)


def _lay_mask(state: State, task: Task, asked: Sequence[int]) -> list[int]:
    """Close what the task must not have, open what is kept for it; the servers touched."""
    for r in task.reserved:
        server = state.servers[r]
        if server.takes_tasks and state.n_open[r] < server.settings.capacity:
            state.closed[r] = 0
    for r in task.conflicts:
        state.closed[r] = 1
    for r in asked:
        state.closed[r] = 1
    return [*task.reserved, *task.conflicts, *asked]


def _pick(turn: Turn, routing: Routing, task: Task, pins: list[int], need: int) -> Choice:
    state, v = turn.state, task.task_type
    headcount = state.open_slots // task.k
    level = min(headcount, routing.tables.order.shape[1] - 1)
    wanted = need - len(pins)
    draws = turn.draw(max(wanted, 1))
    explained = routing.explained
    found = pick_explained(
        routing.tables, state.closed, KernelTask(0, v, level, wanted), draws, explained
    )
    picks: list[Pick] = []
    chosen: list[int] = []
    explored: Explored | None = None
    if found >= wanted:
        picks = [_priced(state, routing, v, r, 1.0) for r in pins]
        chosen = explained.picks[:wanted].tolist()
        propensity = explained.propensity[:wanted].tolist()
        share = share_of(turn.settings)
        if share > 0.0 and wanted > 0:
            explored = explore(turn, routing, Place(v, level, wanted), share)
        if explored is not None:
            chosen, propensity = explored.picks, explored.propensity
        picks += [
            _priced(state, routing, v, r, probability)
            for r, probability in zip(chosen, propensity, strict=True)
        ]
    ours = (pins, chosen)
    shadow_picks, gain = _in_shadow(state, routing, task, draws, ours) if picks else ([], None)
    rule = "context" if routing.weight is not None else _RULES.get(routing.tables.rule, "list-ties")
    why = _reasons(
        turn,
        routing,
        task,
        rule=rule if wanted else "pins",
        headcount=headcount,
        n_free=int(explained.n_free[0]) + len(pins),
        draws=[*draws[0].tolist(), *(explored.draws if explored is not None else ())],
        alternates=[
            _priced(state, routing, v, r, 0.0)
            for r in explained.following.tolist()
            if r >= 0 and r not in chosen
        ],
        excluded=[
            Exclusion(state.servers[r].settings.id, why_closed(state, task, r))
            for r in explained.passed.tolist()
            if r >= 0 and r not in pins
        ],
        shadow=state.shadow,
        shadow_picks=shadow_picks,
        shadow_gain=gain,
        **({} if explored is None else explored.told),
    )
    return Choice(picks, why)


def _in_shadow(
    state: State,
    routing: Routing,
    task: Task,
    draws: NDArray[np.uint32],
    ours: tuple[list[int], list[int]],
) -> tuple[list[str], ShadowGain | None]:
    """Whom the plan in the shadow would have picked, and what that would have been worth.

    Args:
        state: The pool.
        routing: The active plan, for this task.
        task: The task; its context counts for the shadow as well.
        draws: (1, wanted or more) the same as for the active plan.
        ours: The pins, and what the active plan picked beside them.
    """
    shadow = shadow_of(state)
    if shadow is None:
        return [], None
    shadow = for_task(state, shadow, task)
    (pins, chosen), v = ours, task.task_type
    wanted = len(chosen)
    level = min(state.open_slots // task.k, shadow.tables.order.shape[1] - 1)
    other = KernelTask(0, v, level, wanted)
    pick_explained(shadow.tables, state.closed, other, draws, shadow.explained)
    theirs = [*pins, *shadow.explained.picks[:wanted].tolist()]
    names = [state.servers[r].settings.id for r in theirs]
    return names, gain_of((routing, shadow), v, [*pins, *chosen], theirs)


def _refused(turn: Turn, routing: Routing, task: Task, pins: list[int]) -> Reasons:
    """Why a task does not start: a pinned server is not free."""
    state = turn.state
    closed = [r for r in pins if state.closed[r]]
    free = routing.allowed[task.task_type] & (state.closed[: len(state.servers)] == 0)
    return _reasons(
        turn,
        routing,
        task,
        rule="pins",
        headcount=state.open_slots // task.k,
        n_free=int(free.sum()),
        draws=[],
        alternates=[],
        excluded=[
            Exclusion(state.servers[r].settings.id, why_closed(state, task, r)) for r in closed[:3]
        ],
    )


def _reasons(turn: Turn, routing: Routing, task: Task, **found: object) -> Reasons:
    """The part of the reasons that goes by type, with what was found."""
    v = task.task_type
    return Reasons(
        plan=routing.plan[v],
        degraded=degraded_now(turn.state, routing, v, turn.now),
        demand_price=known(routing.demand_price[v]),
        mean_duration=known(routing.mean_duration[v]),
        n_permitted=routing.n_permitted[v],
        **found,  # type: ignore[arg-type]
    )


def degraded_now(state: State, routing: Routing, v: int, now: float) -> str:
    """Why type v is not decided by a fresh plan; empty if it is."""
    plan = routing.plan[v]
    settings = state.settings
    if plan is None or routing.degraded[v] == PRIORS or settings is None:
        return routing.degraded[v]
    if now - state.activated[plan] > settings.plan_max_age:
        return STALE
    return routing.degraded[v]


def _priced(state: State, routing: Routing, v: int, r: int, propensity: float) -> Pick:
    return Pick(
        state.servers[r].settings.id,
        known(routing.score[v, r]),
        known(routing.index[v, r]),
        known(routing.cost[v, r]),
        known(routing.capacity_price[v, r]),
        propensity,
    )


def known(value: np.float64) -> float | None:
    """A number of an array, None where there is none (NaN)."""
    number = float(value)
    return number if math.isfinite(number) else None


def why_closed(state: State, task: Task, r: int) -> str:
    """Why a server cannot be picked for a task."""
    server = state.servers[r]
    if r in task.conflicts:
        return "conflict"
    if any(slot.server == r for slot in task.slots):
        return "asked before"
    if not server.takes_tasks:
        return why_unavailable(state, r)
    return "reserved" if server.reserved_for else "busy"


def why_unavailable(state: State, r: int) -> str:
    """Why a server takes no tasks at all."""
    server = state.servers[r]
    if not server.present:
        return "removed"
    if not server.here:
        return "elsewhere"
    if server.quarantined_until:
        return "quarantined"
    if server.settings.drain:
        return "draining"
    if server.silent:
        return "silent"
    return "leaving" if server.to and server.settings.available else "unavailable"


def offer(turn: Turn, task: Task, choice: Choice) -> Offered:
    """Give the picked servers to the task."""
    state, settings = turn.state, turn.settings
    event = Offered(
        time=turn.now,
        decision=state.last_decision + 1,
        task=task.number,
        lease=state.last_lease + 1,
        picks=choice.picks,
        why=choice.why,
        accepted=settings.auto_accept,
        until=turn.now + (settings.lease if settings.auto_accept else settings.offer_timeout),
    )
    turn.emit(event)
    return event


def expected_free(turn: Turn, task: Task) -> float | None:
    """When k servers that the task may have are expected to be free; None if nobody knows."""
    state = turn.state
    routing = routing_of(state)
    n = len(state.servers)
    may = routing.allowed[task.task_type].copy()
    may[task.conflicts] = False
    expected = np.where(state.ready[:n], state.busy_until[:n], math.inf)
    until: NDArray[np.float64] = np.where(state.closed[:n] == 0, turn.now, expected)
    for r in np.flatnonzero(may & ~state.ready[:n]):
        server = state.servers[r]
        if server.quarantined_until and not server.settings.drain:
            until[r] = max(state.busy_until[r], server.quarantined_until)
    times = np.sort(np.maximum(until[may], turn.now))
    if task.pins:
        times = np.append(times[: task.k], max(until[r] for r in task.pins))
        when = float(times.max()) if len(times) > task.k else math.inf
    else:
        when = float(times[task.k - 1]) if len(times) >= task.k else math.inf
    return when if math.isfinite(when) else None
