"""``cases.md``, section C, over HTTP: assignments, servers and time that went wrong elsewhere."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from opportune.service.app import create_app
from opportune.service.node import Node
from opportune.service.settings import ServiceSettings
from opportune.service.storing import state_hash
from tests.service.serving import HERE, Client, declare, servers_of, service


@pytest.mark.parametrize("k", [5, 0, -1, 2.5, "2", True])
def test_more_servers_than_there_are_are_refused(k: Any) -> None:
    """simmer#36: such a request waited for ever."""
    with service() as client:
        declare(client, servers=3)
        body = {"task_type": "t", "k": k}
        client.bad(422, "invalid", "POST", "/v1/pools/p/assignments", body)
        assert client.pool()["counts"] == {}


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, {"deep": [2**70]}])
@pytest.mark.parametrize("external", [None, "e1"])
def test_numbers_that_the_journal_cannot_hold_are_refused(value: Any, external: str | None) -> None:
    with service() as client:
        declare(client, servers=3)
        client("PUT", "/v1/pools/p", {"context": ["ticket"]})
        body = {"task_type": "t", "external_id": external, "context": {"ticket": value}}
        told = client.bad(422, "invalid", "POST", "/v1/pools/p/assignments", body)
        assert told["problems"][0]["field"] == "context.ticket"
        body["context"] = {"ticket": 2**64 - 1, "other": "left out"}
        assert client("POST", "/v1/pools/p/assignments", body).status_code == 201


def test_too_few_permitted_servers_drop_one_task_only() -> None:
    """openreview-matcher#248: the whole run was given up."""
    with service() as client:
        declare(client, 4, {"t": [0.9, 0.8, None, None], "u": [0.1, 0.1, 0.5, 0.4]}, k=2)
        busy = client.assign("u", k=1, pins=["s0"])
        dropped = client.bad(409, "no-capacity", "POST", "/v1/pools/p/tasks", {"task_type": "t"})
        assert dropped["decision"]["why"]["n_free"] == 1
        assert dropped["decision"]["picks"] == []
        assert sorted(servers_of(client.assign("u"))) == ["s2", "s3"]
        client.complete(busy)
        assert sorted(servers_of(client.assign("t"))) == ["s0", "s1"]


def test_every_accepted_task_has_k_distinct_free_permitted_servers() -> None:
    """openreview-matcher#101: a promised number was not kept."""
    chance = random.Random(4)
    allowed = {f"t{v}": [0.5 if (v + r) % 4 else None for r in range(9)] for v in range(3)}
    with service() as client:
        declare(client, 9, allowed, k=3)
        held: dict[str, list[str]] = {}
        for _ in range(300):
            task_type = f"t{chance.randrange(3)}"
            answer = client("POST", "/v1/pools/p/assignments", {"task_type": task_type})
            if answer.status_code == 201:
                servers = servers_of(answer.json())
                taken = {server for one in held.values() for server in one}
                assert len(set(servers)) == 3
                assert not taken.intersection(servers)
                assert all(allowed[task_type][int(server[1:])] for server in servers)
                held[answer.json()["assignment_id"]] = servers
            else:
                assert answer.json()["code"] == "no-capacity"
            if held and chance.random() < 0.6:
                name = chance.choice(sorted(held))
                assert client.complete(name).status_code == 200
                del held[name]
        assert client.pool()["slots_open"] == 3 * len(held)


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "servers", [{"id": "s", "capacity": "inf"}], "capacity"),
        ("PUT", "servers", [{"id": "s", "capacity": 1e400}], "capacity"),
        ("PUT", "task-types", [{"id": "t", "mean_duration": "3"}], "mean_duration"),
        ("PUT", "task-types", [{"id": "t", "rate": "0,1"}], "rate"),
        ("PUT", "task-types", [{"id": "t", "mean_duration": 0}], "mean_duration"),
        ("PUT", "task-types", [{"id": "t", "mean_duration": -3}], "mean_duration"),
    ],
)
def test_numbers_as_text_and_impossible_numbers_are_refused(
    method: str, path: str, body: Any, field: str
) -> None:
    """Ciw#83, mongo-python-driver#1758: they failed later, in arithmetic."""
    with service() as client:
        declare(client)
        before = state_hash(client.node.owner("p").state)
        if body == [{"id": "s", "capacity": float("inf")}]:
            raw = b'[{"id":"s","capacity":1e400}]'
            response = client(method, f"/v1/pools/p/{path}", raw)
        else:
            response = client(method, f"/v1/pools/p/{path}", body)
        assert response.status_code in (400, 422), response.text
        assert field in response.text or "out of range" in response.text
        assert state_hash(client.node.owner("p").state) == before


def test_an_old_completion_does_not_free_the_server_that_came_back() -> None:
    """llm-d#1950: the end of the old request was booked on the new server: minus one."""
    with service() as client:
        declare(client, servers=1)
        a = client.assign()
        client.good("DELETE", "/v1/pools/p/servers/s0")
        client.good("PUT", "/v1/pools/p/servers/s0", {"id": "s0"})
        b = client.assign()
        assert client.complete(a).status_code == 200
        assert client.free() == set()
        assert client.pool()["slots_open"] == 1
        assert client.complete(b).status_code == 200
        assert client.free() == {"s0"}
        assert client.pool()["slots_open"] == 0


def test_a_completion_of_nothing_changes_nothing() -> None:
    """litellm#39322: completions without a start drove a counter below zero."""
    with service() as client:
        declare(client)
        before = state_hash(client.node.owner("p").state)
        for name in ("nope", "p.a1", "p.a0", "p.t1", "q.a1", "p.a99999999999999999999"):
            client.bad(404, "not-found", "POST", f"/v1/assignments/{name}:complete")
        assert state_hash(client.node.owner("p").state) == before
        assert client.free() == {"s0", "s1", "s2"}


def test_the_same_completion_twice_counts_once_also_after_a_restart(tmp_path: Path) -> None:
    """restate#1972: both of two completions were delivered."""
    database = tmp_path / "p.db"
    with service(database) as client:
        declare(client)
        name = client.assign()["assignment_id"]
        first = client.complete(name, value=0.5)
        again = client.complete(name, value=0.5)
        assert again.json() == first.json()
        assert "opportune-repeated" not in first.headers
        assert again.headers["opportune-repeated"] == "true"
    with service(database) as client:
        again = client.complete(name, value=0.5)
        assert again.status_code == 200
        assert again.headers["opportune-repeated"] == "true"
        pool = client.pool()
        assert (pool["reward"], pool["counts"]["done"]) == (0.5, 1)


def test_a_cancelled_task_gives_back_exactly_its_servers() -> None:
    """salabim#54: the clerk stayed occupied."""
    with service() as client:
        declare(client, servers=7, k=3)
        first, second = client.assign(), client.assign()
        idle = client.free()
        assert client.good("POST", f"/v1/tasks/{first['task_id']}:cancel")["state"] == "cancelled"
        assert client.free() == idle | set(servers_of(first))
        assert client.pool()["slots_open"] == 3
        assert client.complete(second).status_code == 200
        assert len(client.free()) == 7


def test_servers_of_one_task_return_together_but_not_one_that_left() -> None:
    """ConcurrentSim#7: two units were tracked as one, and one came back."""
    with service() as client:
        declare(client, servers=3, k=2)
        both = client.assign()
        client.complete(both)
        assert client.free() == {"s0", "s1", "s2"}
        again = client.assign()
        gone, stays = servers_of(again)
        client.good("DELETE", f"/v1/pools/p/servers/{gone}")
        assert client.complete(again).status_code == 200
        assert client.free() == {"s0", "s1", "s2"} - {gone}
        assert stays in client.free()


def test_concurrent_callers_share_one_ledger() -> None:
    """litellm#871: each thread had its own idea of who is busy."""

    async def talk() -> tuple[dict[str, str], int, int]:
        node = Node(ServiceSettings())
        transport = httpx.ASGITransport(create_app(node))  # type: ignore[arg-type]
        node.load()
        node.start()
        held: dict[str, str] = {}
        drops = 0

        async def caller(http: httpx.AsyncClient) -> None:
            nonlocal drops
            for _ in range(100):
                made = await http.post("/v1/pools/p/assignments", json={"task_type": "t"})
                if made.status_code == 409:
                    drops += 1
                    continue
                name, (server,) = made.json()["assignment_id"], servers_of(made.json())
                assert server not in held, "two tasks on one server"
                held[server] = name
                await asyncio.sleep(0)
                del held[server]  # before it can be given to another
                done = await http.post(f"/v1/assignments/{name}:complete")
                assert done.status_code == 200

        async with httpx.AsyncClient(transport=transport, base_url=HERE) as http:
            await http.put("/v1/pools/p", json={})
            await http.put("/v1/pools/p/servers", json=[{"id": f"s{r}"} for r in range(5)])
            await http.put("/v1/pools/p/task-types", json=[{"id": "t"}])
            await asyncio.gather(*(caller(http) for _ in range(8)))
            pool = (await http.get("/v1/pools/p")).json()
        await node.close()
        assert pool["capacity_mismatch"] == 0
        assert pool["counts"].get("dropped", 0) == drops
        return held, pool["slots_open"], pool["counts"]["created"]

    held, slots_open, created = asyncio.run(talk())
    assert (held, slots_open, created) == ({}, 0, 800)


def test_a_drop_says_when_to_come_again() -> None:
    """litellm#3646: an error, and no hint when to retry."""
    with service() as client:
        declare(client, servers=2)
        client.assign()
        client.assign()
        response = client("POST", "/v1/pools/p/assignments", {"task_type": "t"})
        problem = response.json()
        assert response.status_code == 409
        assert 0 < problem["retry_after"] <= 5.0
        assert problem["expected_free"] == pytest.approx(
            problem["decision"]["time"] + problem["retry_after"], abs=0.1
        )
        assert 1 <= int(response.headers["retry-after"]) <= 5


def test_nobody_is_busy_for_longer_than_time_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """simmer#67: activity times exceeded the stay. A task a second, a second each, two servers."""
    with service() as client:
        declare(client, servers=2)
        owner, clock = client.node.owner("p"), [3e9]
        monkeypatch.setattr(owner, "now", lambda: clock[0])
        busy = {"s0": 0.0, "s1": 0.0}
        for _ in range(50):
            made = client.assign()
            clock[0] += 1.0
            done = client.complete(made).json()
            busy[servers_of(done)[0]] += done["ended_at"] - done["started_at"]
        assert sum(busy.values()) == pytest.approx(50.0)
        assert all(seconds <= 50.0 + 1e-6 for seconds in busy.values())


def test_a_clock_set_back_makes_no_negative_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd#12291, bytewax#479: negative time left; an assertion stopped the flow."""
    with service() as client:
        declare(client)
        owner, clock = client.node.owner("p"), [2e9]
        monkeypatch.setattr(owner, "now", lambda: clock[0])
        first = client.assign()
        clock[0] -= 3600.0
        second = client.assign()
        done = client.complete(first).json()
        assert second["created_at"] >= first["created_at"]
        assert second["deadline"] > second["created_at"]
        assert done["ended_at"] >= done["started_at"]
        clock[0] += 7200.0
        assert client.assign()["created_at"] == clock[0]


def test_names_stay_what_they_are_across_a_restart(tmp_path: Path) -> None:
    """rl-swarm#461: JSON turned integer keys into strings, so every look-up missed."""
    names = ["1", "01", "Zoë", "nurse/1", "a b:c?d#e%2F", "⚕"]

    def ask(client: Client) -> list[str]:
        found = []
        for _ in names:
            made = client.assign()
            found += servers_of(made)
        for name in sorted(found):
            assert quoted(client, name)["state"] == "busy"
        return found

    def quoted(client: Client, name: str) -> Any:
        path = "".join(f"%{byte:02X}" for byte in name.encode())
        return client.good("GET", f"/v1/pools/p/servers/{path}")

    database = tmp_path / "p.db"
    with service(database) as client:
        declare(client, servers=0, scores={"t": []})
        client.good("PUT", "/v1/pools/p/servers", [{"id": name} for name in names])
        rows = [["t", name, 0.9 - 0.1 * i] for i, name in enumerate(names)]
        client.good("PUT", "/v1/pools/p/scores", {"rows": rows, "replace": True})
        for wrong in (1, None, ["a", "b"], {"a": 1}, "", "a\nb"):
            assert client("PUT", "/v1/pools/p/servers", [{"id": wrong}]).status_code == 422
        assert ask(client) == names
        before = state_hash(client.node.owner("p").state)
    with service(database) as client:
        assert state_hash(client.node.owner("p").state) == before
        for number in range(len(names)):
            assert client.complete(f"p.a{number + 1}").status_code == 200
        assert client.free() == set(names)
        assert ask(client) == names
