"""Ranking without storage: for callers that keep their own state of who is free."""

from __future__ import annotations

import numpy as np

from opportune.kernels.allocate import Task as KernelTask
from opportune.kernels.live import pick_explained
from opportune.service.answers import Answer, Complaint, RankBody, RankedServer
from opportune.service.commands import RankRequest
from opportune.service.deciding import degraded_now, known
from opportune.service.ordering import routing_of
from opportune.service.routing import Routing
from opportune.service.state import State
from opportune.service.turn import Turn, Words


def rank(state: State, request: RankRequest, now: float, draws: Words) -> Answer:
    """Rank candidates for a task; the first k are what the pool would choose among them.

    With own ``scores`` the order is by these minus the plan's opportunity cost; otherwise it is
    the plan's, with ties and samples resolved by ``draws`` for the first k.
    """
    problem = _problem(state, request)
    if problem is not None or state.settings is None:
        return Answer(events=[], problem=problem)
    routing = routing_of(state)
    v = state.type_index[request.task_type]
    k = request.k if request.k is not None else state.k_of(v)
    n = len(state.servers)
    excluded: list[str] = []
    scores: dict[int, float] = {}
    if request.candidates is None:
        candidates = np.flatnonzero((state.closed[:n] == 0) & routing.allowed[v]).tolist()
    else:
        candidates = []
        for i, name in enumerate(request.candidates):
            r = state.server_index.get(name, -1)
            if r < 0 or not routing.allowed[v, r]:
                excluded.append(name)
                continue
            candidates.append(r)
            if request.scores is not None:
                scores[r] = request.scores[i]
    if request.scores is not None:
        ranked = _by_own_scores(routing, v, candidates, scores)
    else:
        turn = Turn(state, state.settings, now, draws)
        ranked = _by_plan(turn, routing, v, candidates, min(k, len(candidates)))
    return Answer(
        events=[],
        body=RankBody(
            task_type=request.task_type,
            k=k,
            servers=[_ranked(state, routing, v, r, p, scores.get(r)) for r, p in ranked],
            excluded=excluded,
            plan=routing.plan[v],
            degraded=degraded_now(state, routing, v, max(now, state.clock)),
        ),
    )


def _problem(state: State, request: RankRequest) -> Complaint | None:
    if state.settings is None:
        return Complaint(code="not-found", field="pool", detail=f"there is no pool {state.pool!r}")
    if request.task_type not in state.type_index:
        told = f"there is no task type {request.task_type!r}"
        return Complaint(code="not-found", field="task_type", detail=told)
    candidates = request.candidates
    if candidates is not None and len(set(candidates)) != len(candidates):
        return Complaint(
            code="invalid", field="candidates", detail="a candidate stands there twice"
        )
    if request.scores is not None and (
        candidates is None or len(request.scores) != len(candidates)
    ):
        told = f"{len(request.scores)} scores for {len(candidates or [])} candidates"
        return Complaint(code="invalid", field="scores", detail=told, remedy="give one for each")
    return None


def _by_plan(
    turn: Turn, routing: Routing, v: int, candidates: list[int], k: int
) -> list[tuple[int, float]]:
    """The pool's choice of k, then the other candidates in the plan's order."""
    if not candidates:
        return []
    closed = np.ones(len(turn.state.closed), dtype=np.int64)
    closed[candidates] = 0
    headcount = turn.state.open_slots // k
    level = min(headcount, routing.tables.order.shape[1] - 1)
    explained = routing.explained
    pick_explained(routing.tables, closed, KernelTask(0, v, level, k), turn.draw(k), explained)
    picks = explained.picks[:k].tolist()
    chances = explained.propensity[:k].tolist()
    closed[picks] = 1
    order = routing.tables.order[v, level, : routing.n_permitted[v]]
    others = order[closed[order] == 0].tolist()
    return [*zip(picks, chances, strict=True), *((r, 0.0) for r in others)]


def _by_own_scores(
    routing: Routing, v: int, candidates: list[int], scores: dict[int, float]
) -> list[tuple[int, float]]:
    """By own score minus opportunity cost; equal ones in the order of the request."""
    cost = np.nan_to_num(routing.cost[v], nan=0.0)
    ordered = sorted(candidates, key=lambda r: -(scores[r] - cost[r]))
    return [(r, 1.0) for r in ordered]


def _ranked(
    state: State, routing: Routing, v: int, r: int, propensity: float, score: float | None
) -> RankedServer:
    cost = known(routing.cost[v, r])
    index = known(routing.index[v, r])
    if score is not None:
        index = score - (0.0 if cost is None else cost)
    return RankedServer(
        id=state.servers[r].settings.id,
        index=index,
        score=known(routing.score[v, r]) if score is None else score,
        opportunity_cost=cost,
        propensity=propensity,
    )
