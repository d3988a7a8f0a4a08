"""What all ordinary handlers share: the scope they need, replies, errors, documented problems."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import structlog
from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath

from opportune.errors import OpportuneError, Problem, shorten
from opportune.service.api.calls import Call, administer, carry_out, decoded
from opportune.service.api.faults import check_query
from opportune.service.commands import Command
from opportune.service.journal import JournalError
from opportune.service.problems import (
    PROBLEM_JSON,
    STATUS,
    ProblemBody,
    RefusalError,
    Reply,
    problem,
)

AnyRequest = Request[Any, Any, Any]

Body = TypeVar("Body")

Segment = FromPath[str]
"""A part of the path, percent-encoded as it came."""

WHERE = "all paths are in /openapi.json, below /v1"
"""Where to look when a path is wrong."""

_log = structlog.get_logger("http")

_BY_STATUS = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    503: "unavailable",
}


def call_of(request: ASGIConnection[Any, Any, Any, Any]) -> Call:
    """What the gate found out about a request."""
    call: Call = request.scope["state"]["call"]
    return call


def check_scope(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """A guard: the caller's key must be for what the handler does, which reads the whole query.

    Raises:
        RefusalError: If it is not.
    """
    scope = handler.opt.get("scope")
    if scope is not None:
        call_of(connection).allow(scope)
        query = connection.scope["query_string"]
        if query:
            asked = handler.parsed_fn_signature.parameters
            read = [one for one in asked if one not in ("request", *connection.path_params)]
            check_query(query, read)


def respond(reply: Reply) -> Response[Any]:
    """A reply as the framework wants it."""
    return Response(
        content=reply.body,
        status_code=reply.status,
        media_type=reply.media_type if reply.status != 204 else None,
        headers=reply.headers,
    )


async def administered(request: AnyRequest, pool: str, command: Command) -> Response[Any]:
    """Carry out what only an administrator may, and note it."""
    return respond(await administer(call_of(request), pool, command, await request.body()))


async def carried_out(request: AnyRequest, pool: str, command: Command) -> Response[Any]:
    """Carry out a command."""
    return respond(await carry_out(call_of(request), pool, command, await request.body()))


def on_refusal(request: AnyRequest, error: RefusalError) -> Response[Any]:
    """A refusal."""
    return respond(error.reply)


def on_http_error(request: AnyRequest, error: HTTPException) -> Response[Any]:
    """An error of the framework: no such route, a body that is not what is expected."""
    items: list[Problem] = []
    status = error.status_code
    if isinstance(error, ValidationException):  # of the query: bodies are read by the handlers
        status = 422
        extra = error.extra if isinstance(error.extra, list) else []
        for one in extra:
            name, told = str(one.get("key", "query")), str(one.get("message", ""))
            value = shorten(request.query_params.get(name, ""))
            items.append(Problem(name, value, told.removeprefix("Expected ")))
    if status == 404:
        told = f"nothing answers at {request.scope['path'].replace('/§', ':')}; {WHERE}"
        return respond(problem("not-found", told[:500]))
    code = _BY_STATUS.get(status, "internal" if status >= 500 else "malformed")
    headers = {k.lower(): v for k, v in (error.headers or {}).items()}
    told = "; ".join(str(one) for one in items) or error.detail
    return respond(problem(code, told[:500], items, headers))


def on_our_error(request: AnyRequest, error: OpportuneError) -> Response[Any]:
    """Input that the planner refuses, or a storage that can not do it."""
    if isinstance(error, JournalError):
        return respond(problem("unavailable", str(error), headers={"retry-after": "1"}))
    return respond(problem("invalid", str(error), error.problems))


def on_fault(request: AnyRequest, error: Exception) -> Response[Any]:
    """A fault of ours."""
    _log.error("a request failed", path=request.scope["path"], exc_info=error)
    return respond(problem("internal", "see the service's log"))


def reads(opt: dict[str, Any], body: Any) -> dict[str, Any]:
    """A handler's options with the type of the body it reads, for it and for its documentation."""
    return {**opt, "body": body}


async def body_of(request: AnyRequest, kind: type[Body]) -> Body:
    """The body of a request.

    Raises:
        RefusalError: If it is no JSON, or not of the type.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    body: Body = decoded(await request.body(), decoder)
    return body


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def problems(*codes: str) -> dict[int, ResponseSpec]:
    """The problems that a handler may answer with, for its documentation."""
    every = ("malformed", "unauthenticated", "forbidden", "too-large", "rate-limited", *codes)
    found: dict[int, list[str]] = {}
    for code in every:
        found.setdefault(STATUS[code][0], []).append(code)
    return {
        status: ResponseSpec(
            ProblemBody,
            description=", ".join(names),
            media_type=PROBLEM_JSON,
            generate_examples=False,
        )
        for status, names in sorted(found.items())
    }


def also(status: int, body: Any, description: str) -> dict[int, ResponseSpec]:
    """A second good answer of a handler, for its documentation."""
    return {status: ResponseSpec(body, description=description, generate_examples=False)}
