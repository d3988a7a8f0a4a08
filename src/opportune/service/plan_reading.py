"""Reading plans of a pool, those on their way included. Nothing here changes anything."""

from __future__ import annotations

import msgspec

from opportune.service.plan_bodies import (
    EstimateBody,
    PlanBody,
    PlanDetail,
    Progress,
    ShadowBody,
)
from opportune.service.plan_jobs import PRICING
from opportune.service.shadowing import BatchMeans, ShadowRecord, verdict
from opportune.service.state import State

WAITING = Progress(step="waiting", gap=None, seconds=0.0)
"""Of a plan that nobody has begun to price."""


def plan_bodies(state: State) -> list[PlanBody]:
    """All plans, oldest first: the stored ones, then those on their way or come to nothing."""
    return [plan_of(state, name) for name in (*state.plans, *state.jobs)]


def plan_of(state: State, name: str) -> PlanBody:
    """A plan that is stored or was asked for."""
    plan = state.plans.get(name)
    if plan is None:
        return _job_of(state, name)
    active, shadow = bool(state.history) and state.history[-1] == name, state.shadow == name
    origin, record = state.made.get(name), state.shadowed.get(name)
    return PlanBody(
        id=plan.id,
        policy=plan.policy,
        state="active" if active else "shadow" if shadow else "draft",
        source=plan.source,
        bound=plan.bound,
        gap=plan.gap,
        note=plan.note,
        active=active,
        shadow=shadow,
        created_at=None if origin is None else origin.created,
        activated_at=state.activated.get(name),
        reason="" if origin is None else origin.reason,
        in_shadow=None if record is None else shadow_body(record),
    )


def _job_of(state: State, name: str) -> PlanBody:
    job = state.jobs[name]
    return PlanBody(
        id=name,
        policy=job.policy,
        state=job.state,
        source="",
        bound=None,
        gap=None,
        note="",
        active=False,
        shadow=False,
        created_at=job.requested,
        activated_at=None,
        reason=job.reason,
        detail=job.detail,
        progress=WAITING if job.state == PRICING else None,
    )


def plan_detail(state: State, name: str) -> PlanDetail | None:
    """A plan with its tables; None if there is none."""
    if name not in state.plans and name not in state.jobs:
        return None
    body = plan_of(state, name)
    fields = {field: getattr(body, field) for field in body.__struct_fields__}
    return PlanDetail(**fields, document=state.plans.get(name))


def with_progress(body: PlanBody, progress: Progress | None) -> PlanBody:
    """The same with how far pricing is."""
    if progress is None or body.state != PRICING:
        return body
    return msgspec.structs.replace(body, progress=progress)


def shadow_body(record: ShadowRecord) -> ShadowBody:
    """What came of a stay in the shadow so far."""
    n = record.decisions
    return ShadowBody(
        against=record.against,
        since=record.since,
        until=record.until,
        decisions=n,
        disagreement=record.differed / n if n else None,
        score=_estimate(record.score),
        at_active_prices=_estimate(record.at_active),
        at_shadow_prices=_estimate(record.at_shadow),
        verdict=verdict(record),
    )


def _estimate(series: BatchMeans) -> EstimateBody:
    return EstimateBody(mean=series.mean, half_width=series.half_width, decisions=series.n)
