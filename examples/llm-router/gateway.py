"""A gateway for chat completions that asks Opportune which model answers.

    opportune serve --port 8080 &
    python examples/llm-router/backends.py --port 9100 &
    python examples/llm-router/gateway.py --service http://127.0.0.1:8080 \
        --backends http://127.0.0.1:9100 --port 9000

``POST /v1/chat/completions`` with an ``Idempotency-Key`` is carried out once: the same key again
gets the same answer. ``POST /v1/feedback`` tells what an answer was worth.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import cyclopts
import httpx
from cyclopts import Parameter
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import ClientException
from litestar.params import Body
from msgspec import Struct
from routes import Assignments, BestScore, FullError, Place, Ranking, RoundRobin, Route
from sending import http_client
from serving import Json, run
from world import MEAN_SECONDS, MODELS, SHARE, kind_of, rate

from opportune.client import AsyncClient, PoolSettings, ServerSettings, TaskTypeSettings

Mode = Literal["assignments", "rank", "round-robin", "best-score"]

POOL = "models"
REMEMBERED = 100_000
"""Answers that are kept for requests that come again."""

COUNTED = ("requests", "answered", "refused", "failed", "good", "answer_seconds", "held_seconds")
"""What is counted; the last two are sums over the answers: what they take, how long places were
held for them."""

Answer = tuple[int, dict[str, Any]]


async def declare(client: AsyncClient, load: float, speed: float) -> None:
    """Make the pool and its plan: models are servers, kinds of prompts task types."""
    if POOL in await client.list_pools():
        return
    await client.put_pool(POOL, PoolSettings(lease=60.0, retain=REMEMBERED))
    await client.put_servers(
        POOL, [ServerSettings(id=name, capacity=model.copies) for name, model in MODELS.items()]
    )
    types = [
        TaskTypeSettings(id=kind, rate=SHARE[kind] * rate(load) * speed, mean_duration=mean / speed)
        for kind, mean in MEAN_SECONDS.items()
    ]
    await client.put_task_types(POOL, types)
    rows = [
        (kind, name, score)
        for name, model in MODELS.items()
        for kind, score in model.benchmark.items()
    ]
    await client.put_scores(POOL, rows, replace=True)
    await client.make_plan(POOL)


class Feedback(Struct):
    """What an answer was worth: its id, and whether it was good."""

    id: str
    good: bool


def prompt_of(body: dict[str, Any]) -> str:
    """The text of the last message.

    Raises:
        ClientException: If there is none.
    """
    match body:
        case {"messages": [*_, {"content": str(text)}]}:
            return text
    raise ClientException("messages: expected a list whose last message has a text as its content")


class Gateway:
    """The gateway.

    Args:
        route: Picks the models.
        backends: Where the models are.
    """

    def __init__(self, route: Route, backends: str) -> None:
        self.counts: dict[str, float] = dict.fromkeys(COUNTED, 0)
        self._route = route
        self._http = http_client(backends)
        self._answers: OrderedDict[str, asyncio.Task[Answer]] = OrderedDict()
        self._places: dict[str, Place] = {}

    async def answer(self, key: str, body: dict[str, Any]) -> Answer:
        """The answer to a request: worked out once, however often it is asked for."""
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = asyncio.create_task(self._carry_out(key, body))
            if len(self._answers) > REMEMBERED:
                self._places.pop(self._answers.popitem(last=False)[0], None)
        return await asyncio.shield(found)

    async def _carry_out(self, key: str, body: dict[str, Any]) -> Answer:
        self.counts["requests"] += 1
        kind = kind_of(prompt_of(body))
        began = time.time()
        try:
            place = await self._route.take(key, kind)
        except FullError as full:
            self.counts["refused"] += 1
            told = {"message": str(full), "type": "no_capacity", "retry_after": full.retry_after}
            return 503, {"error": told}
        waited = max(
            time.time() - max(place.since, began), 0.0
        )  # whatever the service's clock says
        told = {**body, "user": key, "waited": waited}
        try:
            response = await self._http.post(f"/{place.model}/chat/completions", json=told)
            response.raise_for_status()
        except httpx.HTTPError as error:
            self.counts["failed"] += 1
            await self._route.done(place, failed=type(error).__name__)
            return 502, {"error": {"message": f"{place.model}: {error}", "type": "backend"}}
        held = await self._route.done(place)
        answer = response.json()
        self.counts["answered"] += 1
        self.counts["answer_seconds"] += answer["seconds"]
        self.counts["held_seconds"] += held
        self._places[key] = place
        return 200, {"id": key, **answer}

    async def feedback(self, key: str, good: bool) -> bool:
        """What the answer to a request was worth; whether there is such an answer. Once each."""
        place = self._places.pop(key, None)
        if place is None:
            return key in self._answers
        await self._route.learn(place, good)
        self.counts["good"] += good
        return True


def application(gateway: Gateway) -> Litestar:
    """The HTTP face."""

    @post("/v1/chat/completions")
    async def completions(request: Request[Any, Any, Any], data: Json) -> Response[dict[str, Any]]:
        prompt_of(data)  # what cannot be carried out is no request
        key = request.headers.get("idempotency-key") or uuid.uuid4().hex
        status, body = await gateway.answer(key, data)
        return Response(body, status_code=status)

    @post("/v1/feedback")
    async def feedback(data: Annotated[Feedback, Body()]) -> Response[None]:
        known = await gateway.feedback(data.id, data.good)
        return Response(None, status_code=204 if known else 404)

    @get("/counts")
    async def counts() -> dict[str, float]:
        return gateway.counts

    return Litestar([completions, feedback, counts], openapi_config=None, logging_config=None)


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """How the gateway runs.

    Attributes:
        service: The live service.
        api_key: Its key: scopes admin (to declare the pool), decide, report.
        backends: The model backends.
        mode: Who picks the model.
        port: Where it listens; 0 takes a free one.
        load: Load that the plan is made for.
        speed: How many times as fast as their models the backends answer.
    """

    service: str = "http://127.0.0.1:8080"
    api_key: str | None = None
    backends: str = "http://127.0.0.1:9100"
    mode: Mode = "assignments"
    port: int = 9000
    load: float = 0.75
    speed: float = 1.0


DEFAULT = Options()


def main(options: Options = DEFAULT) -> None:
    """Serve the gateway."""
    http = http_client(options.service)
    client = AsyncClient(options.service, api_key=options.api_key, http=http)
    route: Route
    if options.mode == "assignments":
        route = Assignments(client, POOL)
    elif options.mode == "rank":
        route = Ranking(client, POOL)
    else:
        route = RoundRobin() if options.mode == "round-robin" else BestScore()
    app = application(Gateway(route, options.backends))
    if options.mode in ("assignments", "rank"):

        async def make_pool() -> None:
            await declare(client, options.load, options.speed)

        app.on_startup.append(make_pool)
    run(app, options.port)


if __name__ == "__main__":
    cyclopts.run(main)
