"""Events of plans: asked for, stored, in the shadow, in force (``applying`` for all others)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opportune.service import events
from opportune.service.arrivals import BUCKETS, new_arrivals
from opportune.service.plan_jobs import KEPT_JOBS, PRICING, PlanJob, PlanOrigin
from opportune.service.settling import count
from opportune.service.shadowing import new_record
from opportune.service.state import State

KEPT_PLANS = 16
"""Plans that stay stored; the active one and the one before it always do."""


def count_arrivals(state: State, window: float) -> None:
    """Count arrivals over a window from now on, unless that is done already."""
    if state.arrivals is None or state.arrivals.width * BUCKETS != window:
        state.arrivals = new_arrivals(window, state.clock)


def shadow_decided(state: State, event: events.Offered) -> None:
    """A shadow plan was asked as well."""
    why = event.why
    differed = {pick.server for pick in event.picks} != set(why.shadow_picks)
    count(state, "shadow_differed" if differed else "shadow_agreed")
    record = None if why.shadow is None else state.shadowed.get(why.shadow)
    if record is not None and not why.explored:  # a draw at random speaks for no plan
        record.note(differed, why.shadow_gain)


def _plan_requested(state: State, event: events.PlanRequested) -> None:
    state.jobs.pop(event.plan, None)
    state.jobs[event.plan] = PlanJob(
        event.policy,
        event.then,
        event.rates,
        event.reason,
        event.seconds,
        event.key,
        event.time,
    )
    ended = [name for name, job in state.jobs.items() if job.state != PRICING]
    for name in ended[: max(len(ended) - KEPT_JOBS, 0)]:
        del state.jobs[name]
    if event.reason:
        count(state, "replanned")


def _plan_started(state: State, event: events.PlanStarted) -> None:
    state.jobs[event.plan].starts += 1


def _plan_ended(state: State, event: events.PlanEnded) -> None:
    job = state.jobs[event.plan]
    job.state, job.detail, job.ended = event.state, event.detail, event.time


def _plan_put(state: State, event: events.PlanPut) -> None:
    state.plans[event.plan.id] = event.plan
    job = state.jobs.pop(event.plan.id, None)
    key = "" if job is None else job.key
    state.made[event.plan.id] = PlanOrigin(event.time, event.reason, key, event.parts)
    kept = {*state.history[-2:], state.shadow}
    for name in list(state.plans):
        if len(state.plans) <= KEPT_PLANS:
            break
        if name not in kept and name != event.plan.id:
            del state.plans[name]
            for kept_of_it in (state.activated, state.made, state.shadowed):
                kept_of_it.pop(name, None)
            state.history = [other for other in state.history if other != name]
    state.routing = state.shadow_routing = None


def _plan_activated(state: State, event: events.PlanActivated) -> None:
    before = state.history[-1] if state.history else None
    if event.rollback:
        state.history.pop()
    else:
        if before != event.plan:
            state.history = [*state.history[1 - KEPT_PLANS :], event.plan]
        state.activated[event.plan] = event.time
    state.routing = state.shadow_routing = None
    if before != event.plan and state.shadow is not None:  # it is compared with another one now
        state.shadowed[state.shadow] = new_record(event.plan, event.time)


def _plan_shadowed(state: State, event: events.PlanShadowed) -> None:
    if state.shadow is not None and state.shadow in state.shadowed:
        state.shadowed[state.shadow].until = event.time
    state.shadow = event.plan
    state.shadow_routing = None
    if event.plan is not None:
        against = state.history[-1] if state.history else None
        state.shadowed[event.plan] = new_record(against, event.time)


APPLY: dict[type, Callable[[State, Any], None]] = {
    events.PlanRequested: _plan_requested,
    events.PlanStarted: _plan_started,
    events.PlanEnded: _plan_ended,
    events.PlanPut: _plan_put,
    events.PlanActivated: _plan_activated,
    events.PlanShadowed: _plan_shadowed,
}
