"""The requests of the dashboard: the page, its files, and what fills it.

The page and its files hold nothing of a pool and need no key. What fills it needs the scope
``read``; it is made for this page and may change with it, so it is no part of the API's document.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import Annotated, Any

from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Redirect

from opportune.errors import OpportuneError
from opportune.service import reading
from opportune.service.answers import DecisionBody
from opportune.service.api.answering import AnyRequest, Segment, call_of, respond
from opportune.service.api.calls import named
from opportune.service.dashboard import pages
from opportune.service.dashboard.decisions import explained
from opportune.service.dashboard.history import WINDOWS
from opportune.service.dashboard.present import STATES
from opportune.service.dashboard.view import Dashboards, Question
from opportune.service.naming import pool_of
from opportune.service.problems import Reply, encode_json, refusal
from opportune.service.state import State

READ = {"scope": "read"}


@get("/", include_in_schema=False)
async def root() -> Redirect:
    """To the dashboard."""
    return Redirect("/dashboard", status_code=302)


@get(["/dashboard", "/dashboard/{pool:str}"], include_in_schema=False)
async def page(request: AnyRequest) -> Response[Any]:
    """The page; which pool it is about, it reads from its own address."""
    return _sent(pages.shell())


@get("/dashboard/-/{name:str}", include_in_schema=False)
async def page_file(request: AnyRequest, name: Segment) -> Response[Any]:
    """A file of the page.

    Raises:
        RefusalError: If there is none of the name.
    """
    if name == pages.BUNDLE:
        return _sent(await asyncio.to_thread(_library))
    found = pages.file(name)
    if found is None:
        raise refusal("not-found", f"the page has no file {name!r}")
    if request.headers.get("if-none-match") == found.headers["etag"]:
        return Response(None, status_code=304, headers=found.headers)
    return _sent(found)


@get("/v1/pools/{pool:str}/view", opt=READ, include_in_schema=False)
async def view(
    request: AnyRequest,
    pool: Segment,
    window: Annotated[str, QueryParameter(max_length=10)] = "15m",
    wanted: Annotated[str, QueryParameter(max_length=20)] = "",
    find: Annotated[str, QueryParameter(max_length=200)] = "",
    prices: Annotated[int, QueryParameter(ge=0, le=2**53)] = 0,
) -> Response[Any]:
    """A pool as its page shows it.

    Raises:
        RefusalError: If there is no such pool, or no such window or state.
    """
    if window not in WINDOWS or wanted not in ("", *STATES):
        raise refusal("invalid", "there is no such window or state")
    call = call_of(request)
    dashboards: Dashboards = request.app.state["dashboards"]
    owner = call.node.owner(named(pool))
    question = Question(window, wanted, find, prices)
    seen = await dashboards.view(call.node, owner, question)
    body = encode_json(seen)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return respond(Reply(200, body))
    packed = await asyncio.to_thread(gzip.compress, body, 1)  # to a tenth
    return respond(Reply(200, packed, {"content-encoding": "gzip", "vary": "accept-encoding"}))


@get("/v1/pools/{pool:str}/view/{decision:str}", opt=READ, include_in_schema=False)
async def why(request: AnyRequest, pool: Segment, decision: Segment) -> Response[Any]:
    """Why a decision came out as it did, for the page.

    Raises:
        RefusalError: If there is no such decision in the pool.
    """
    call, name, where = call_of(request), named(decision), named(pool)

    def seen(state: State) -> DecisionBody | None:
        return reading.decision_body(state, name) if pool_of(name) == where else None

    body = await call.node.owner(where).read(seen)
    if body is None:
        raise refusal("not-found", f"pool {where!r} has no decision {name!r} (any more)")
    shown = {"title": body.decision_id, "html": str(explained(body, call.sees_all))}
    return respond(Reply(200, encode_json(shown)))


def _library() -> pages.Page:
    """The chart library.

    Raises:
        RefusalError: If it cannot be made; the page then shows tables only.
    """
    try:
        return pages.bundle()
    except OpportuneError as error:
        raise refusal("unavailable", str(error)) from error


def _sent(found: pages.Page) -> Response[Any]:
    return Response(found.content, media_type=found.media_type, headers=found.headers)


HANDLERS = (root, page, page_file, view, why)
