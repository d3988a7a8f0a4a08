"""Plans: ask for one, put one in, in force, back."""

from __future__ import annotations

from litestar import Response, get, post, put

from opportune.errors import Problem
from opportune.policies.base import loss_policy
from opportune.service import commands, plan_reading
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
from opportune.service.dealing_pools import check_declares
from opportune.service.plan_bodies import PlanBody, PlanDetail
from opportune.service.plan_runs import free_name
from opportune.service.problems import refusal
from opportune.service.resources import PlanDocument
from opportune.service.state import State
from opportune.service.uploading import to_be_put

ADMIN, READ = {"scope": "admin"}, {"scope": "read"}

_REFUSED = problems("not-found", "invalid", "conflict")


@get("/v1/pools/{pool:str}/plans", opt=READ, responses=problems("not-found"))
async def list_plans(request: AnyRequest, pool: Segment) -> Response[list[PlanBody]]:
    """The plans, oldest first: the stored ones, then those being priced, failed or canceled."""
    call, name = call_of(request), named(pool)
    progress = call.node.planner.progress

    def seen(state: State) -> list[PlanBody]:
        found = plan_reading.plan_bodies(state)
        return [plan_reading.with_progress(one, progress(name, one.id)) for one in found]

    return respond(await look(call, name, seen))


@get("/v1/pools/{pool:str}/plans/{plan:str}", opt=READ, responses=problems("not-found"))
async def get_plan(request: AnyRequest, pool: Segment, plan: Segment) -> Response[PlanDetail]:
    """A plan: how far it is, what came of it in the shadow, its prices and tables."""
    call, owner, name = call_of(request), named(pool), named(plan)
    progress = call.node.planner.progress(owner, name)

    def seen(state: State) -> PlanBody | None:
        found = plan_reading.plan_detail(state, name)
        return None if found is None else plan_reading.with_progress(found, progress)

    return respond(await look(call, owner, seen, f"plan {name!r}"))


@post(
    "/v1/pools/{pool:str}/plans",
    opt=reads(ADMIN, NewPlan),
    responses={**_REFUSED, **also(202, PlanBody, "it is being priced")},
)
async def make_plan(request: AnyRequest, pool: Segment) -> Response[PlanBody]:
    """Price the pool and make a plan of it; by default wait for it and put it in force."""
    data = await body_of(request, NewPlan)
    call, body = call_of(request), await request.body()
    owner = call.node.owner(named(pool))
    asked = call.ticket(body)
    known = None if asked is None else owner.keys.find(asked.key)
    if asked is not None and known is not None:
        return respond(await owner.again(known, asked))
    if data.shadow and data.activate:
        wrong = Problem("shadow", "true", "activate or shadow, not both", "say activate: false")
        raise refusal("invalid", "a plan in force is not compared with itself", [wrong])
    loss_policy(data.policy)
    command = commands.RequestPlan(
        plan=data.id if data.id is not None else free_name(owner.state, "plan"),
        policy=data.policy,
        then="active" if data.activate else "shadow" if data.shadow else "draft",
        rates=data.rates,
        seconds=data.seconds,
    )
    if not data.wait:
        reply = await owner.ask(command, asked, call.audit())
        call.node.planner.look()
        return respond(reply)
    if asked is not None:
        owner.keys.begin(asked, owner.now())
    try:
        reply = await call.node.planner.make(owner, command, asked, call.audit())
    finally:
        if asked is not None and owner.keys.is_running(asked.key):
            owner.keys.forget(asked.key)
    return respond(reply)


@post(
    "/v1/pools/{pool:str}/plans/{plan:str}/§cancel",
    opt=ADMIN,
    status_code=200,
    responses=_REFUSED,
)
async def cancel_plan(request: AnyRequest, pool: Segment, plan: Segment) -> Response[PlanBody]:
    """Do not make a plan that is being priced."""
    response = await administered(request, named(pool), commands.EndPlan(plan=named(plan)))
    call_of(request).node.planner.look()
    return response


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
    call, name = call_of(request), named(pool)
    check_declares(call.node, name)
    command = await to_be_put(call.node.owner(name), data, call.ticket(await request.body()))
    return await administered(request, name, command)


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


HANDLERS = (
    list_plans,
    get_plan,
    make_plan,
    cancel_plan,
    put_plan,
    activate_plan,
    shadow_plan,
    unshadow_plan,
    rollback_plan,
)
