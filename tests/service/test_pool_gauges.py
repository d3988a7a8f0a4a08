"""Metrics of many pools: requests have their turn while they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from opportune.service import pool_gauges
from opportune.service.pool_gauges import PoolGauge, PoolGauges, Sample
from tests.service.serving import declare, service


def test_requests_have_their_turn_between_two_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand pools held up every decision for most of a second, at each scrape."""
    monkeypatch.setattr(pool_gauges, "SLICE", 0.0)
    pools = {f"p{i}": float(i) for i in range(50)}
    turns: list[int] = []
    read: list[str] = []

    def samples(one: tuple[str, float]) -> Iterator[Sample]:
        read.append(one[0])
        yield Sample("size", (one[0],), one[1])

    gauges = PoolGauges([PoolGauge("size", "How large.")], lambda: pools.items(), samples)
    registry = CollectorRegistry()
    registry.register(gauges)

    async def other() -> None:
        while True:
            turns.append(len(read))
            if len(read) == 20:
                pools["new"] = 1.0  # a pool that is made meanwhile disturbs nothing
            await asyncio.sleep(0)

    async def run() -> bytes:
        task = asyncio.ensure_future(other())
        await asyncio.sleep(0)
        await gauges.gather()
        task.cancel()
        return generate_latest(registry)

    text = asyncio.run(run()).decode()
    assert len(set(turns)) >= 50
    assert text.count("opportune_size{") == 50
    again = generate_latest(registry).decode()  # nothing gathered: read as they are now
    assert again.count("opportune_size{") == 51
    assert set(text.splitlines()) < set(again.splitlines())


def test_metrics_over_http_are_those_of_the_registry() -> None:
    with service() as client:
        declare(client)
        client.complete(client.assign(), value=1.0)
        served = client("GET", "/metrics").text.splitlines()
        told = client.between(client.node.metrics.text).decode().splitlines()
        moving = ("opportune_http_requests", "opportune_commit", "opportune_plan_age")

        def still(lines: list[str]) -> list[str]:
            return [line for line in lines if not line.startswith(moving)]

        assert still(served) == still(told)
        assert 'opportune_servers{pool="p"} 3.0' in served
        assert 'opportune_reward_total{pool="p"} 1.0' in served
