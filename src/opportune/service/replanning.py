"""Does a pool ask for a new plan by itself, and why? The rules of ``drifting``, with patience."""

from __future__ import annotations

from opportune.service import commands
from opportune.service.drifting import (
    NO_PLAN,
    STALE_PLAN,
    Basis,
    baseline,
    basis_of,
    declared_change,
    rate_drift,
)
from opportune.service.learned import durations_of, rates_of
from opportune.service.plan_jobs import PRICING
from opportune.service.plan_runs import free_name
from opportune.service.resources import PlanDocument, PoolSettings
from opportune.service.state import State

SETTLES = 2.0
"""Seconds for which a change must stand before a plan is made for it: uploads come in pieces."""

AGAIN_AFTER = 60.0
"""Seconds after which the service asks again by itself when no plan came of it."""


class Replanning:
    """What is known of the pools of a node between two looks at them."""

    def __init__(self) -> None:
        self._basis: dict[str, Basis] = {}
        self._tested: dict[str, int] = {}
        self._changed: dict[str, float] = {}

    def forget(self, pool: str) -> None:
        """The pool is looked at no more."""
        for kept in (self._basis, self._tested, self._changed):
            kept.pop(pool, None)

    def made_from(self, pool: str, basis: Basis) -> None:
        """What the pool's newest plan was made from."""
        self._basis[pool] = basis

    def wanted(self, state: State, now: float) -> commands.RequestPlan | None:
        """The plan that a pool should ask for now, if any.

        Args:
            state: The pool.
            now: Seconds of its clock.
        """
        settings = state.settings
        if settings is None or settings.replan == "off" or _is_asked_for(state, now):
            return None
        reason = self._reason(state, settings, now)
        if not reason:
            return None
        self._changed.pop(state.pool, None)
        return commands.RequestPlan(
            plan=free_name(state, "replan"),
            then="shadow" if settings.replan == "shadow" and state.history else "active",
            rates="declared" if reason == NO_PLAN else "measured",
            reason=reason,
        )

    def _reason(self, state: State, settings: PoolSettings, now: float) -> str:
        """Why the pool should have a new plan; empty if it should not."""
        plan = baseline(state)
        found = self._change(state, plan, settings.replan_change)
        if found:
            since = self._changed.setdefault(state.pool, now)
            return found if now - since >= SETTLES else ""
        self._changed.pop(state.pool, None)
        if plan is None:
            return ""
        age = now - max(state.made[plan.id].created, state.activated.get(plan.id, 0.0))
        stale = STALE_PLAN if age > settings.plan_max_age else ""
        return self._drift(state, plan, settings.replan_change, now) or stale

    def _change(self, state: State, plan: PlanDocument | None, least: float) -> str:
        """What was declared since the plan was made, or that there is none and could be."""
        if plan is None:
            can = state.types and None not in rates_of(state) + durations_of(state)
            return NO_PLAN if can and any(one.present for one in state.servers) else ""
        basis = self._basis.get(state.pool)
        known = basis if basis is not None and basis.plan == plan.id else None
        found = declared_change(state, plan, known, least)
        if known is None and not found:  # after a restart: what changes from now on counts
            self._basis[state.pool] = basis_of(state, plan.id)
        return found

    def _drift(self, state: State, plan: PlanDocument, least: float, now: float) -> str:
        """Whether tasks come at other rates than planned; tested once for each bucket of counts."""
        bucket = 0 if state.arrivals is None else int(now // state.arrivals.width)
        if self._tested.get(state.pool) == bucket:
            return ""
        self._tested[state.pool] = bucket
        return rate_drift(state, plan, now, least)


def _is_asked_for(state: State, now: float) -> bool:
    """Whether the service has asked by itself, and nothing came of it yet or only lately."""
    return any(
        job.reason and (job.state == PRICING or now - (job.ended or now) < AGAIN_AFTER)
        for job in state.jobs.values()
    )
