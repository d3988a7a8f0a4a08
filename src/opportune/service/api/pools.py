"""Pools and what is declared in them: servers, task types, scores."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import QueryParameter

from opportune.errors import Problem, shorten
from opportune.service import commands, reading
from opportune.service.answers import PoolBody, ScoresBody, ServerBody, TaskTypeBody
from opportune.service.api.answering import (
    AnyRequest,
    Segment,
    administered,
    also,
    body_of,
    call_of,
    carried_out,
    problems,
    reads,
    respond,
)
from opportune.service.api.bodies import AuditBody, Done, NewPool, NewScores, PoolList
from opportune.service.api.calls import look, named
from opportune.service.dealing import whole_of
from opportune.service.dealing_orders import Look
from opportune.service.dealing_pools import (
    SETTLE_SECONDS,
    check_declares,
    place_of_server,
    whole_body,
    whole_servers,
)
from opportune.service.problems import Reply, encode_json, problem, refusal
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings

ADMIN, READ, REPORT = {"scope": "admin"}, {"scope": "read"}, {"scope": "report"}

Replace = Annotated[
    bool | None, QueryParameter(description="Whether pairs that are not named lose their score.")
]

MOST = 100_000
"""Entries of a batch."""


@get("/v1/pools", opt=READ, responses=problems())
async def list_pools(request: AnyRequest) -> PoolList:
    """The pools."""
    node = call_of(request).node
    names = await node.pool_names()
    return PoolList([pool for pool in names if whole_of(pool) not in names])


@post("/v1/pools", opt=reads(ADMIN, NewPool), responses={**problems("conflict", "invalid")})
async def create_pool(request: AnyRequest) -> Response[PoolBody]:
    """Create a pool that is not there yet."""
    data = await body_of(request, NewPool)
    owner = call_of(request).node.owners.get(data.id)
    asked = call_of(request).ticket(await request.body())
    known = asked is not None and owner is not None and owner.keys.find(asked.key) is not None
    if owner is not None and owner.state.settings is not None and not known:
        return respond(problem("conflict", f"there is a pool {data.id!r}; change it with PUT"))
    settings = PoolSettings() if data.settings is None else data.settings
    return await administered(request, data.id, commands.PutPool(settings=settings))


@get("/v1/pools/{pool:str}", opt=READ, responses=problems("not-found"))
async def get_pool(request: AnyRequest, pool: Segment) -> Response[PoolBody]:
    """A pool at a glance."""
    body = await whole_body(call_of(request).node, named(pool), call_of(request).node.now())
    return respond(Reply(200, encode_json(body)))


@put(
    "/v1/pools/{pool:str}",
    opt=reads(ADMIN, PoolSettings),
    responses={**problems("invalid"), **also(201, PoolBody, "created")},
)
async def put_pool(request: AnyRequest, pool: Segment) -> Response[PoolBody]:
    """Create a pool, or change its settings."""
    data = await body_of(request, PoolSettings)
    return await administered(request, named(pool), commands.PutPool(settings=data))


@get("/v1/pools/{pool:str}/audit", opt=ADMIN, responses=problems("not-found"))
async def get_audit(request: AnyRequest, pool: Segment) -> list[AuditBody]:
    """What administrators did in a pool: the latest thousand actions, latest first."""
    owner = call_of(request).node.owner(named(pool))
    kept = list(reversed(owner.loaded.audits))
    await owner.read(lambda state: None)
    return [AuditBody(one.time, one.who, one.action, one.remote, one.status) for one in kept]


# ------------------------------------------------------------------------------------ servers


@get("/v1/pools/{pool:str}/servers", opt=READ, responses=problems("not-found"))
async def list_servers(request: AnyRequest, pool: Segment) -> Response[list[ServerBody]]:
    """All servers of a pool."""
    found = await whole_servers(call_of(request).node, named(pool))
    return respond(Reply(200, encode_json(found)))


@put(
    "/v1/pools/{pool:str}/servers",
    opt=reads(ADMIN, list[ServerSettings]),
    responses=problems("not-found", "invalid"),
)
async def put_servers(request: AnyRequest, pool: Segment) -> Response[Done]:
    """Add or change many servers; others stay as they are."""
    data = await body_of(request, list[ServerSettings])
    return await _batch(request, pool, [commands.PutServer(settings=one) for one in data])


@get("/v1/pools/{pool:str}/servers/{server:str}", opt=READ, responses=problems("not-found"))
async def get_server(request: AnyRequest, pool: Segment, server: Segment) -> Response[ServerBody]:
    """A server."""
    name, call = named(server), call_of(request)
    place = await place_of_server(call.node, named(pool), name)
    if place != named(pool):
        for body in await call.node.orders.look(place, Look(what="servers")):
            if body.settings.id == name:
                return respond(Reply(200, encode_json(body)))
    return respond(
        await look(
            call,
            named(pool),
            lambda state: reading.server_body(state, name),
            f"server {name!r}",
        )
    )


@put(
    "/v1/pools/{pool:str}/servers/{server:str}",
    opt=reads(ADMIN, ServerSettings),
    responses={**problems("not-found", "invalid"), **also(201, ServerBody, "added")},
)
async def put_server(request: AnyRequest, pool: Segment, server: Segment) -> Response[ServerBody]:
    """Add a server (anew, if it was removed), or change it. The body's id must be the path's."""
    data = await body_of(request, ServerSettings)
    _same("id", data.id, named(server))
    return await administered(request, named(pool), commands.PutServer(settings=data))


@delete(
    "/v1/pools/{pool:str}/servers/{server:str}",
    opt=ADMIN,
    status_code=200,
    responses=problems("not-found", "invalid"),
)
async def remove_server(
    request: AnyRequest, pool: Segment, server: Segment
) -> Response[ServerBody]:
    """Take a server out; its offers are rescinded, its running tasks go on without it."""
    return await administered(request, named(pool), commands.RemoveServer(server=named(server)))


@post(
    "/v1/pools/{pool:str}/servers/{server:str}/§heartbeat",
    opt=REPORT,
    status_code=200,
    responses=problems("not-found", "invalid"),
)
async def server_heartbeat(
    request: AnyRequest, pool: Segment, server: Segment
) -> Response[ServerBody]:
    """A server is alive."""
    name, node = named(server), call_of(request).node
    command = commands.ServerHeartbeat(server=name)
    place = await place_of_server(node, named(pool), name)
    if place != named(pool):
        return respond(await node.orders.ask(place, command))
    return await carried_out(request, place, command)


@post(
    "/v1/pools/{pool:str}/servers/{server:str}/§clear-quarantine",
    opt=ADMIN,
    status_code=200,
    responses=problems("not-found", "invalid", "conflict"),
)
async def clear_quarantine(
    request: AnyRequest, pool: Segment, server: Segment
) -> Response[ServerBody]:
    """Let a server out of quarantine before its time."""
    name, node = named(server), call_of(request).node
    command = commands.ClearQuarantine(server=name)
    place = await place_of_server(node, named(pool), name)
    if place != named(pool):
        return respond(await node.orders.ask(place, command))
    return await administered(request, place, command)


# --------------------------------------------------------------------------------- task types


@get("/v1/pools/{pool:str}/task-types", opt=READ, responses=problems("not-found"))
async def list_task_types(request: AnyRequest, pool: Segment) -> Response[list[TaskTypeBody]]:
    """All task types of a pool."""
    return respond(await look(call_of(request), named(pool), reading.task_type_bodies))


@put(
    "/v1/pools/{pool:str}/task-types",
    opt=reads(ADMIN, list[TaskTypeSettings]),
    responses=problems("not-found", "invalid"),
)
async def put_task_types(request: AnyRequest, pool: Segment) -> Response[Done]:
    """Add or change many task types; others stay as they are."""
    data = await body_of(request, list[TaskTypeSettings])
    return await _batch(request, pool, [commands.PutTaskType(settings=one) for one in data])


@put(
    "/v1/pools/{pool:str}/task-types/{task_type:str}",
    opt=reads(ADMIN, TaskTypeSettings),
    responses={**problems("not-found", "invalid"), **also(201, TaskTypeBody, "added")},
)
async def put_task_type(
    request: AnyRequest, pool: Segment, task_type: Segment
) -> Response[TaskTypeBody]:
    """Add a task type, or change it. The body's id must be the path's."""
    data = await body_of(request, TaskTypeSettings)
    _same("id", data.id, named(task_type))
    return await administered(request, named(pool), commands.PutTaskType(settings=data))


# ------------------------------------------------------------------------------------- scores


@get("/v1/pools/{pool:str}/scores", opt=READ, responses=problems("not-found"))
async def get_scores(request: AnyRequest, pool: Segment) -> Response[ScoresBody]:
    """Version and number of the scores."""
    return respond(await look(call_of(request), named(pool), reading.scores_body))


@put(
    "/v1/pools/{pool:str}/scores",
    opt=reads(ADMIN, NewScores),
    responses=problems("not-found", "invalid", "unsupported-media-type"),
)
async def put_scores(
    request: AnyRequest, pool: Segment, replace: Replace = None
) -> Response[ScoresBody]:
    """Set scores. As `text/csv`: a line `task,server,score` a pair, a header may stand above.

    CSV replaces all scores unless `replace=false` is said; JSON does so with `replace`.
    """
    data = await body_of(request, NewScores)
    replaces = data.replace if replace is None else replace
    command = commands.PutScores(rows=data.rows, replace=replaces)
    return await administered(request, named(pool), command)


@put("/v1/pools/{pool:str}/scores/§csv", opt=ADMIN, include_in_schema=False)
async def put_scores_csv(
    request: AnyRequest, pool: Segment, replace: Replace = None
) -> Response[ScoresBody]:
    """The same from CSV: the gate sends bodies of that type here."""
    rows = csv_rows(await request.body())
    command = commands.PutScores(rows=rows, replace=replace is None or replace)
    return await administered(request, named(pool), command)


def csv_rows(body: bytes) -> list[ScoreRow]:
    """The rows of a CSV of scores.

    Raises:
        RefusalError: If it is no text, or a line is not ``task,server,score``; at most ten are
            named.
    """
    try:
        lines = list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise refusal("malformed", f"the CSV cannot be read: {error}") from error
    rows, wrong = [], []
    for number, cells in enumerate(lines, start=1):
        if not cells:
            continue
        if number == 1 and len(cells) == 3 and not _is_number(cells[2]):  # a header
            continue
        try:
            task_type, server, score = cells
            rows.append(msgspec.convert([task_type, server, float(score)], ScoreRow))
        except (ValueError, msgspec.ValidationError):
            told = shorten(",".join(cells))
            wrong.append(Problem(f"line {number}", told, "task,server,score; scores from 0"))
    if wrong or not rows:
        told = f"{len(wrong)} lines are no scores" if wrong else "there are no scores"
        raise refusal("invalid", told, wrong[:10])
    return rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# -------------------------------------------------------------------------------- all of them


async def _batch(
    request: AnyRequest, pool: str, batch: Sequence[commands.Command]
) -> Response[Any]:
    """Carry out many commands; the first that is refused is told, those before it are done."""
    call = call_of(request)
    if len(batch) > MOST:
        raise refusal("too-large", f"{len(batch)} entries; at most {MOST}")
    owner = call.node.owner(named(pool))
    check_declares(call.node, named(pool))
    audit = call.audit()
    waiting = [owner.ask(one, None, audit if i == 0 else None) for i, one in enumerate(batch)]
    for i, one in enumerate(waiting):
        reply = await one
        if reply.status >= 400:
            headers = {**reply.headers, "opportune-entry": str(i)}
            return respond(Reply(reply.status, reply.body, headers, reply.media_type))
    await call.node.dealing.followed(owner, SETTLE_SECONDS)
    return respond(Reply(200, encode_json(Done(len(batch)))))


def _same(field: str, given: str, path: str) -> None:
    if given != path:
        wrong = Problem(field, repr(given), f"{path!r}, as in the path")
        raise refusal("invalid", "the body is about something else than the path", [wrong])


HANDLERS = (
    list_pools,
    create_pool,
    get_pool,
    put_pool,
    get_audit,
    list_servers,
    put_servers,
    get_server,
    put_server,
    remove_server,
    server_heartbeat,
    clear_quarantine,
    list_task_types,
    put_task_types,
    put_task_type,
    get_scores,
    put_scores,
    put_scores_csv,
)
