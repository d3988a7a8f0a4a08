"""Tasks, assignments, outcomes, decisions, rankings.

The busy ones of these are answered by ``hot`` already; the handlers here do the same with the same
functions, and are what the API's document is made from.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get, post

from opportune.service import commands, reading
from opportune.service.answers import (
    AssignmentBody,
    DecisionBody,
    OutcomeBody,
    RankBody,
    TaskBody,
)
from opportune.service.api import hot
from opportune.service.api.answering import (
    AnyRequest,
    Segment,
    also,
    call_of,
    carried_out,
    problems,
    reads,
    respond,
)
from opportune.service.api.bodies import DoneBody, LeaseBody, ReasonBody
from opportune.service.api.calls import look, named, pool_in
from opportune.service.dealing_pools import whole_waiting
from opportune.service.problems import Reply, encode_json
from opportune.service.state import State

DECIDE, READ, REPORT = {"scope": "decide"}, {"scope": "read"}, {"scope": "report"}

_DECIDED = {
    **problems("not-found", "invalid", "no-capacity", "conflict", "unsupported-media-type"),
    **also(200, AssignmentBody, "the same task again"),
    **also(202, TaskBody, "it waits (queue mode)"),
}
_MOVED = problems("not-found", "invalid", "stale-lease", "already-ended", "unsupported-media-type")
MOST_WAITING = 1000
"""Waiting tasks that are listed."""


@post(
    "/v1/pools/{pool:str}/assignments", opt=reads(DECIDE, commands.CreateTask), responses=_DECIDED
)
async def create_assignment(request: AnyRequest, pool: Segment) -> Response[AssignmentBody]:
    """A task comes in: decide now who serves it."""
    return await _created(request, pool)


@post("/v1/pools/{pool:str}/tasks", opt=reads(DECIDE, commands.CreateTask), responses=_DECIDED)
async def create_task(request: AnyRequest, pool: Segment) -> Response[AssignmentBody]:
    """A task comes in: the same as creating an assignment."""
    return await _created(request, pool)


async def _created(request: AnyRequest, pool: str) -> Response[Any]:
    return respond(await hot.create_task(call_of(request), named(pool), await request.body()))


@get("/v1/pools/{pool:str}/tasks", opt=READ, responses=problems("not-found"))
async def list_waiting(request: AnyRequest, pool: Segment) -> Response[list[TaskBody]]:
    """The tasks that wait, first one first; at most a thousand."""
    call = call_of(request)

    tasks = await whole_waiting(call.node, named(pool), MOST_WAITING)
    shown = tasks if call.sees_all else [_without_conflicts(task) for task in tasks]
    return respond(Reply(200, encode_json(shown)))


@get("/v1/tasks/{task:str}", opt=READ, responses=problems("not-found"))
async def get_task(request: AnyRequest, task: Segment) -> Response[TaskBody]:
    """A task. Its conflicts are shown to the scope `admin` only."""
    call, name = call_of(request), named(task)

    def seen(state: State) -> TaskBody | None:
        found = reading.task_body(state, name)
        return found if found is None or call.sees_all else _without_conflicts(found)

    return respond(await look(call, pool_in(name), seen, f"task {name!r}"))


@post(
    "/v1/tasks/{task:str}/§cancel",
    opt=DECIDE,
    status_code=200,
    responses=problems("not-found", "invalid", "already-ended"),
)
async def cancel_task(request: AnyRequest, task: Segment) -> Response[TaskBody]:
    """End a task that is not over; its servers are free."""
    name = named(task)
    return await carried_out(request, pool_in(name), commands.CancelTask(task=name))


@get("/v1/assignments/{assignment:str}", opt=READ, responses=problems("not-found"))
async def get_assignment(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """An assignment."""
    name = named(assignment)
    return respond(
        await look(
            call_of(request),
            pool_in(name),
            lambda state: reading.assignment_body(state, name),
            f"assignment {name!r}",
        )
    )


@post(
    "/v1/assignments/{assignment:str}/§accept",
    opt=reads(REPORT, LeaseBody | None),
    status_code=200,
    responses=_MOVED,
)
async def accept(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """Servers take what they were offered."""
    return await _moved(request, assignment, "accept")


@post(
    "/v1/assignments/{assignment:str}/§heartbeat",
    opt=reads(REPORT, LeaseBody | None),
    status_code=200,
    responses=_MOVED,
)
async def heartbeat(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """It is still worked on: the lease begins anew."""
    return await _moved(request, assignment, "heartbeat")


@post(
    "/v1/assignments/{assignment:str}/§decline",
    opt=reads(REPORT, ReasonBody | None),
    status_code=200,
    responses=_MOVED,
)
async def decline(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """Servers do not take it: others are asked."""
    return await _moved(request, assignment, "decline")


@post(
    "/v1/assignments/{assignment:str}/§complete",
    opt=reads(REPORT, DoneBody | None),
    status_code=200,
    responses=_MOVED,
)
async def complete(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """Servers are done, and free after their wrap-up."""
    return await _moved(request, assignment, "complete")


@post(
    "/v1/assignments/{assignment:str}/§fail",
    opt=reads(REPORT, ReasonBody | None),
    status_code=200,
    responses=_MOVED,
)
async def fail(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """Servers could not do it."""
    return await _moved(request, assignment, "fail")


@post(
    "/v1/assignments/{assignment:str}/§release",
    opt=reads(REPORT, ReasonBody | None),
    status_code=200,
    responses=_MOVED,
)
async def release(request: AnyRequest, assignment: Segment) -> Response[AssignmentBody]:
    """Let servers go: neither completed nor failed."""
    return await _moved(request, assignment, "release")


async def _moved(request: AnyRequest, assignment: str, verb: str) -> Response[Any]:
    body = await request.body()
    return respond(await hot.transition(call_of(request), named(assignment), verb, body))


@post(
    "/v1/outcomes",
    opt=reads(REPORT, commands.ReportOutcome),
    status_code=200,
    responses=problems("not-found", "invalid", "conflict", "unsupported-media-type"),
)
async def report_outcome(request: AnyRequest) -> Response[OutcomeBody]:
    """What came of an assignment; late, repeated and revised reports are fine."""
    return respond(await hot.report_outcome(call_of(request), await request.body()))


@post(
    "/v1/pools/{pool:str}/§rank",
    opt=reads(DECIDE, commands.RankRequest),
    status_code=200,
    responses=problems("not-found", "invalid", "unsupported-media-type"),
)
async def rank(request: AnyRequest, pool: Segment) -> Response[RankBody]:
    """Rank candidates for a task; nothing is stored and nobody is taken."""
    return respond(await hot.rank_candidates(call_of(request), named(pool), await request.body()))


@get("/v1/decisions/{decision:str}", opt=READ, responses=problems("not-found"))
async def get_decision(request: AnyRequest, decision: Segment) -> Response[DecisionBody]:
    """Why: candidates, prices, what the choice was worth.

    Who was excluded and for which reason is shown to the scope `admin` only.
    """
    call, name = call_of(request), named(decision)

    def seen(state: State) -> DecisionBody | None:
        found = reading.decision_body(state, name)
        if found is None or call.sees_all:
            return found
        why = msgspec.structs.replace(found.why, excluded=[])
        return msgspec.structs.replace(found, why=why)

    return respond(await look(call, pool_in(name), seen, f"decision {name!r}"))


def _without_conflicts(task: TaskBody) -> TaskBody:
    return msgspec.structs.replace(task, conflicts=[])


HANDLERS = (
    create_assignment,
    create_task,
    list_waiting,
    get_task,
    cancel_task,
    get_assignment,
    accept,
    heartbeat,
    decline,
    complete,
    fail,
    release,
    report_outcome,
    rank,
    get_decision,
)
