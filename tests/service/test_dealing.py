"""A split pool over HTTP: one pool to its callers, whatever sub-pool does the work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from opportune.service.dealing import sub_pools
from tests.service.serving import Client, declare, servers_of, service
from tests.waiting import eventually

PLACES = ["p", *sub_pools("p", 3)]


def where(client: Client) -> dict[str, list[str]]:
    """Places in which each server is; never more than one."""

    def look() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for place in PLACES:
            owner = client.node.owners.get(place)
            if owner is not None:
                for server in owner.state.servers:
                    at = found.setdefault(server.settings.id, [])
                    if server.here:
                        at.append(place)
        return found

    found = client.between(look)
    assert all(len(at) <= 1 for at in found.values()), found
    return found


def arrived(client: Client, *places: str) -> Counter[str]:
    """How many servers each place has, once nobody is on the way."""

    def look() -> Counter[str] | None:
        seen = where(client)
        found = Counter(at[0] for at in seen.values() if at)
        return found if found.total() == len(seen) and set(found) <= set(places) else None

    counted: Counter[str] = eventually(look)
    return counted


def split(client: Client, servers: int = 9, **pool: Any) -> None:
    """A pool of servers in three sub-pools."""
    declare(client, servers, {"t": [1.0] * servers}, **pool)
    client.good("PUT", "/v1/pools/p", {"partitions": 3, **pool})
    assert arrived(client, *PLACES[1:]) == dict.fromkeys(PLACES[1:], 3)


def test_callers_see_one_pool() -> None:
    with service() as client:
        split(client)
        assert client.good("GET", "/v1/pools") == {"pools": ["p"]}
        assert client.pool()["servers"] == client.pool()["servers_free"] == 9
        made = [client.assign() for _ in range(9)]
        assert len({one["assignment_id"] for one in made}) == 9
        assert {one["assignment_id"].partition(".")[0] for one in made} == set(PLACES[1:])
        assert Counter(server for one in made for server in servers_of(one)) == {
            f"s{r}": 1 for r in range(9)
        }
        client.bad(409, "no-capacity", "POST", "/v1/pools/p/assignments", {"task_type": "t"})
        seen = client.pool()
        assert (seen["slots_open"], seen["tasks_open"], seen["servers_free"]) == (9, 9, 0)
        assert (seen["counts"]["created"], seen["counts"]["dropped"]) == (10, 1)
        servers = client.good("GET", "/v1/pools/p/servers")
        assert [one["settings"]["id"] for one in servers] == [f"s{r}" for r in range(9)]
        assert {one["state"] for one in servers} == {"busy"}
        for one in made:
            assert client.complete(one, value=2.0).status_code == 200
        assert client.pool()["reward"] == 18.0
        assert len(client.free()) == 9


def test_a_retry_comes_to_the_same_sub_pool_also_when_their_number_has_changed() -> None:
    with service() as client:
        split(client)
        body = {"task_type": "t", "external_id": "order-7"}
        first = client.good("POST", "/v1/pools/p/assignments", body)
        again = client("POST", "/v1/pools/p/assignments", body)
        assert (again.status_code, again.json()) == (200, first)
        client.good("PUT", "/v1/pools/p", {"partitions": 2})
        assert client("POST", "/v1/pools/p/assignments", body).json() == first
        keyed = {"task_type": "t"}
        one = client("POST", "/v1/pools/p/assignments", keyed, idempotency_key="k-1").json()
        for _ in range(3):
            two = client("POST", "/v1/pools/p/assignments", keyed, idempotency_key="k-1")
            assert two.json() == one


def test_busy_servers_move_when_they_are_free() -> None:
    with service() as client:
        split(client)
        made = [client.assign() for _ in range(9)]
        before = where(client)
        client.good("PUT", "/v1/pools/p", {"partitions": 1})
        assert where(client) == before  # all of them are busy
        for one in made[:4]:
            assert client.complete(one).status_code == 200
        eventually(lambda: list(where(client).values()).count(["p"]) == 4)
        assert client.pool()["servers_free"] == 4
        for one in made[4:]:
            assert client.complete(one).status_code == 200
        assert arrived(client, "p") == {"p": 9}
        assert client.assign()["assignment_id"].startswith("p.a")


def test_servers_are_dealt_anew_every_period() -> None:
    with service() as client:
        split(client, deal_period=0.05)
        seen = set()

        def look() -> bool:
            places = where(client)
            if all(places.values()):
                seen.add(str(sorted((name, *at) for name, at in places.items())))
            return len(seen) >= 4

        eventually(look)
        number = client.node.owner("p").state.deal.number
        assert number >= 4


def test_what_is_declared_reaches_every_sub_pool() -> None:
    with service() as client:
        split(client)
        client.good("PUT", "/v1/pools/p/servers/new", {"id": "new"})
        assert sum(arrived(client, *PLACES[1:]).values()) == 10
        client.good("PUT", "/v1/pools/p/scores", {"rows": [["t", "new", 5.0]]})
        client.good("PUT", "/v1/pools/p/servers/s0", {"id": "s0", "drain": True})
        client.good("DELETE", "/v1/pools/p/servers/s1")
        states = {
            one["settings"]["id"]: one["state"] for one in client.good("GET", "/v1/pools/p/servers")
        }
        assert states["s0"] == "draining"
        assert "s1" not in states
        assert states["new"] == "free"
        plan = client.good("POST", "/v1/pools/p/plans", {"id": "lag-1"})
        asked = [client("POST", "/v1/pools/p/assignments", {"task_type": "t"}) for _ in range(30)]
        made = [one.json() for one in asked if one.status_code == 201]
        assert len(made) == 8
        assert {one["plan"] for one in made} == {plan["id"]} == {"lag-1"}
        assert "new" in [server for one in made for server in servers_of(one)]
        for place in PLACES[1:]:
            state = client.node.owner(place).state
            assert [one.settings.id for one in state.servers] == [
                one.settings.id for one in client.node.owner("p").state.servers
            ]


def test_a_sub_pool_takes_no_declarations() -> None:
    with service() as client:
        split(client)
        client.bad(409, "conflict", "PUT", "/v1/pools/p--1/servers/x", {"id": "x"})
        client.bad(422, "invalid", "PUT", "/v1/pools/p--1", {})
        client.bad(422, "invalid", "PUT", "/v1/pools/q--1", {})
        client.bad(422, "invalid", "PUT", "/v1/pools/q", {"part_of": "p"})
        client.bad(422, "invalid", "PUT", f"/v1/pools/{'q' * 60}", {"partitions": 2})
        client.bad(422, "invalid", "PUT", "/v1/pools/q", {"partitions": 2, "replan": "active"})


def test_tasks_that_wait_are_listed_and_ranked_over_all(tmp_path: Path) -> None:
    with service(tmp_path / "p.db") as client:
        split(client, mode="queue")
        for _ in range(9):
            client.assign()
        body = client.good("POST", "/v1/pools/p/assignments", {"task_type": "t"})
        assert body["state"] == "queued"
        assert [one["task_id"] for one in client.good("GET", "/v1/pools/p/tasks")] == [
            body["task_id"]
        ]
        assert client.pool()["tasks_waiting"] == 1
        ranked = client.good("POST", "/v1/pools/p:rank", {"task_type": "t"})
        assert ranked["servers"] == []
    with service(tmp_path / "p.db") as client:
        assert client.pool()["slots_open"] == 9
        assert client.pool()["tasks_waiting"] == 1
        assert arrived(client, *PLACES[1:]) == dict.fromkeys(PLACES[1:], 3)
