"""From a pool to the order of its servers: the active plan, or what stands in for one.

Order of fallback (by task type): the active plan, however old; a plan priced from the priors; the
servers by score, ties at random; any servers. The pool's setting ``fallback`` takes some of them
out. Servers that a plan does not know follow its own, by score. All of it is work-conserving: every
permitted server is in the order.

The latest routings are kept with all that they follow from, so that putting a plan in force, or
the one before it back, costs no decision the time to build them: the planner and the learner build
them beforehand (:func:`keep_routings`, :func:`keep_learned`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, SAMPLE, PlanTables
from opportune.kernels.live import explained_of
from opportune.policies.base import EQUAL
from opportune.service.learned import in_force, scores_of, upper_of, weights_of
from opportune.service.resources import LearnedDocument, PlanDocument, TaskTypeSettings
from opportune.service.routing import GREEDY, PRIORS, RANDOM, Kept, Routing
from opportune.service.state import Server, State

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Chain = Sequence[tuple[PlanDocument, str]]
"""Plans in the order in which they are asked for a task type, each with why it is a stand-in."""

ACTIVE, SHADOW = "active", "shadow"
"""Two routings are never one, even of the same plan: each has a place that the kernel writes to."""

MOST_KEPT = 3
"""Routings that are kept: in force, in the shadow, in force before."""


@dataclass(frozen=True)
class _KnownPlan:
    """A plan's arrays, and its numbering in the pool's: -1 for what the pool does not have."""

    document: PlanDocument
    order: NDArray[np.uint32]
    level: NDArray[np.int32]
    n_allowed: NDArray[np.int32]
    weight: Float
    index: Float
    pair_mean: Float | None
    server: Int
    task_type: dict[str, int]
    degraded: str


@dataclass
class _Rows:
    """The routing's arrays while they are filled, (V, R) or (V, H, R)."""

    order: NDArray[np.uint32]
    level: NDArray[np.int32]
    weight: Float
    index: Float
    cost: Float
    capacity_price: Float
    demand_price: Float
    mean_duration: Float
    rules: set[int]


def routing_of(state: State) -> Routing:
    """The pool's routing, from memory or built anew."""
    routing = state.routing
    if routing is None or routing.passes_stale != passes_stale(state):
        routing = state.routing = _kept_or_built(state, ACTIVE, _chain(state))
    return routing


def shadow_of(state: State) -> Routing | None:
    """The routing of the plan that decides beside the active one, if there is one."""
    if state.shadow is not None and state.shadow_routing is None:
        chain = [(state.plans[state.shadow], "")]
        state.shadow_routing = _kept_or_built(state, SHADOW, chain)
    return state.shadow_routing


def passes_stale(state: State) -> bool:
    """Whether the active plan is stale and the pool does not want it then."""
    settings = state.settings
    if settings is None or "stale" in settings.fallback or not state.history:
        return False
    return state.clock - state.activated[state.history[-1]] > settings.plan_max_age


def keep_routings(state: State, plan: PlanDocument) -> list[Kept]:
    """The routings of a new plan, in force and in the shadow; in any thread, on a copy of the pool.

    Args:
        state: The pool's copy with its plans; it is changed.
        plan: The plan, not stored yet.
    """
    state.plans[plan.id] = plan
    state.history = [*state.history, plan.id]
    state.activated[plan.id] = state.clock
    state.kept_routings = []
    _kept_or_built(state, SHADOW, [(plan, "")])
    _kept_or_built(state, ACTIVE, _chain(state))
    return state.kept_routings


def keep_learned(state: State, learned: LearnedDocument) -> list[Kept]:
    """The routings of a publication, in force and in the shadow; as :func:`keep_routings`.

    Args:
        state: The pool's copy with its plans; it is changed.
        learned: The publication, not stored yet.
    """
    state.learned = learned
    state.kept_routings = []
    shadow_of(state)
    routing_of(state)
    return state.kept_routings


def _kept_or_built(state: State, role: str, chain: Chain) -> Routing:
    made_from = _made_from(state, role, chain)
    for kept in state.kept_routings:
        if kept.made_from == made_from:
            return kept.routing
    known = [_known(state, plan, degraded) for plan, degraded in chain]
    routing = replace(_build(state, known), passes_stale=role == ACTIVE and passes_stale(state))
    state.kept_routings = [*state.kept_routings[1 - MOST_KEPT :], Kept(made_from, routing)]
    return routing


def _made_from(state: State, role: str, chain: Chain) -> tuple[Any, ...]:
    """All that a routing follows from. Plans do not change under their id while they are stored."""
    settings = state.settings
    return (
        role,
        [(plan.id, degraded) for plan, degraded in chain],
        [plan for plan, _ in chain],
        role == ACTIVE and passes_stale(state),
        None if settings is None else (settings.missing_score, settings.fallback, settings.learner),
        state.score_version,
        in_force(state),
        list(state.types),
        [
            (server.present, server.settings.id, server.settings.attributes)
            for server in state.servers
        ],
    )


def permitted(state: State) -> NDArray[np.bool_]:
    """(V, R) which server may serve which type: it is there, eligible and scored."""
    n_types, n_servers = len(state.types), len(state.servers)
    allowed = np.zeros((n_types, n_servers), dtype=np.bool_)
    score = state.score[:n_types, :n_servers]
    forbid = state.settings is not None and state.settings.missing_score == "forbid"
    present = np.array([server.present for server in state.servers], dtype=np.bool_)
    for v, settings in enumerate(state.types):
        if settings.eligible is None and not settings.requires:
            allowed[v] = present
        else:
            allowed[v] = [_is_eligible(settings, server) for server in state.servers]
        scored = ~np.isnan(score[v])
        if forbid and scored.any():
            allowed[v] &= scored
    return allowed


def _is_eligible(settings: TaskTypeSettings, server: Server) -> bool:
    own = server.settings
    return (
        server.present
        and (settings.eligible is None or own.id in settings.eligible)
        and all(own.attributes.get(name) in values for name, values in settings.requires.items())
    )


def _build(state: State, plans: list[_KnownPlan]) -> Routing:
    n_types, n_servers = len(state.types), len(state.servers)
    allowed = permitted(state)
    known = scores_of(state)
    scored: NDArray[np.bool_] = np.any(~np.isnan(known), axis=1)
    score = np.where(np.isnan(known) & scored[:, None], 0.0, known)
    levels = max([plan.order.shape[1] for plan in plans], default=1)
    rows = _empty_rows(n_types, levels, n_servers)
    chosen: list[str | None] = []
    degraded: list[str] = []
    by_score = state.settings is None or "scores" in state.settings.fallback
    for v, settings in enumerate(state.types):
        plan = next((plan for plan in plans if settings.id in plan.task_type), None)
        if plan is None:
            ranked = bool(scored[v]) and by_score
            order, level = _by_score(allowed[v], score[v] if ranked else np.zeros(n_servers))
            rows.order[v, :, : len(order)] = order
            rows.level[v, :, : len(order)] = level
            rows.index[v] = score[v]
            rows.rules.add(PRIORITY_TIES)
            degraded.append(GREEDY if ranked else RANDOM)
        else:
            _follow(plan, v, plan.task_type[settings.id], (allowed[v], score[v]), rows)
            degraded.append(plan.degraded)
        chosen.append(None if plan is None else plan.document.id)
    rule = max(rows.rules, default=PRIORITY)
    floor = 0.0 if state.settings is None else state.settings.learner.floor
    n_permitted = allowed.sum(axis=1)
    return Routing(
        tables=PlanTables(
            order=rows.order,
            level=rows.level,
            n_allowed=n_permitted.astype(np.int32),
            weight=rows.weight if rule == SAMPLE else np.zeros((n_types, 0)),
            rule=rule,
        ),
        score=score,
        index=rows.index,
        cost=rows.cost,
        capacity_price=rows.capacity_price,
        demand_price=rows.demand_price,
        mean_duration=rows.mean_duration,
        allowed=allowed,
        n_permitted=n_permitted.tolist(),
        plan=chosen,
        degraded=degraded,
        explained=explained_of(n_servers),
        explorable=None if floor <= 0.0 else upper_of(state) >= floor,
        weight=weights_of(state),
    )


def _empty_rows(n_types: int, levels: int, n_servers: int) -> _Rows:
    pairs = (n_types, n_servers)
    return _Rows(
        order=np.zeros((n_types, levels, n_servers), dtype=np.uint32),
        level=np.zeros((n_types, levels, n_servers), dtype=np.int32),
        weight=np.zeros(pairs),
        index=np.full(pairs, np.nan),
        cost=np.full(pairs, np.nan),
        capacity_price=np.full(pairs, np.nan),
        demand_price=np.full(n_types, np.nan),
        mean_duration=np.full(n_types, np.nan),
        rules=set(),
    )


def _chain(state: State) -> Chain:
    """The active plan, then the latest one priced from the priors, if the pool wants them."""
    found = []
    active = state.active_plan
    if active is not None and not passes_stale(state):
        found.append((active, PRIORS if active.source == "priors" else ""))
    priors = [plan for plan in state.plans.values() if plan.source == "priors"]
    wanted = state.settings is None or "priors" in state.settings.fallback
    if priors and wanted and priors[-1] is not active:
        found.append((priors[-1], PRIORS))
    return found


def _known(state: State, plan: PlanDocument, degraded: str) -> _KnownPlan:
    server = [state.server_index.get(name, -1) for name in plan.servers]
    return _KnownPlan(
        document=plan,
        order=plan.order.numpy(),
        level=plan.level.numpy(),
        n_allowed=plan.n_allowed.numpy(),
        weight=plan.weight.numpy(),
        index=plan.index.numpy(),
        pair_mean=None if plan.pair_mean is None else plan.pair_mean.numpy(),
        server=np.array(server, dtype=np.int64),
        task_type={name: v for v, name in enumerate(plan.task_types)},
        degraded=degraded,
    )


def _by_score(allowed: NDArray[np.bool_], score: Float) -> tuple[Int, Int]:
    """Permitted servers by score descending, equal ones tied; without scores all tied."""
    servers = np.flatnonzero(allowed)
    value = np.nan_to_num(score[servers], nan=0.0)
    by_value = np.argsort(-value, kind="stable")
    ordered = value[by_value]
    apart = ordered[1:] < ordered[:-1] - EQUAL * np.abs(ordered[:-1])
    level = np.concatenate([[0], np.cumsum(apart)])[: len(servers)]
    return servers[by_value], level


def _follow(
    plan: _KnownPlan,
    v: int,
    own: int,
    pairs: tuple[NDArray[np.bool_], Float],
    rows: _Rows,
) -> None:
    """Fill row v by row ``own`` of a plan; ``pairs`` is (allowed (R,), score (R,)) of type v."""
    allowed, score = pairs
    document = plan.document
    listed = plan.server >= 0
    servers = plan.server[listed]
    rows.index[v, servers] = np.where(
        np.isfinite(plan.index[own, listed]), plan.index[own, listed], np.nan
    )
    if document.capacity_price:
        price = np.array(document.capacity_price)[listed]
        mean, demand_price = document.mean_duration[own], document.demand_price[own]
        rows.capacity_price[v, servers] = price
        pair_mean = mean if plan.pair_mean is None else plan.pair_mean[own, listed]
        rows.cost[v, servers] = demand_price + pair_mean * price
        rows.demand_price[v], rows.mean_duration[v] = demand_price, mean
    if document.rule == SAMPLE:
        rows.weight[v, servers] = plan.weight[own, listed]
    rows.rules.add(document.rule)
    n = int(plan.n_allowed[own])
    for h in range(rows.order.shape[1]):
        at = min(h, plan.order.shape[1] - 1)
        if h > at:
            rows.order[v, h], rows.level[v, h] = rows.order[v, at], rows.level[v, at]
            continue
        order = plan.server[plan.order[own, at, :n]]
        kept = order >= 0
        kept[kept] = allowed[order[kept]]
        level = np.arange(n) if document.rule == PRIORITY else plan.level[own, at, :n]
        order, level = order[kept], level[kept]
        if len(order) < int(allowed.sum()):
            rest = allowed.copy()
            rest[order] = False
            others, their_level = _by_score(rest, score)
            order = np.concatenate([order, others])
            above = int(level[-1]) + 1 if len(level) else 0
            level = np.concatenate([level, above + their_level])
            if len(np.unique(their_level)) < len(their_level):
                rows.rules.add(PRIORITY_TIES)
        rows.order[v, h, : len(order)] = order
        rows.level[v, h, : len(order)] = level
