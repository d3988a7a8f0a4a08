"""A split pool over several nodes: orders, forwarding, a node that dies between two deals."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from opportune.service.dealing import sub_pools
from tests.service.clusters import NodeProcess, Nodes, cluster
from tests.service.database import postgres_url, schema_of
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork server there")

SERVERS = [f"s{r}" for r in range(12)]
PARTS = sub_pools("hot", 4)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with cluster(postgres_url(), schema_of(tmp_path_factory.mktemp("dealing")), 2) as found:
        one = found.nodes[0]
        one.good("PUT", "/v1/pools/hot", {"partitions": 4, "deal_period": 0.2})
        one.good("PUT", "/v1/pools/hot/servers", [{"id": name} for name in SERVERS])
        one.good("PUT", "/v1/pools/hot/task-types", [{"id": "t", "mean_duration": 5.0}])
        yield found


def settled(node: NodeProcess) -> Any:
    """The pool, once every server is in a part and free or held."""

    def look() -> Any:
        status, body, _ = node("GET", "/v1/pools/hot")
        if status != 200 or body["servers"] != 12:
            return None
        return body if body["servers_free"] + body["slots_open"] == 12 else None

    found = eventually(look)
    assert found["capacity_mismatch"] == 0
    return found


def assigned(node: NodeProcess, n: int, prefix: str) -> list[Any]:
    """Assignments of n tasks; who finds nobody free asks again under a new name."""
    made: list[Any] = []
    numbers = count()

    def one_more() -> bool:
        body = {"task_type": "t", "external_id": f"{prefix}-{next(numbers)}"}
        answer = node("POST", "/v1/pools/hot/assignments", body)
        assert answer.status in (201, 409), answer
        if answer.status == 201:
            made.append(answer.body)
            again = node("POST", "/v1/pools/hot/assignments", body)
            assert (again.status, again.body) == (200, answer.body)
        return answer.status == 201

    for _ in range(n):
        eventually(one_more)
    return made


def test_parts_are_spread_and_tasks_reach_them_through_any_node(nodes: Nodes) -> None:
    def spread() -> bool:
        owned = [len([pool for pool in node.pools() if pool in PARTS]) for node in nodes.nodes]
        return min(owned) >= 1 and sum(owned) == 4

    eventually(spread)
    settled(nodes.nodes[0])
    for node in nodes.nodes:
        assert node.good("GET", "/v1/pools") == {"pools": ["hot"]}
        made = assigned(node, 6, node.name)
        assert settled(node)["slots_open"] == 6
        taken = Counter(server["id"] for one in made for server in one["servers"])
        assert max(taken.values()) == 1
        for one in made:
            assert node("POST", f"/v1/assignments/{one['assignment_id']}:complete").status == 200
        assert settled(node)["slots_open"] == 0
    states = nodes.nodes[0].good("GET", "/v1/pools/hot/servers")
    assert [one["settings"]["id"] for one in states] == SERVERS
    for name in SERVERS:
        path = f"/v1/pools/hot/servers/{name}"
        assert nodes.nodes[1]("POST", f"{path}:heartbeat").status == 200
        assert nodes.nodes[1].good("GET", path)["settings"]["id"] == name
    assert nodes.nodes[0]("POST", f"{path}:clear-quarantine").status == 200


def test_orders_are_for_nodes_only(nodes: Nodes) -> None:
    for node in nodes.nodes:
        assert node("POST", "/v1/pools/hot/orders", {}).status == 404
        assert node("POST", "/v1/pools/hot--1/orders", {}).status == 404


def test_a_node_that_dies_loses_no_assignment_and_doubles_no_server(nodes: Nodes) -> None:
    first, second = nodes.nodes[0], nodes.nodes[1]
    settled(first)
    made = assigned(first, 8, "before")
    second.kill()
    nodes.start()
    seen = settled(first)
    assert seen["slots_open"] == 8
    held = {
        server["settings"]["id"]: server["assignments"]
        for server in first.good("GET", "/v1/pools/hot/servers")
        if server["assignments"]
    }
    assert held == {
        server["id"]: [one["assignment_id"]] for one in made for server in one["servers"]
    }
    for one in made:
        assert first("POST", f"/v1/assignments/{one['assignment_id']}:complete").status == 200
    assert settled(first)["slots_open"] == 0
