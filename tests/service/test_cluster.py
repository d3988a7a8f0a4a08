"""Several nodes as processes on one PostgreSQL: who owns, who forwards, who takes over."""

from __future__ import annotations

import hashlib
import http.client
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_keys import PostgresKeys
from tests.service.clusters import Answer, NodeProcess, Nodes, cluster
from tests.service.database import execute, postgres_url
from tests.service.soak import SoakSettings, soak
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork server there")

CREATE, TASK = "/v1/pools/p/assignments", {"task_type": "t"}


@pytest.fixture
def pair(schema: str) -> Iterator[Nodes]:
    """Two nodes, and a pool ``p`` of 50 servers that the first one has made."""
    with cluster(postgres_url(), schema, 2) as nodes:
        declare(nodes.nodes[0])
        yield nodes


def declare(node: NodeProcess, pool: str = "p", servers: int = 50) -> None:
    base, names = f"/v1/pools/{pool}", [f"s{i}" for i in range(servers)]
    node.good("PUT", base, {})
    node.good("PUT", f"{base}/servers", [{"id": name} for name in names])
    node.good("PUT", f"{base}/task-types", [{"id": "t", "mean_duration": 1.0}])
    rows = [["t", name, 0.5] for name in names]
    node.good("PUT", f"{base}/scores", {"rows": rows, "replace": True})


def owner_of(nodes: Nodes, pool: str = "p") -> tuple[NodeProcess, NodeProcess]:
    """The node that owns a pool, and another one."""

    def owner() -> NodeProcess | None:
        owners = [node for node in nodes.living() if pool in node.pools()]
        return owners[0] if owners else None

    found: NodeProcess = eventually(owner)
    return found, next(node for node in nodes.living() if node is not found)


def metric(node: NodeProcess, name: str) -> float:
    text = node.good("GET", "/metrics")
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.split()[-1]) for line in lines)


# ----------------------------------------------------------------------------- forwarding


def test_any_node_answers_for_every_pool(pair: Nodes) -> None:
    owner, other = owner_of(pair)
    made = other("POST", CREATE, TASK, idempotency_key="k")
    assert made.status == 201
    again = owner("POST", CREATE, TASK, idempotency_key="k")
    assert (again.status, again.body) == (201, made.body)
    assert again.headers["idempotency-replayed"] == "true"
    name = made.body["assignment_id"]
    assert other.good("GET", f"/v1/assignments/{name}") == made.body
    assert other.good("GET", f"/v1/decisions/{made.body['decision_id']}")
    assert other.good("POST", f"/v1/assignments/{name}:complete", {"value": 2.0})
    assert other.good("POST", "/v1/outcomes", {"subject": name, "value": 3.0, "revision": 1})
    assert other.good("GET", "/v1/pools/p")["reward"] == owner.good("GET", "/v1/pools/p")["reward"]
    assert other.good("GET", "/v1/pools") == {"pools": ["p"]}
    assert other("GET", "/v1/pools/none").status == 404
    assert other("POST", "/v1/pools", {"id": "p"}).status == 409
    assert other("PUT", "/v1/pools/Not%20a%20name", {}).status == 422
    assert metric(other, 'opportune_forwarded_total{result="answered"}') >= 7
    assert metric(owner, 'opportune_pool_owned{pool="p"}') == 1
    assert metric(other, "opportune_pool_owned{") == 0


def test_a_stream_of_events_goes_through_another_node(pair: Nodes) -> None:
    owner, other = owner_of(pair)
    address = urlsplit(other.address)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
    connection.request("GET", "/v1/pools/p/events", headers={"accept": "text/event-stream"})
    stream = connection.getresponse()
    assert (stream.getheader("content-type") or "").startswith("text/event-stream")
    owner.good("POST", CREATE, TASK)
    seen = []
    while "event: Offered" not in seen:
        seen.append(stream.readline().decode().strip())
    assert "event: ServerPut" in seen
    connection.close()


def test_a_request_is_sent_on_once_only(pair: Nodes, schema: str) -> None:
    """A node that gets it from another one and is not the owner says so."""
    _, other = owner_of(pair)
    ((secret,),) = execute("SELECT secret FROM installation", schema=schema)
    told = other("POST", CREATE, TASK, opportune_forwarded=f"{secret} 10.0.0.1")
    assert (told.status, told.headers["opportune-moved"]) == (503, "yes")
    assert other("POST", CREATE, TASK, opportune_forwarded="guess 10.0.0.1").status == 201


def test_keys_are_shared_and_forwarded(schema: str) -> None:
    journal = PostgresJournal(postgres_url(), schema=schema)
    keys = PostgresKeys(journal)
    key = keys.create(["admin"], "all")
    with cluster(postgres_url(), schema, 2) as nodes:
        one, two = nodes.nodes
        bearer = {"authorization": f"Bearer {key}"}
        assert one("PUT", "/v1/pools/p", {}, **bearer).status == 201
        for node in (one, two):
            assert node("GET", "/v1/pools/p", **bearer).status == 200
            assert node("GET", "/v1/pools/p").status == 401
        (audit,) = two.good("GET", "/v1/pools/p/audit", **bearer)
        assert (audit["who"], audit["remote"]) == (key.split("_")[1], "127.0.0.1")
        keys.create(["read"], "so that not all are gone")
        keys.revoke(key.split("_")[1])
        eventually(lambda: two("GET", "/v1/pools/p", **bearer).status == 401)
    journal.close()


# ------------------------------------------------------------------- kills, pauses, restarts


def test_a_killed_owner_is_replaced_and_a_retry_gets_the_same_answer(pair: Nodes) -> None:
    owner, other = owner_of(pair)
    made = owner("POST", CREATE, TASK, idempotency_key="k")
    owner.kill()
    again = other("POST", CREATE, TASK, idempotency_key="k")
    assert (again.status, again.body) == (201, made.body)
    assert other.pools() == ["p"]
    assert other.good("GET", "/v1/pools/p")["slots_open"] == 1
    assert metric(other, "opportune_take_over_seconds_count") == 1


def test_an_owner_paused_beyond_its_lease_writes_and_answers_nothing(pair: Nodes) -> None:
    owner, other = owner_of(pair)
    answers: list[Answer] = []
    owner.good("POST", CREATE, TASK)
    owner.pause()
    try:  # these are with the paused owner when another node takes over
        late = [
            threading.Thread(
                target=lambda i=i: answers.append(
                    owner("POST", CREATE, TASK, idempotency_key=f"late-{i}")
                )
            )
            for i in range(3)
        ]
        for thread in late:
            thread.start()
        assert other("POST", CREATE, TASK, idempotency_key="k").status == 201
        assert other.pools() == ["p"]
    finally:
        owner.go_on()
    for thread in late:
        thread.join(PATIENCE)
    assert [answer.status for answer in answers] == [201, 201, 201]
    eventually(lambda: owner("GET", "/readyz").status == 200)
    assert owner.pools() == []
    pool = owner.good("GET", "/v1/pools/p")
    assert (pool["slots_open"], pool["capacity_mismatch"]) == (5, 0)
    servers = other.good("GET", "/v1/pools/p/servers")
    assert sum(len(one["assignments"]) for one in servers) == 5


def test_a_rolling_restart_refuses_no_work(schema: str) -> None:
    """Every node is replaced under load; clients without keys see only what the pool says."""
    with cluster(postgres_url(), schema, 2) as nodes:
        declare(nodes.nodes[0])
        ends, statuses, broken = threading.Event(), [], []
        asked: list[NodeProcess | None] = [None] * 3

        def work(i: int) -> None:
            while not ends.is_set():
                node = nodes.living()[-1]  # the youngest: what a balancer does with readyz
                asked[i] = node
                try:
                    made = node("POST", CREATE, TASK)
                    statuses.append(made.status)
                    if made.status == 201:
                        name = made.body["assignment_id"]
                        statuses.append(node("POST", f"/v1/assignments/{name}:complete").status)
                except OSError as error:
                    broken.append(error)
                    return

        workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for worker in workers:
            worker.start()
        for old in list(nodes.nodes):
            young = nodes.start()
            eventually(lambda one=young: broken or asked == [one] * 3)
            old.stop()
        eventually(lambda: broken or len(statuses) > 20)
        ends.set()
        for worker in workers:
            worker.join(PATIENCE)
        assert broken == []
        assert set(statuses) <= {200, 201}
        left = nodes.living()[0].good("GET", "/v1/pools/p")
        assert (left["slots_open"], left["capacity_mismatch"]) == (0, 0)


def test_pools_spread_over_the_nodes(schema: str) -> None:
    with cluster(postgres_url(), schema, 1) as nodes:
        pools = [f"p{i}" for i in range(4)]
        for pool in pools:
            nodes.nodes[0].good("PUT", f"/v1/pools/{pool}", {})
        assert sorted(nodes.nodes[0].pools()) == pools
        two = nodes.start()
        eventually(lambda: len(two.pools()) == 2)
        assert sorted(nodes.nodes[0].pools() + two.pools()) == pools


def test_clocks_that_differ_by_hours_make_no_difference(schema: str) -> None:
    """The time of a pool is the database's, whoever owns it."""
    with cluster(postgres_url(), schema, 0) as nodes:
        ahead = nodes.start(skew=3600.0)
        declare(ahead, servers=2)
        made = ahead.good("POST", CREATE, TASK)
        behind = nodes.start(skew=-3600.0)
        ahead.kill()
        name = made["assignment_id"]
        done = behind.good("POST", f"/v1/assignments/{name}:complete", {"value": 1.0})
        assert done["state"] == "completed"
        seen = behind.good("GET", "/v1/pools/p/events?limit=1000")["events"]
        times = [one["event"]["time"] for one in seen]
        assert times == sorted(times)
        assert abs(times[0] - time.time()) < 1800
        assert 0 < times[-1] - times[0] < 1800
        assert behind.good("GET", "/v1/pools/p")["slots_open"] == 0


def test_a_soak_with_kills_loses_and_doubles_nothing(tmp_path: Path) -> None:
    schema = "soak_" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]
    settings = SoakSettings(
        seconds=7.0, nodes=3, pools=3, clients=8, every=3.0, pause=0.02, least_kills=2
    )
    found, decisions = soak(schema, settings)
    assert found.kills >= 2
    assert found.assignments == decisions > 0


# ------------------------------------------------------------------------------ bad storage


def test_a_database_without_room_is_a_problem_that_passes(pair: Nodes, schema: str) -> None:
    owner, other = owner_of(pair)
    made = other.good("POST", CREATE, TASK)
    execute(
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
        schema=schema,
    )
    execute(
        "CREATE TRIGGER no_room BEFORE INSERT ON frame EXECUTE FUNCTION no_room()", schema=schema
    )
    for node in (owner, other):
        told: Any = node("POST", CREATE, TASK, idempotency_key="k")
        assert (told.status, told.body["code"]) == (503, "unavailable")
        assert told.headers["retry-after"] == "1"
    assert other.good("GET", "/v1/pools/p")["slots_open"] == 1
    execute("DROP TRIGGER no_room ON frame", schema=schema)
    assert other("POST", CREATE, TASK, idempotency_key="k").status == 201
    assert other.good("GET", f"/v1/assignments/{made['assignment_id']}") == made
    assert other.good("GET", "/v1/pools/p")["slots_open"] == 2
