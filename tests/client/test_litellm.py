"""LiteLLM's own router, with its mock responses, asks Opportune who takes a request."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opportune import Router
from opportune.client import Client, PoolSettings, ServerSettings, TaskTypeSettings
from opportune.errors import InputError
from tests.client.serving import Served
from tests.waiting import PATIENCE, eventually

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or importing it asks the network

litellm = pytest.importorskip("litellm")

from opportune.litellm_strategy import OpportuneStrategy, route  # noqa: E402

MODELS = ("small", "large")
MESSAGES = [{"role": "user", "content": "why?"}]
SCORES = [("code", "small", 0.3), ("code", "large", 0.9), ("chat", "small", 0.8)]
LEASE = 4.0
LONG = 5.0
"""Seconds of an attempt that others come beside; also where each of them takes one."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a pool ``models``: the deployments, and two types of requests."""
    service = Served(tmp_path_factory.mktemp("litellm"))
    try:
        yield service.url
    finally:
        service.kill()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        client.put_pool("models", PoolSettings(quarantine_after=None))
        client.put_servers("models", [ServerSettings(id=name) for name in MODELS])
        types = [
            TaskTypeSettings(id=name, rate=1.0, mean_duration=0.1) for name in ("code", "chat")
        ]
        client.put_task_types("models", types)
        client.put_scores("models", SCORES, replace=True)
        yield client


@pytest.fixture
def lite() -> Iterator[Any]:
    """LiteLLM's router with two deployments that answer with their name; callbacks as before."""
    deployments = [
        {
            "model_name": "auto",
            "litellm_params": {"model": f"openai/{name}", "api_key": "none", "mock_response": name},
            "model_info": {"id": name},
        }
        for name in MODELS
    ]
    before = list(litellm.callbacks)
    yield litellm.Router(model_list=deployments, num_retries=0)
    litellm.callbacks[:] = before


def wait_for(client: Client, done: int, failed: int) -> Any:
    """The pool, once that many tasks have come to their end."""

    def ended() -> Any:
        pool = client.get_pool("models")
        counted = (pool.counts.get("done", 0), pool.counts.get("failed", 0))
        return pool if counted == (done, failed) else None

    pool = eventually(ended)
    assert (pool.slots_open, pool.capacity_mismatch) == (0, 0)
    return pool


def wait_for_idle(client: Client) -> None:
    """Until no server of the pool has anything to do."""
    eventually(lambda: client.get_pool("models").slots_open == 0)
    pool = client.get_pool("models")
    assert (pool.slots_open, pool.capacity_mismatch) == (0, 0)


def test_the_service_decides_and_hears_of_the_end(client: Client, lite: Any) -> None:
    counts = client.get_pool("models").counts
    strategy = route(lite, client, pool="models")
    answered = [
        lite.completion("auto", messages=MESSAGES, metadata={"task_type": kind})
        for kind in ("code", "chat")
    ]
    assert [one.choices[0].message.content for one in answered] == ["large", "small"]
    wait_for(client, counts.get("done", 0) + 2, counts.get("failed", 0))
    assert strategy.running == 0


def test_requests_side_by_side_take_different_deployments(client: Client, lite: Any) -> None:
    pool = client.get_pool("models")
    before, failed = pool.counts.get("done", 0), pool.counts.get("failed", 0)
    strategy = route(lite, client, pool="models")
    shared = {"task_type": "code"}  # callers may use one dictionary for all

    async def ask(content: str, **more: Any) -> str:
        answer = await lite.acompletion(content, messages=MESSAGES, metadata=shared, **more)
        return str(answer.choices[0].message.content)

    async def running(number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while strategy.running != number:
                await asyncio.sleep(0.01)

    async def idle() -> None:
        await running(0)  # and the service has heard of it
        await asyncio.to_thread(wait_for_idle, client)

    async def all_together() -> list[str]:
        slow = asyncio.create_task(ask("auto", mock_delay=LONG))
        await running(1)
        found = [await ask("auto"), await slow]
        await idle()
        crowd = [ask("auto", mock_delay=LONG) for _ in range(4)]
        answers = await asyncio.gather(*crowd, return_exceptions=True)
        refused = [one for one in answers if not isinstance(one, str)]
        assert {type(one) for one in refused} == {litellm.RateLimitError}
        assert all("no deployment is free" in str(one) for one in refused)
        await idle()
        with pytest.raises(litellm.InternalServerError):
            await ask("auto", mock_response=litellm.InternalServerError("broken", "openai", "x"))
        await idle()
        stream = await lite.acompletion("auto", messages=MESSAGES, metadata=shared, stream=True)
        async for _ in stream:
            pass
        await idle()
        return found

    assert Counter(asyncio.run(all_together())) == Counter(MODELS)
    wait_for_idle(client)
    found = client.get_pool("models")
    assert found.counts["failed"] == failed + 1
    assert found.counts["done"] >= before + 5


def test_a_long_attempt_keeps_its_lease_and_a_forgotten_one_loses_it(
    client: Client, lite: Any
) -> None:
    client.put_pool("models", PoolSettings(lease=LEASE, quarantine_after=None))
    strategy = route(lite, client, pool="models", heartbeat=LEASE / 20, longest=1.75 * LEASE)
    done, lost = (client.get_pool("models").counts.get(name, 0) for name in ("done", "slots_lost"))
    request = {"messages": MESSAGES, "metadata": {"task_type": "code"}}
    lite.completion("auto", **request, mock_delay=1.5 * LEASE)
    wait_for(client, done + 1, client.get_pool("models").counts.get("failed", 0))
    assert client.get_pool("models").counts.get("slots_lost", 0) == lost
    strategy.get_available_deployment("code")  # LiteLLM never says what became of it
    wait_for_idle(client)
    assert client.get_pool("models").counts["slots_lost"] == lost + 1
    assert strategy.running == 0


def test_a_router_in_the_process_decides(lite: Any) -> None:
    own = Router([[0.3, 0.9], [0.8, 0.1]], task_types=["code", "auto"], servers=list(MODELS))
    route(lite, own)
    assert lite.completion("auto", messages=MESSAGES).choices[0].message.content == "small"
    eventually(lambda: not own.running)
    assert own.free == MODELS


def test_what_cannot_be_is_refused(client: Client, lite: Any) -> None:
    own = Router([[1.0]], servers=["elsewhere"], task_types=["auto"])
    with pytest.raises(InputError, match="a pool's name with a client"):
        route(lite, own, pool="models")
    with pytest.raises(InputError, match="a pool's name with a client"):
        route(lite, client)
    strategy = route(lite, own)
    with pytest.raises(InputError, match="server 'elsewhere'"):
        strategy.get_available_deployment("auto")
    assert own.free == ("elsewhere",)
    assert isinstance(strategy, OpportuneStrategy)
    with pytest.raises(InputError, match="heartbeat"):
        route(lite, own, heartbeat=0.0)


def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'litellm'\", name='litellm')"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import opportune.litellm_strategy"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'opportune[litellm]'" in done.stderr
