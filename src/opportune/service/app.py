"""The application: the gate in front, the handlers behind, the node in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from litestar import Litestar
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from opportune import __version__
from opportune.errors import OpportuneError
from opportune.service.api import learning, plans, pools, stream, system, tasks
from opportune.service.api.answering import (
    check_scope,
    on_fault,
    on_http_error,
    on_our_error,
    on_refusal,
)
from opportune.service.api.gate import Gate
from opportune.service.api.openapi import document
from opportune.service.dashboard import serving as dashboard
from opportune.service.dashboard.view import Dashboards
from opportune.service.node import Node
from opportune.service.problems import RefusalError
from opportune.service.settings import check_exposure, is_loopback

DESCRIPTION = """\
Tasks come in, servers that suit them are picked by score minus opportunity cost, and what was
acknowledged is on disk. Errors are RFC 9457 problems. Any POST takes an `Idempotency-Key`.
"""

HANDLERS: list[Any] = [
    *pools.HANDLERS,
    *tasks.HANDLERS,
    *plans.HANDLERS,
    *learning.HANDLERS,
    *stream.HANDLERS,
    *system.HANDLERS,
]
"""What answers, path by path; the dashboard has handlers of its own."""


def create_app(node: Node, shortcut: bool = True) -> Gate:
    """The ASGI application of a node; its lifespan reads and closes the node.

    Args:
        node: What is served.
        shortcut: Whether busy requests go past the framework; the answers are the same.

    Raises:
        InputError: If it would be open to other machines for everyone.
    """
    n_keys = 0 if node.keys is None else len(node.keys.keys)
    settings = node.settings
    check_exposure(settings.host, n_keys, settings.insecure)
    needs_key = n_keys > 0 or not (is_loopback(settings.host) or settings.insecure)

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        await asyncio.get_running_loop().run_in_executor(None, node.load)
        node.start()
        yield
        await node.close()

    app = Litestar(
        [*HANDLERS, *dashboard.HANDLERS],
        guards=[check_scope],
        exception_handlers={
            RefusalError: on_refusal,
            HTTPException: on_http_error,
            OpportuneError: on_our_error,
            Exception: on_fault,
        },
        lifespan=[lifespan],
        openapi_config=None,  # its pages load scripts from elsewhere; ours is /openapi.json
        request_max_body_size=None,
        logging_config=None,
        state=State({"document": api_document, "dashboards": Dashboards()}),
    )
    return Gate(node, app, needs_key, shortcut)


@cache
def api_document() -> dict[str, Any]:
    """The API's OpenAPI document."""
    config = OpenAPIConfig(
        title="opportune",
        version=__version__,
        description=DESCRIPTION,
        use_handler_docstrings=True,
        render_plugins=[],
        components=Components(
            security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}
        ),
        security=[{"key": []}],
    )
    return document(Litestar(HANDLERS, openapi_config=config, logging_config=None))
