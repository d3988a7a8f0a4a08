"""What is declared over HTTP, the events that come of it, and the outside of the service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from opportune.errors import InputError
from opportune.service.api.calls import Call
from opportune.service.api.stream import follow_events
from opportune.service.app import create_app
from opportune.service.keys import LOCAL
from opportune.service.node import Node
from opportune.service.settings import ServiceSettings
from opportune.service.storing import state_hash
from tests.service.serving import HERE, Client, declare, servers_of, service

CREATE = "/v1/pools/p/assignments"


# ------------------------------------------------------------------------- declared resources


def test_scores_come_as_csv() -> None:
    with service() as client:
        declare(client, 2)
        put = "/v1/pools/p/scores"
        text = b"\xef\xbb\xbftask,server,score\r\nt,s0,0.25\r\n\r\nt,s1,0.75\r\n"
        told = client.good("PUT", put, text, content_type="text/csv; charset=utf-8")
        assert (told["version"], told["pairs"]) == (2, 2)
        assert servers_of(client.assign()) == ["s1"]
        assert client.good("PUT", put, b"t,s0,0.5", content_type="text/csv")["pairs"] == 1
        told = client.good("PUT", f"{put}?replace=false", b"t,s1,0.9", content_type="text/csv")
        assert told["pairs"] == 2
        assert client.good("GET", put)["version"] == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"t,s0\n", "line 1"),
        (b"t,s0,0.5\nt,s1\n", "line 2"),
        (b"t,s0,0.5\nt,s1,high\n", "line 2"),
        (b"t,s0,0.5\nt,s1,nan\n", "line 2"),
        (b"t,s0,-1\nt,s1,0\n", ""),
        (b"t,s9,0.5\n", "s9"),
        (b"task,server,score\n", "no scores"),
        (b"", "no scores"),
        (b"t,s0,0.5\nt,s0,0.6\n", "s0"),
        (b'"t,s0,0.5\n', ""),
    ],
)
def test_a_csv_with_a_fault_changes_nothing(text: bytes, told: str) -> None:
    with service() as client:
        declare(client, 2)
        before = state_hash(client.node.owner("p").state)
        response = client("PUT", "/v1/pools/p/scores", text, content_type="text/csv")
        assert response.status_code in (400, 404, 422), response.text
        assert told in response.text
        assert state_hash(client.node.owner("p").state) == before


def test_plans_are_made_activated_and_rolled_back() -> None:
    with service() as client:
        declare(client, 3, {"t": [0.9, 0.5, 0.1], "u": [0.8, 0.7, 0.6]})
        base = "/v1/pools/p/plans"
        first = client.good("POST", base, {}, idempotency_key="first")
        assert first == client.good("POST", base, {}, idempotency_key="first")
        assert (first["id"], first["active"]) == ("plan-1", True)
        assert first["bound"] > 0
        second = client.good("POST", base, {"policy": "greedy", "activate": False})
        assert (second["id"], second["active"]) == ("plan-2", False)
        document = client.good("GET", f"{base}/plan-1")["document"]
        assert len(document["demand_price"]) == 2
        assert len(document["capacity_price"]) == 3
        copy = {**document, "id": "copy"}
        assert client("PUT", f"{base}/copy", copy).status_code in (200, 201)
        assert client.good("POST", f"{base}/plan-2:activate")["active"]
        assert client.pool()["plan"] == "plan-2"
        assert client.good("POST", f"{base}:rollback")["id"] == "plan-1"
        assert client.good("POST", f"{base}/plan-2:shadow")["shadow"]
        decision = client.assign("u")["decision_id"]
        why = client.good("GET", f"/v1/decisions/{decision}")["why"]
        assert (why["plan"], why["shadow"]) == ("plan-1", "plan-2")
        assert client("POST", f"{base}:unshadow").status_code < 300
        assert not any(one["shadow"] for one in client.good("GET", base))
        assert [one["id"] for one in client.good("GET", base)] == ["plan-1", "plan-2", "copy"]


def test_a_pool_without_priors_gets_no_plan_and_decides_all_the_same() -> None:
    with service() as client:
        client.good("PUT", "/v1/pools/p", {})
        client.good("PUT", "/v1/pools/p/servers", [{"id": "a"}])
        client.good("PUT", "/v1/pools/p/task-types", [{"id": "t"}])
        told = client.bad(422, "invalid", "POST", "/v1/pools/p/plans", {})
        assert "mean_duration" in json.dumps(told)
        made = client.assign()
        assert made["plan"] is None
        assert made["degraded"]


# ------------------------------------------------------------------------------------- events


def events_of(client: Client, **query: Any) -> Any:
    """A page of events."""
    text = "&".join(f"{key}={value}" for key, value in query.items())
    return client.good("GET", f"/v1/pools/p/events?{text}")


def test_events_are_pages_with_a_cursor() -> None:
    with service() as client:
        declare(client, 2)
        client.complete(client.assign())
        seen, after = [], 0
        while True:
            page = events_of(client, after=after, limit=3)
            if not page["events"] and page["next"] == after:
                break
            seen += page["events"]
            after = page["next"]
        numbers = [one["sequence"] for one in seen]
        assert numbers == sorted(set(numbers))
        kinds = [one["type"] for one in seen]
        assert kinds[0] == "PoolPut"
        assert kinds[-3:] == ["TaskCreated", "Offered", "SlotsMoved"]
        assert "rows" not in next(one for one in seen if one["type"] == "ScoresPut")["event"]


def test_events_are_streamed_from_a_cursor() -> None:
    """What is there already comes at once, what happens meanwhile when it is written."""

    async def follow() -> tuple[str, str]:
        node = Node(ServiceSettings())
        node.load()
        node.start()
        app = create_app(node)
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as http:
            await http.put("/v1/pools/p", json={})
            await http.put("/v1/pools/p/servers", json=[{"id": "a"}, {"id": "b"}])
            await http.put("/v1/pools/p/task-types", json=[{"id": "t"}])
            after = node.owner("p").written
            await http.post(CREATE, json={"task_type": "t"})
            call = Call(node, LOCAL, b"", "", None)
            stream = follow_events(call, "p", after)
            first = [await anext(stream) for _ in range(2)]
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            await http.post("/v1/assignments/p.a1:complete")
            later = await waiting
            await stream.aclose()
        await node.close()
        return b"".join(first).decode(), later.decode()

    first, later = asyncio.run(follow())
    assert first.startswith(": ")
    assert "event: TaskCreated" in first
    assert "event: Offered" in first
    number, kind, data = later.splitlines()[:3]
    assert kind == "event: SlotsMoved"
    assert int(number.removeprefix("id: ")) > 0
    assert json.loads(data.removeprefix("data: "))["state"] == "completed"


def test_a_stream_ends_when_the_service_does() -> None:
    with service() as client:
        declare(client, 2)
        after = client.node.owner("p").written
        headers = {"accept": "text/event-stream", "last-event-id": str(after)}
        client.node.ready = False
        response = client.http.get("/v1/pools/p/events", headers=headers)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.text.startswith(": ")


# -------------------------------------------------------------------------------- the outside


def test_health_and_metrics() -> None:
    with service() as client:
        declare(client, 2)
        client.assign()
        client.complete(client.assign(), value=0.5)
        client("POST", CREATE, {"task_type": "t"})
        client("POST", CREATE, {"task_type": "t"})
        assert client.good("GET", "/livez") == {"status": "alive"}
        assert client.good("GET", "/readyz") == {"status": "ready"}
        text = client("GET", "/metrics").text
        for line in (
            'opportune_decisions_total{pool="p",result="assigned"} 3.0',
            'opportune_decisions_total{pool="p",result="dropped"} 1.0',
            'opportune_capacity_mismatch{pool="p"} 0.0',
            'opportune_assignments_open{pool="p"} 2.0',
            'opportune_blocking_ratio{pool="p"} 0.25',
            'opportune_reward_total{pool="p"} 0.5',
        ):
            assert line in text
        client.node.stop()
        client.bad(503, "unavailable", "GET", "/readyz")


def test_the_document_names_every_path_as_it_is_called() -> None:
    with service() as client:
        paths = client.good("GET", "/openapi.json")["paths"]
        assert "/v1/assignments/{assignment}:complete" in paths
        assert "/v1/pools/{pool}:rank" in paths
        assert not [path for path in paths if "§" in path]
        body = paths["/v1/pools/{pool}/assignments"]["post"]["requestBody"]
        reference = body["content"]["application/json"]["schema"]["$ref"]
        assert reference == "#/components/schemas/CreateTask"


def test_a_server_may_have_any_name() -> None:
    with service() as client:
        declare(client, 0, {"t": []})
        client.good("PUT", "/v1/pools/p/servers/a%3Aaccept", {"id": "a:accept"})
        client.good("PUT", "/v1/pools/p/servers/nurse%2F1", {"id": "nurse/1"})
        client.good("POST", "/v1/pools/p/servers/nurse%2F1:heartbeat")
        client.good("DELETE", "/v1/pools/p/servers/a%3Aaccept")
        assert client.free() == {"nurse/1"}


def test_a_batch_stops_at_the_first_that_is_refused() -> None:
    with service() as client:
        client.good("PUT", "/v1/pools/p", {})
        types = [{"id": "a"}, {"id": "b", "eligible": ["nobody"]}, {"id": "c"}]
        response = client("PUT", "/v1/pools/p/task-types", types)
        listed = {one["settings"]["id"] for one in client.good("GET", "/v1/pools/p/task-types")}
        if response.status_code >= 400:
            assert response.headers["opportune-entry"] == "1"
        assert "a" in listed


def test_settings_are_checked() -> None:
    with (
        pytest.raises(InputError) as error,
        service(port=70_000, rate=0, burst=0, request_timeout=0, grace=-1),
    ):
        raise AssertionError
    fields = {one.field for one in error.value.problems}
    assert fields == {"--port", "--rate", "--burst", "--request-timeout", "--grace"}
