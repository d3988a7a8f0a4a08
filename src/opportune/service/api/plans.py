"""Plans: ask for one, put one in, in force, back."""

from __future__ import annotations

from litestar import Response, get, post, put

from opportune.service import commands, reading
from opportune.service.answers import PlanBody
from opportune.service.api.answering import (
    AnyRequest,
    Segment,
    administered,
    also,
    body_of,
    call_of,
    problems,
    reads,
    respond,
)
from opportune.service.api.bodies import NewPlan
from opportune.service.api.calls import look, named
from opportune.service.problems import refusal
from opportune.service.resources import PlanDocument
from opportune.service.state import State

ADMIN, READ = {"scope": "admin"}, {"scope": "read"}

_REFUSED = problems("not-found", "invalid", "conflict")


@get("/v1/pools/{pool:str}/plans", opt=READ, responses=problems("not-found"))
async def list_plans(request: AnyRequest, pool: Segment) -> Response[list[PlanBody]]:
    """The stored plans, oldest first."""
    return respond(await look(call_of(request), named(pool), reading.plan_bodies))


@get("/v1/pools/{pool:str}/plans/{plan:str}", opt=READ, responses=problems("not-found"))
async def get_plan(request: AnyRequest, pool: Segment, plan: Segment) -> Response[PlanDocument]:
    """A plan with its prices and tables."""
    name = named(plan)
    return respond(
        await look(
            call_of(request), named(pool), lambda state: state.plans.get(name), f"plan {name!r}"
        )
    )


@post("/v1/pools/{pool:str}/plans", opt=reads(ADMIN, NewPlan), responses=_REFUSED)
async def make_plan(request: AnyRequest, pool: Segment) -> Response[PlanBody]:
    """Price the pool as it is declared and make a plan of it; by default put it in force."""
    data = await body_of(request, NewPlan)
    call, name = call_of(request), named(pool)
    owner = call.node.owner(name)
    asked = call.ticket(await request.body())
    if asked is not None:
        known = owner.keys.find(asked.key)
        if known is not None:
            return respond(await owner.again(known, asked))
        owner.keys.begin(asked, owner.now())
    try:
        plan_id = data.id if data.id is not None else _free_name(owner.state)
        plan = await call.node.make_plan(name, plan_id, data.policy)
    finally:
        if asked is not None:  # the command begins it again
            owner.keys.forget(asked.key)
    command = commands.PutPlan(plan=plan, activate=data.activate)
    return respond(await owner.ask(command, asked, call.audit()))


@put(
    "/v1/pools/{pool:str}/plans/{plan:str}",
    opt=reads(ADMIN, PlanDocument),
    responses={**_REFUSED, **also(201, PlanBody, "stored")},
)
async def put_plan(request: AnyRequest, pool: Segment, plan: Segment) -> Response[PlanBody]:
    """Store a plan that was made elsewhere; it is not in force yet."""
    data = await body_of(request, PlanDocument)
    if data.id != named(plan):
        raise refusal("invalid", f"the body's id is {data.id!r}, the path's {named(plan)!r}")
    return await administered(request, named(pool), commands.PutPlan(plan=data))


@post(
    "/v1/pools/{pool:str}/plans/{plan:str}/§activate",
    opt=ADMIN,
    status_code=200,
    responses=_REFUSED,
)
async def activate_plan(request: AnyRequest, pool: Segment, plan: Segment) -> Response[PlanBody]:
    """Put a stored plan in force."""
    return await administered(request, named(pool), commands.ActivatePlan(plan=named(plan)))


@post(
    "/v1/pools/{pool:str}/plans/{plan:str}/§shadow",
    opt=ADMIN,
    status_code=200,
    responses=_REFUSED,
)
async def shadow_plan(request: AnyRequest, pool: Segment, plan: Segment) -> Response[PlanBody]:
    """Let a stored plan decide beside the active one: what it would do is noted, not done."""
    return await administered(request, named(pool), commands.ShadowPlan(plan=named(plan)))


@post("/v1/pools/{pool:str}/plans/§unshadow", opt=ADMIN, status_code=204, responses=_REFUSED)
async def unshadow_plan(request: AnyRequest, pool: Segment) -> Response[None]:
    """No plan decides beside the active one any more."""
    return await administered(request, named(pool), commands.ShadowPlan(plan=None))


@post("/v1/pools/{pool:str}/plans/§rollback", opt=ADMIN, status_code=200, responses=_REFUSED)
async def rollback_plan(request: AnyRequest, pool: Segment) -> Response[PlanBody]:
    """Put the plan in force that was before the present one."""
    return await administered(request, named(pool), commands.RollbackPlan())


def _free_name(state: State) -> str:
    """``plan-1``, ``plan-2``, ...: the first that is not taken."""
    number = len(state.plans) + 1
    while f"plan-{number}" in state.plans:
        number += 1
    return f"plan-{number}"


HANDLERS = (
    list_plans,
    get_plan,
    make_plan,
    put_plan,
    activate_plan,
    shadow_plan,
    unshadow_plan,
    rollback_plan,
)
