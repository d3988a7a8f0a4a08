"""A simulated stream sent through HTTP picks the same servers as the simulator."""

from __future__ import annotations

import heapq
from pathlib import Path

import msgspec
import numpy as np
import pytest

from opportune.model.loss import LossInstance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import loss_policy
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.service.planning import plan_document
from opportune.service.resources import PlanDocument
from opportune.simulate.loss import Run, busy_paths
from tests.instances import Shape, random_instance
from tests.service.serving import Client, servers_of, service

LISTS = ("lag", "whittle", "headcount")
"""Policies without ties or samples: over HTTP the service draws for itself."""


def declared(client: Client, instance: LossInstance, plan: PlanDocument) -> None:
    """The instance's pool, with the plan in force."""
    k = instance.servers_per_task.tolist()
    types = [{"id": name, "k": k[v]} for v, name in enumerate(instance.task_types)]
    rows = [
        [instance.task_types[v], instance.servers[r], float(instance.match_reward[v, r])]
        for v, r in np.argwhere(instance.allowed)
    ]
    client.good("PUT", "/v1/pools/p", {})
    client.good("PUT", "/v1/pools/p/servers", [{"id": name} for name in instance.servers])
    client.good("PUT", "/v1/pools/p/task-types", types)
    client.good("PUT", "/v1/pools/p/scores", {"rows": rows})
    client.good("PUT", f"/v1/pools/p/plans/{plan.id}", msgspec.json.encode(plan))
    client.good("POST", f"/v1/pools/p/plans/{plan.id}:activate")


def served(client: Client, instance: LossInstance, run: Run) -> list[list[str]]:
    """Who serves each arrival of the run's stream; nobody where it is dropped."""
    k = int(instance.servers_per_task.max())
    block = draw_block(stream_key(run.seed, 0), 0, loss_law(instance), k)
    chosen: list[list[str]] = []
    running: list[tuple[int, str]] = []
    time = -1
    for gap, v, duration in zip(block.gap, block.task_type, block.duration, strict=True):
        time += int(gap)
        if time >= run.steps:
            break
        while running and running[0][0] <= time:
            assert client.complete(heapq.heappop(running)[1]).status_code == 200
        body = {"task_type": instance.task_types[v]}
        response = client("POST", "/v1/pools/p/assignments", body)
        if response.status_code == 201:
            made = response.json()
            assert (made["plan"], made["degraded"]) == ("plan", "")
            chosen.append(servers_of(made))
            heapq.heappush(running, (time + int(duration) + 1, made["assignment_id"]))
        else:
            assert response.json()["code"] == "no-capacity"
            chosen.append([])
    return chosen


@pytest.mark.parametrize("policy", LISTS)
def test_http_and_simulator_pick_the_same_servers(policy: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([3, len(policy)])
    shape = Shape(types=4, servers=8, k=2)
    instance = random_instance(rng, shape, load=0.9)
    prices = price(instance, AT_MOST)
    plan = loss_policy(policy).plan(instance, prices)
    run = Run(1_000, 0, seed=5)
    with service(tmp_path / "journal.db") as client:
        declared(client, instance, plan_document("plan", plan, prices))
        ours = served(client, instance, run)
        assert client.pool()["tasks_open"] > 0
    _, chosen = busy_paths(instance, [plan], run)
    theirs = [[instance.servers[r] for r in row if r >= 0] for row in chosen[0].tolist()]
    assert len(ours) > 20
    assert ours == theirs
