"""Is it alive, can it serve, how is it doing, what can it be asked."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.enums import MediaType

from opportune.service.api.answering import AnyRequest, call_of, problems, respond
from opportune.service.api.bodies import ReadyBody
from opportune.service.problems import Reply, encode_json, problem


@get("/livez", responses=problems())
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@get("/readyz", responses=problems("unavailable"))
async def readyz(request: AnyRequest) -> Response[ReadyBody]:
    """All pools are read and can be written; among several nodes, it also sees the others."""
    node = call_of(request).node
    cluster = node.cluster
    failed = [f"{pool}: {owner.trouble}" for pool, owner in node.owners.items() if owner.trouble]
    if cluster is not None:
        failed += [f"{pool}: {told}" for pool, told in cluster.tenures.failed.items()]
        if not failed and node.ready and not cluster.joined:
            failed.append("the database with the other nodes does not answer")
    if failed or not node.ready:
        return respond(problem("unavailable", "; ".join(failed) or "starting or stopping"))
    if cluster is None:
        return respond(Reply(200, encode_json(ReadyBody("ready"))))
    body = ReadyBody("ready", cluster.name, sorted(node.owners), dict(cluster.nodes))
    return respond(Reply(200, encode_json(body)))


@get("/metrics", opt={"scope": "read"}, media_type=MediaType.TEXT, responses=problems())
async def metrics(request: AnyRequest) -> Response[Any]:
    """Prometheus metrics."""
    text = await call_of(request).node.metrics.gathered()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@get("/openapi.json", include_in_schema=False)
async def openapi(request: AnyRequest) -> Response[bytes]:
    """The API's document."""
    return respond(Reply(200, encode_json(request.app.state["document"]())))


HANDLERS = (livez, readyz, metrics, openapi)
