"""What a pool is at a moment: its ledger of slots, its tasks, scores and plans.

:class:`State` is one pool. What is declared and what happened is kept in full and goes into a
snapshot; what follows from it (free servers, queues, timers, lists of servers) is derived and built
again by ``storing.restore``. Only ``applying.apply`` changes the first kind.

The ledger: server r has ``capacity`` slots, ``n_open[r]`` of them held by tasks. A slot is held
from the offer until it is declined, ends or its wrap-up is over. ``closed[r]`` is 0 iff r can be
picked now: what ``kernels.allocate`` reads as ``busy_until`` at time 0. ``holders[r]`` says which
tasks hold a slot of r and until when each is expected to (infinity: unknown); ``busy_until[r]`` is
the first of these times. They are expectations: a server is busy until it really is not.
``ready[r]``: r would be picked if it had a slot free.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from opportune.service.arrivals import Arrivals
from opportune.service.dealing_records import Deal
from opportune.service.plan_jobs import PlanJob, PlanOrigin
from opportune.service.resources import (
    LearnedDocument,
    PlanDocument,
    PoolSettings,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service.routing import Kept, Routing
from opportune.service.shadowing import ShadowRecord
from opportune.service.waiting import WaitingTasks

OFFERED, ACCEPTED, WRAPPING = "offered", "accepted", "wrapping"
HELD = frozenset({OFFERED, ACCEPTED, WRAPPING})
"""States in which a slot is held."""

QUEUED, OFFERING, IN_SERVICE = "queued", "offering", "in_service"
RUNNING = frozenset({QUEUED, OFFERING, IN_SERVICE})
"""States of a task that is not over."""

WRAP_ENDS, OFFER_ENDS, LEASE_ENDS, START_ENDS, RESERVES, QUARANTINE_ENDS, SILENCE = range(7)
"""Kinds of timers, in the order in which they fire at one moment."""


class Slot(Struct, array_like=True, gc=False):
    """A server's slot that a task holds or held.

    Attributes:
        server: Index of the server.
        generation: The server's when the slot was taken: an older one frees nothing.
        state: See ``events.SlotsMoved``, and ``offered``.
        lease: Fencing token.
        until: When the offer or the wrap-up is over.
        decision: Number of the decision that picked it.
        since: When it was taken.
    """

    server: int
    generation: int
    state: str
    lease: int
    until: float
    decision: int
    since: float


class Outcome(Struct, array_like=True, gc=False):
    """The latest revision of what was reported."""

    value: float | None
    revision: int
    late: bool


class Task(Struct, array_like=True):
    """A task and its assignment (one with a task: same number).

    Attributes:
        number: Its number in the pool, from 1.
        task_type: Index of its type.
        k: Servers that it needs.
        created, deadline: Seconds; by the deadline it must be in service.
        external, fingerprint: The caller's name, and a hash of what was asked under it.
        pins, conflicts: Indices of servers.
        context, priority: As given.
        state: See ``answers.TaskBody``.
        slots: In the order of the picks; a refilled one stands behind.
        lease: Present fencing token; ``lease_until``: when the accepted slots are lost.
        started, ended: Seconds.
        decisions: Numbers of its decisions.
        reserved: Indices of servers kept for it.
        outcomes: By server name, "" for the assignment as a whole.
    """

    number: int
    task_type: int
    k: int
    created: float
    deadline: float
    external: str | None
    fingerprint: bytes
    pins: list[int]
    conflicts: list[int]
    context: dict[str, Any]
    priority: float
    state: str = QUEUED
    slots: list[Slot] = []
    lease: int = 0
    lease_until: float = 0.0
    started: float | None = None
    ended: float | None = None
    decisions: list[int] = []
    reserved: list[int] = []
    outcomes: dict[str, Outcome] = {}

    @property
    def n_held(self) -> int:
        """Slots that it holds."""
        return sum(slot.state in HELD for slot in self.slots)

    @property
    def is_short(self) -> bool:
        """Whether it is being offered and holds fewer slots than it needs."""
        return self.state == OFFERING and self.n_held < self.k


class Server(Struct, array_like=True):
    """A server and what is known of it.

    Attributes:
        settings: As declared.
        generation: Grows when it is added again; ``present``: whether it is in the pool.
        strikes: Timed-out, failed or lost slots in a row.
        quarantines: Quarantines since the last completion; ``quarantined_until`` 0 if in none.
        silent: Whether its heartbeat is missing; ``seen``: when the last one came.
        reserved_for: Number of the task that it is kept for, 0 for none.
        hop: Number of its latest arrival here; ``here``: whether it is in this sub-pool.
        to: Where it is to go when it is free, or has gone; "" nowhere (``dealing``).
    """

    settings: ServerSettings
    generation: int = 1
    present: bool = True
    strikes: int = 0
    quarantines: int = 0
    quarantined_until: float = 0.0
    silent: bool = False
    seen: float = 0.0
    reserved_for: int = 0
    hop: int = 0
    here: bool = True
    to: str = ""

    @property
    def takes_tasks(self) -> bool:
        """Whether it may be offered tasks when it has a slot free."""
        return (
            self.present
            and self.here
            and not self.to
            and self.settings.available
            and not self.settings.drain
            and not self.silent
            and not self.quarantined_until
        )


@dataclass(slots=True)
class State:
    """One pool. Arrays have room for more servers and types than there are."""

    pool: str
    settings: PoolSettings | None = None
    clock: float = 0.0
    types: list[TaskTypeSettings] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    score: NDArray[np.float64] = field(default_factory=lambda: np.full((4, 16), np.nan))  # (V, R)
    score_version: int = 0
    plans: dict[str, PlanDocument] = field(default_factory=dict)
    activated: dict[str, float] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    shadow: str | None = None
    made: dict[str, PlanOrigin] = field(default_factory=dict)
    jobs: dict[str, PlanJob] = field(default_factory=dict)
    shadowed: dict[str, ShadowRecord] = field(default_factory=dict)
    arrivals: Arrivals | None = None
    learned: LearnedDocument | None = None
    tasks: dict[int, Task] = field(default_factory=dict)
    ended: deque[int] = field(default_factory=deque)
    decisions: dict[int, bytes] = field(default_factory=dict)
    last_task: int = 0
    last_decision: int = 0
    last_lease: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    reward: float = 0.0
    deal: Deal = field(default_factory=Deal)
    # derived
    type_index: dict[str, int] = field(default_factory=dict)
    server_index: dict[str, int] = field(default_factory=dict)
    external: dict[str, int] = field(default_factory=dict)
    closed: NDArray[np.int64] = field(default_factory=lambda: np.ones(16, dtype=np.int64))
    n_open: list[int] = field(default_factory=list)
    holders: list[dict[int, float]] = field(default_factory=list)
    busy_until: NDArray[np.float64] = field(default_factory=lambda: np.zeros(16))
    ready: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(16, dtype=np.bool_))
    open_slots: int = 0
    short: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)
    queued: dict[int, None] = field(default_factory=dict)
    waiting: WaitingTasks = field(default_factory=WaitingTasks)
    timers: list[tuple[float, int, int]] = field(default_factory=list)
    routing: Routing | None = None
    shadow_routing: Routing | None = None
    kept_routings: list[Kept] = field(default_factory=list)

    @property
    def active_plan(self) -> PlanDocument | None:
        """The plan in force."""
        return self.plans[self.history[-1]] if self.history else None

    @property
    def servers_per_task(self) -> list[int]:
        """(V,) k of each type: its own, else the pool's."""
        return [self.k_of(v) for v in range(len(self.types))]

    def k_of(self, v: int) -> int:
        """How many servers a task of a type needs, unless it says so itself."""
        own = self.types[v].k
        if own is not None:
            return own
        return 1 if self.settings is None else self.settings.k

    @property
    def n_tasks_open(self) -> int:
        """Tasks that are not over."""
        return len(self.tasks) - len(self.ended)


def empty_state(pool: str) -> State:
    """A pool that has not been created yet: only ``PutPool`` can be said to it."""
    return State(pool)


def refresh(state: State, r: int) -> None:
    """Say anew whether server r can be picked."""
    server = state.servers[r]
    ready = server.takes_tasks and not server.reserved_for
    state.ready[r] = ready
    state.closed[r] = not ready or state.n_open[r] >= server.settings.capacity
    if server.to and may_leave(state, r):
        state.leaving.add(r)


def may_leave(state: State, r: int) -> bool:
    """Whether server r is to go elsewhere, and nothing keeps it."""
    server = state.servers[r]
    return server.here and bool(server.to) and not state.n_open[r] and not server.reserved_for


def hold(state: State, r: int, task: Task, wrap_up: float, now: float) -> None:
    """Task ``task`` takes a slot of server r."""
    mean = state.types[task.task_type].mean_duration
    holders = state.holders[r]
    holders[task.number] = math.inf if mean is None else now + mean + wrap_up
    state.busy_until[r] = min(holders.values())
    state.n_open[r] += 1
    state.open_slots += 1
    refresh(state, r)


def let_go(state: State, slot: Slot, number: int) -> None:
    """Task ``number`` gives a slot back, unless the server has been removed since."""
    r = slot.server
    if slot.generation != state.servers[r].generation or not state.servers[r].present:
        return
    holders = state.holders[r]
    del holders[number]
    state.busy_until[r] = min(holders.values(), default=0.0)
    state.n_open[r] -= 1
    state.open_slots -= 1
    refresh(state, r)


def set_timer(state: State, when: float, kind: int, number: int) -> None:
    """Look at a task or server (by number or index) again at a time."""
    heapq.heappush(state.timers, (when, kind, number))
    if len(state.timers) > 64 + 4 * (state.n_tasks_open + len(state.servers)):
        state.timers = list(timers_of(state))
        heapq.heapify(state.timers)


def timers_of(state: State) -> Iterator[tuple[float, int, int]]:
    """The timers that the present state needs; every state that is not final has one."""
    settings = state.settings
    if settings is None:
        return
    for task in state.tasks.values():
        if task.state not in RUNNING:
            continue
        if task.state != IN_SERVICE:
            yield task.deadline, START_ENDS, task.number
        if task.state == QUEUED and settings.reserve_after is not None:
            yield task.created + settings.reserve_after, RESERVES, task.number
        for slot in task.slots:
            if slot.state == OFFERED:
                yield slot.until, OFFER_ENDS, task.number
            elif slot.state == WRAPPING:
                yield slot.until, WRAP_ENDS, task.number
            elif slot.state == ACCEPTED:
                yield task.lease_until, LEASE_ENDS, task.number
    for r, server in enumerate(state.servers):
        if server.quarantined_until:
            yield server.quarantined_until, QUARANTINE_ENDS, r
        if _is_watched(server) and settings.heartbeat_timeout is not None:
            yield server.seen + settings.heartbeat_timeout, SILENCE, r


def _is_watched(server: Server) -> bool:
    return server.present and server.here and not server.silent


def capacity_mismatch(state: State) -> int:
    """Slots by the ledger against slots by the tasks; 0 unless the engine has a fault.

    Counts every server whose number of open slots, holders, reservation or freedom differs from
    what the tasks say, and every server that a task holds twice.
    """
    held: list[list[int]] = [[] for _ in state.servers]
    reserved = [0] * len(state.servers)
    wrong = 0
    for task in state.tasks.values():
        if task.ended is not None:
            continue
        for r in task.reserved:
            wrong += reserved[r] != 0 or task.state != QUEUED
            reserved[r] = task.number
        for slot in task.slots:
            server = state.servers[slot.server]
            if slot.state in HELD and server.present and slot.generation == server.generation:
                held[slot.server].append(task.number)
    for r, server in enumerate(state.servers):
        wrong += len(set(held[r])) != len(held[r])
        wrong += len(held[r]) != state.n_open[r] or sorted(held[r]) != sorted(state.holders[r])
        wrong += reserved[r] != server.reserved_for
        full = len(held[r]) >= server.settings.capacity
        free = server.takes_tasks and not full and not server.reserved_for
        wrong += free != (state.closed[r] == 0)
    wrong += state.open_slots != sum(len(tasks) for tasks in held)
    return wrong + int(np.count_nonzero(state.closed[len(state.servers) :] == 0))
