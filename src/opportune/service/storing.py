"""A pool as bytes and back, and its hash.

A snapshot holds what was declared and what happened; what follows from it is built again. It
belongs to a version of this program's structures: :func:`restore` refuses unknown ones, and the
journal's events, which stay readable for ever, bring the state back.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import deque

import msgspec
import numpy as np
from msgspec import Struct

from opportune.errors import InputError, Problem
from opportune.service.arrivals import Arrivals
from opportune.service.dealing_records import Deal
from opportune.service.plan_jobs import PlanJob, PlanOrigin
from opportune.service.resources import (
    Array,
    LearnedDocument,
    PlanDocument,
    PoolSettings,
    TaskTypeSettings,
)
from opportune.service.settling import NAME_IS_FREE, rebuild_ledger, rebuild_waiting
from opportune.service.shadowing import ShadowRecord
from opportune.service.state import Server, State, Task, timers_of

VERSION = 3
"""Grows with every change of the structures in a snapshot."""

READABLE = (2, VERSION)
"""Versions that can be read: in 2 all plans are whole."""


class _Snapshot(Struct, array_like=True):
    """The part of a state that is not derived."""

    version: int
    pool: str
    settings: PoolSettings | None
    clock: float
    types: list[TaskTypeSettings]
    servers: list[Server]
    score: Array
    score_version: int
    plans: list[PlanDocument]
    activated: dict[str, float]
    history: list[str]
    shadow: str | None
    made: dict[str, PlanOrigin]
    jobs: dict[str, PlanJob]
    shadowed: dict[str, ShadowRecord]
    arrivals: Arrivals | None
    learned: LearnedDocument | None
    tasks: list[Task]
    ended: list[int]
    decisions: dict[int, bytes]
    last: tuple[int, int, int]
    counts: dict[str, int]
    reward: float
    deal: Deal = Deal()


class _Version(Struct, array_like=True):
    """The first field of a snapshot of any version."""

    version: int


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Snapshot)
_VERSION = msgspec.msgpack.Decoder(_Version)


def snapshot(state: State) -> bytes:
    """The whole pool; equal states give equal bytes."""
    shape = (len(state.types), len(state.servers))
    return _ENCODER.encode(
        _Snapshot(
            version=VERSION,
            pool=state.pool,
            settings=state.settings,
            clock=state.clock,
            types=state.types,
            servers=state.servers,
            score=Array.of(state.score[: shape[0], : shape[1]]),
            score_version=state.score_version,
            plans=[_without_parts(state, plan) for plan in state.plans.values()],
            activated=state.activated,
            history=state.history,
            shadow=state.shadow,
            made=state.made,
            jobs=state.jobs,
            shadowed=state.shadowed,
            arrivals=state.arrivals,
            learned=state.learned,
            tasks=list(state.tasks.values()),
            ended=list(state.ended),
            decisions=state.decisions,
            last=(state.last_task, state.last_decision, state.last_lease),
            counts=state.counts,
            reward=state.reward,
            deal=state.deal,
        )
    )


def _without_parts(state: State, plan: PlanDocument) -> PlanDocument:
    """A plan as it is written: without tables where the journal has them in parts."""
    origin = state.made.get(plan.id)
    return plan if origin is None or not origin.parts else plan.without_tables()


def state_hash(state: State) -> str:
    """SHA-256 of the snapshot: the same events give the same hash."""
    return hashlib.sha256(snapshot(state)).hexdigest()


def restore(data: bytes) -> State:
    """The state of a snapshot; plans in parts have no tables yet (``plan_parts.join_plans``).

    Raises:
        InputError: If it is no snapshot, or one of another version of the structures.
    """
    try:
        found = _VERSION.decode(data).version
        if found not in READABLE:
            remedy = "read the journal from its start instead"
            raise InputError(Problem("snapshot", f"version {found}", f"version {VERSION}", remedy))
        stored = _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise InputError(Problem("snapshot", str(error), "a snapshot of a pool")) from error
    state = State(
        stored.pool,
        stored.settings,
        stored.clock,
        stored.types,
        stored.servers,
        score_version=stored.score_version,
        plans={plan.id: plan for plan in stored.plans},
        activated=stored.activated,
        history=stored.history,
        shadow=stored.shadow,
        made=stored.made,
        jobs=stored.jobs,
        shadowed=stored.shadowed,
        arrivals=stored.arrivals,
        learned=stored.learned,
        tasks={task.number: task for task in stored.tasks},
        ended=deque(stored.ended),
        decisions=stored.decisions,
        counts=stored.counts,
        reward=stored.reward,
        deal=stored.deal,
    )
    state.last_task, state.last_decision, state.last_lease = stored.last
    n_types, n_servers = len(state.types), len(state.servers)
    state.score = np.full((max(n_types, 4), max(n_servers, 16)), np.nan)
    state.score[:n_types, :n_servers] = stored.score.numpy()
    _derive(state)
    return state


def _derive(state: State) -> None:
    """Fill in everything that follows from what is stored."""
    state.type_index = {settings.id: v for v, settings in enumerate(state.types)}
    state.server_index = {server.settings.id: r for r, server in enumerate(state.servers)}
    for task in state.tasks.values():
        if task.external is not None and task.state not in NAME_IS_FREE:
            state.external[task.external] = task.number
        if task.is_short:
            state.short.add(task.number)
    rebuild_ledger(state)
    rebuild_waiting(state)
    state.timers = list(timers_of(state))
    heapq.heapify(state.timers)
