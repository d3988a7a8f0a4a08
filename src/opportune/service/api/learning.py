"""What a pool has learned."""

from __future__ import annotations

from litestar import Response, get

from opportune.service.api.answering import AnyRequest, Segment, call_of, problems, respond
from opportune.service.api.calls import named
from opportune.service.learner_bodies import LearningBody
from opportune.service.problems import Reply, encode_json


@get("/v1/pools/{pool:str}/learning", opt={"scope": "read"}, responses=problems("not-found"))
async def get_learning(request: AnyRequest, pool: Segment) -> Response[LearningBody]:
    """What the pool's learner knows: estimates with intervals, counts, missing outcomes, warnings.

    Everything that was acknowledged before is in it.
    """
    node = call_of(request).node
    found = await node.learners.body(node.owner(named(pool)))
    return respond(Reply(200, encode_json(found)))


HANDLERS = (get_learning,)
