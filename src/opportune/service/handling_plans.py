"""Commands about plans: ask for one, store it, into the shadow, in force, back."""

from __future__ import annotations

from opportune.service.commands import (
    ActivatePlan,
    EndPlan,
    PutPlan,
    RequestPlan,
    RollbackPlan,
    ShadowPlan,
    StartPlan,
)
from opportune.service.events import (
    PlanActivated,
    PlanEnded,
    PlanPut,
    PlanRequested,
    PlanShadowed,
    PlanStarted,
)
from opportune.service.filling import free_all
from opportune.service.plan_checks import plan_problem
from opportune.service.plan_jobs import CANCELED, FAILED, MOST_STARTS, PRICING, PlanJob
from opportune.service.plan_reading import plan_of
from opportune.service.refusing import Refused, Reply, check_name, refused
from opportune.service.state import State
from opportune.service.turn import Turn

GIVEN_UP = "the service ended every time while it was being priced"

MOST_PRICING = 16
"""Plans of a pool that may be asked for at once."""


def request_plan(turn: Turn, command: RequestPlan) -> Reply:
    """Let a plan be made; the planner sees the job and begins.

    Raises:
        Refused: If there is such a plan or job, the name is not valid, or too many are being
            priced.
    """
    state, name = turn.state, command.plan
    if name in state.plans or (name in state.jobs and state.jobs[name].state == PRICING):
        raise Refused("conflict", "id", f"there is a plan {name!r} already", "ask for another id")
    check_name("id", name)
    if sum(job.state == PRICING for job in state.jobs.values()) >= MOST_PRICING:
        told = f"{MOST_PRICING} plans are being made already"
        raise Refused("conflict", "plan", told, "wait for one of them, or cancel it")
    turn.emit(
        PlanRequested(
            time=turn.now,
            plan=name,
            policy=command.policy,
            then=command.then,
            rates=command.rates,
            reason=command.reason,
            seconds=command.seconds,
            key=command.key,
        )
    )
    return Reply(body=lambda: plan_of(state, name), waiting=True)


def start_plan(turn: Turn, command: StartPlan) -> Reply:
    """Pricing begins, unless it has begun so often that something must be wrong.

    Raises:
        Refused: If no such plan is being priced.
    """
    state, name = turn.state, command.plan
    if _pricing(state, name).starts >= MOST_STARTS:
        turn.emit(PlanEnded(time=turn.now, plan=name, state=FAILED, detail=GIVEN_UP))
    else:
        turn.emit(PlanStarted(time=turn.now, plan=name))
    return Reply(body=lambda: plan_of(state, name))


def end_plan(turn: Turn, command: EndPlan) -> Reply:
    """No plan comes of a request.

    Raises:
        Refused: If no such plan is being priced, unless it was canceled already.
    """
    state, name = turn.state, command.plan
    job = state.jobs.get(name)
    ended = CANCELED if command.detail is None else FAILED
    repeated = job is not None and job.state == ended == CANCELED
    if not repeated:
        _pricing(state, name)
        detail = command.detail or ""
        turn.emit(PlanEnded(time=turn.now, plan=name, state=ended, detail=detail))
    return Reply(body=lambda: plan_of(state, name), repeated=repeated)


def _pricing(state: State, name: str) -> PlanJob:
    """The job of a plan that is being priced.

    Raises:
        Refused: If there is none.
    """
    job = state.jobs.get(name)
    if job is None and name not in state.plans:
        raise Refused("not-found", "plan", f"there is no plan {name!r}", "ask for one")
    if job is None or job.state != PRICING:
        told = "is there" if job is None else f"has {job.state}" if job.state == FAILED else "ended"
        raise Refused("conflict", "plan", f"plan {name!r} {told}: it is not being priced")
    return job


def put_plan(turn: Turn, command: PutPlan) -> Reply:
    """Store a plan, and put it in force, or in the shadow, if asked to.

    Raises:
        Refused: If there is another plan of that name, the name is not valid, or the plan does not
            fit the pool.
    """
    state, plan = turn.state, command.plan
    known = state.plans.get(plan.id)
    if known is not None and known != plan:
        raise Refused("conflict", "plan", f"plan {plan.id!r} exists with other content", "new id")
    problem = plan_problem(plan) if known is None and not command.checked else None
    if problem is not None:
        raise refused(problem)
    if known is None:
        check_name("id", plan.id)
        put = PlanPut(time=turn.now, plan=plan, reason=command.reason, parts=command.parts)
        turn.emit(put)
    active = bool(state.history) and state.history[-1] == plan.id
    activates = command.activate and not active
    if activates:
        _put_in_force(turn, plan.id)
    shadows = command.shadow and state.shadow != plan.id and _may_be_shadowed(state, command)
    if shadows:
        turn.emit(PlanShadowed(time=turn.now, plan=plan.id))
    if known is None or activates:
        free_all(turn)
    return Reply(
        body=lambda: plan_of(state, plan.id),
        created=known is None,
        repeated=known is not None and not activates and not shadows,
    )


def _may_be_shadowed(state: State, command: PutPlan) -> bool:
    """A plan that the service made by itself does not drive out a shadow that somebody chose."""
    if not command.reason or state.shadow is None:
        return True
    return bool(state.made[state.shadow].reason)


def _put_in_force(turn: Turn, name: str) -> None:
    """A plan decides from now; it is not its own shadow."""
    if turn.state.shadow == name:
        turn.emit(PlanShadowed(time=turn.now, plan=None))
    turn.emit(PlanActivated(time=turn.now, plan=name, rollback=False))


def activate_plan(turn: Turn, command: ActivatePlan) -> Reply:
    """Put a stored plan in force; the active one again is fresh again.

    Raises:
        Refused: If there is no such plan, or not yet.
    """
    state = turn.state
    _stored(state, command.plan)
    again = bool(state.history) and state.history[-1] == command.plan
    _put_in_force(turn, command.plan)
    if not again:
        free_all(turn)
    return Reply(body=lambda: plan_of(state, command.plan))


def rollback_plan(turn: Turn, command: RollbackPlan) -> Reply:
    """Put the plan before in force. Its age goes on from when it was activated.

    Raises:
        Refused: If no plan was in force before.
    """
    state = turn.state
    if len(state.history) < 2:
        raise Refused("conflict", "plan", "no plan was active before", "activate one by name")
    name = state.history[-2]
    if state.shadow == name:
        turn.emit(PlanShadowed(time=turn.now, plan=None))
    turn.emit(PlanActivated(time=turn.now, plan=name, rollback=True))
    free_all(turn)
    return Reply(body=lambda: plan_of(state, name))


def shadow_plan(turn: Turn, command: ShadowPlan) -> Reply:
    """Let a stored plan decide beside the active one, or none.

    Raises:
        Refused: If there is no such plan, or not yet, or it is in force.
    """
    state, name = turn.state, command.plan
    if name is not None:
        _stored(state, name)
        if state.history and state.history[-1] == name:
            told = f"plan {name!r} is in force: it would be compared with itself"
            raise Refused("conflict", "plan", told, "put another one in force first")
    repeated = state.shadow == name
    if not repeated:
        turn.emit(PlanShadowed(time=turn.now, plan=name))
    return Reply(body=lambda: None if name is None else plan_of(state, name), repeated=repeated)


def _stored(state: State, name: str) -> None:
    """Refuse a plan that is not there, or not yet.

    Raises:
        Refused: If it is not.
    """
    if name in state.plans:
        return
    job = state.jobs.get(name)
    if job is not None:
        told = f"plan {name!r} " + ("is being priced" if job.state == PRICING else job.state)
        remedy = "wait until it is a draft" if job.state == PRICING else "ask for it again"
        raise Refused("conflict", "plan", told, remedy)
    raise Refused("not-found", "plan", f"there is no plan {name!r}", "store it first")
