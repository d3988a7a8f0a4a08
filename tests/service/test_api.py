"""The HTTP API: decisions, idempotency, problems and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opportune.service.storing import state_hash
from tests.service.serving import declare, problem_of, servers_of, service

CREATE = "/v1/pools/p/assignments"


@pytest.fixture(params=[True, False], ids=["shortcut", "router"])
def shortcut(request: pytest.FixtureRequest) -> bool:
    """Busy requests go past the framework or through it: every test must not care."""
    return bool(request.param)


# --------------------------------------------------------------------------------- decisions


def test_an_assignment_says_who_and_why(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client, 3, {"t": [0.9, 0.5, 0.1]}, k=2)
        client.good("POST", "/v1/pools/p/plans", {})
        response = client("POST", CREATE, {"task_type": "t", "external_id": "case 7"})
        made = response.json()
        assert response.status_code == 201
        assert servers_of(made) == ["s0", "s1"]
        assert (made["state"], made["plan"], made["degraded"]) == ("accepted", "plan-1", "")
        assert made["servers"][0]["index"] == pytest.approx(
            made["servers"][0]["score"] - made["servers"][0]["opportunity_cost"]
        )
        assert client.good("GET", f"/v1/assignments/{made['assignment_id']}") == made
        why = client.good("GET", f"/v1/decisions/{made['decision_id']}")
        assert why["why"]["n_free"] == 3
        assert [pick["server"] for pick in why["picks"]] == ["s0", "s1"]
        task = client.good("GET", f"/v1/tasks/{made['task_id']}")
        assert (task["state"], task["external_id"]) == ("in_service", "case 7")


def test_a_ranking_takes_nobody(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client, 3, {"t": [0.1, 0.9, 0.5]})
        before = client.node.owner("p").written
        ranking = client.good("POST", "/v1/pools/p:rank", {"task_type": "t"})
        assert [one["id"] for one in ranking["servers"]] == ["s1", "s2", "s0"]
        given = {"task_type": "t", "candidates": ["s0", "s2", "s9"]}
        ranking = client.good("POST", "/v1/pools/p:rank", given)
        assert [one["id"] for one in ranking["servers"]] == ["s2", "s0"]
        assert ranking["excluded"] == ["s9"]
        assert client.node.owner("p").written == before
        assert client.free() == {"s0", "s1", "s2"}


def test_outcomes_may_come_late_twice_and_revised(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        made = client.assign()
        client.complete(made)
        told = {"subject": made["assignment_id"], "value": 0.25}
        client.good("POST", "/v1/outcomes", told)
        again = client("POST", "/v1/outcomes", told)
        assert again.headers["opportune-repeated"] == "true"
        assert client.pool()["reward"] == 0.25
        client.good("POST", "/v1/outcomes", {**told, "value": 1.0, "revision": 1})
        client.good(
            "POST", "/v1/outcomes", {"subject": made["decision_id"], "value": 0.5, "revision": 2}
        )
        assert client.pool()["reward"] == 0.5


def test_offers_are_accepted_declined_and_go_to_others(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client, 3, {"t": [0.9, 0.5, 0.1]}, auto_accept=False)
        made = client.assign()
        name = made["assignment_id"]
        assert made["state"] == "offered"
        declined = client.good("POST", f"/v1/assignments/{name}:decline", {"reason": "lunch"})
        assert [one["state"] for one in declined["servers"]] == ["declined", "offered"]
        stale = {"lease": made["lease"]}
        client.bad(409, "stale-lease", "POST", f"/v1/assignments/{name}:accept", stale)
        taken = client.good("POST", f"/v1/assignments/{name}:accept", {"lease": declined["lease"]})
        assert taken["state"] == "accepted"
        client.good("POST", f"/v1/assignments/{name}:heartbeat")
        client.good("POST", f"/v1/assignments/{name}:release", {"reason": "moved"})
        ended = client.bad(409, "already-ended", "POST", f"/v1/assignments/{name}:complete")
        assert ended["present"]["state"] == "released"
        assert client.free() == {"s0", "s1", "s2"}


def test_waiting_tasks_start_when_a_server_frees(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client, 1, mode="queue")
        first = client.assign()
        response = client("POST", CREATE, {"task_type": "t", "conflicts": []})
        waits = response.json()
        assert response.status_code == 202
        assert (waits["state"], waits["position"]) == ("queued", 1)
        listed = client.good("GET", "/v1/pools/p/tasks")
        assert [task["task_id"] for task in listed] == [waits["task_id"]]
        client.complete(first)
        assert client.good("GET", f"/v1/tasks/{waits['task_id']}")["state"] == "in_service"


# ------------------------------------------------------------------------------- idempotency


def test_the_same_key_gives_the_same_answer_also_after_a_restart(
    shortcut: bool, tmp_path: Path
) -> None:
    database = tmp_path / "p.db"
    with service(database, shortcut) as client:
        declare(client)
        first = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k1")
        again = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k1")
        assert first.status_code == again.status_code == 201
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"
        assert client.pool()["counts"]["created"] == 1
    for _ in range(2):  # from the records behind a snapshot, then from the snapshot
        with service(database, shortcut) as client:
            later = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k1")
            assert later.content == first.content
            other = client("POST", CREATE, {"task_type": "t", "k": 1}, idempotency_key="k1")
            assert other.status_code == 422
            problem_of(other, "key-reused")
            assert client.pool()["counts"]["created"] == 1


def test_a_recorded_drop_is_an_answer_too(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client, 1)
        made = client.assign()
        first = client("POST", CREATE, {"task_type": "t"}, idempotency_key="drop")
        assert first.status_code == 409
        client.complete(made)
        again = client("POST", CREATE, {"task_type": "t"}, idempotency_key="drop")
        assert again.content == first.content
        assert again.headers["retry-after"] == first.headers["retry-after"]
        assert client.pool()["counts"]["dropped"] == 1


def test_a_request_that_changed_nothing_may_be_mended_under_its_key(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        wrong = client("POST", CREATE, {"task_type": "nope"}, idempotency_key="k")
        assert wrong.status_code in (404, 422)
        right = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k")
        assert right.status_code == 201


def test_a_key_that_is_running_is_refused(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        client("POST", CREATE, {"task_type": "t"}, idempotency_key="k")
        memory = client.node.owner("p").keys
        (known,) = memory.dump()
        memory._running.add(known.key)
        response = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k")
        assert response.status_code == 409
        problem_of(response, "still-running")


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_without_sense_is_refused(shortcut: bool, key: str) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        response = client("POST", CREATE, {"task_type": "t"}, idempotency_key=key)
        assert response.status_code == 400
        problem_of(response, "malformed")
        assert client.pool()["counts"] == {}


def test_old_keys_are_forgotten_first() -> None:
    with service(idempotency_keys=2) as client:
        declare(client, 5)
        bodies = [
            client("POST", CREATE, {"task_type": "t"}, idempotency_key=f"k{i}").json()
            for i in range(3)
        ]
        kept = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k2")
        assert kept.json() == bodies[2]
        gone = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k0")
        assert gone.json()["assignment_id"] != bodies[0]["assignment_id"]


def test_a_natural_key_is_the_second_net(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        first = client("POST", CREATE, {"task_type": "t", "external_id": "x"})
        again = client("POST", CREATE, {"task_type": "t", "external_id": "x"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.headers["opportune-repeated"] == "true"
        assert again.json() == first.json()
        other = {"task_type": "t", "external_id": "x", "priority": 1.0}
        client.bad(409, "conflict", "POST", CREATE, other)


# ---------------------------------------------------------------------------------- problems


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "not-found"),
        ("GET", "/v1/pools/q", None, 404, "not-found"),
        ("GET", "/v1/pools/p/servers/s9", None, 404, "not-found"),
        ("GET", "/v1/pools/p/plans/none", None, 404, "not-found"),
        ("GET", "/v1/decisions/p.d7", None, 404, "not-found"),
        ("GET", "/v1/decisions/p.a1", None, 404, "not-found"),
        ("DELETE", "/v1/pools/p", None, 405, "method-not-allowed"),
        ("PATCH", CREATE, {}, 405, "method-not-allowed"),
        ("POST", CREATE, b"{", 400, "malformed"),
        ("POST", CREATE, b"\xff\xfe", 400, "malformed"),
        ("POST", CREATE, b"[" * 100_000, 422, "invalid"),
        ("POST", CREATE, b'{"context":' + b'{"a":' * 100_000, 400, "malformed"),
        ("POST", CREATE, b"", 400, "malformed"),
        ("POST", CREATE, {"task_type": "t", "colour": 1}, 422, "invalid"),
        ("POST", CREATE, {"task_type": 1}, 422, "invalid"),
        ("POST", CREATE, {"task_type": "t", "priority": "high"}, 422, "invalid"),
        ("POST", "/v1/pools/q/assignments", {"task_type": "t"}, 404, "not-found"),
        ("PUT", "/v1/pools/No%20Pool", {}, 422, "invalid"),
        ("PUT", "/v1/pools/p", {"mode": "lifo"}, 422, "invalid"),
        ("PUT", "/v1/pools/p/servers/s0", {"id": "s1"}, 422, "invalid"),
        ("POST", "/v1/pools", {"id": "p"}, 409, "conflict"),
        ("POST", "/v1/pools/p/plans", {"policy": "best"}, 422, "invalid"),
        ("POST", "/v1/pools/p/plans:rollback", None, 409, "conflict"),
        ("POST", "/v1/pools/p:rank", {"task_type": "t", "scores": []}, 422, "invalid"),
        ("GET", "/v1/pools/p/events?after=-1", None, 422, "invalid"),
        ("GET", "/v1/pools/p/events?limit=x", None, 422, "invalid"),
        ("GET", "/v1/pools/%FF", None, 404, "not-found"),
    ],
)
def test_a_refusal_is_a_problem(
    shortcut: bool, method: str, path: str, body: Any, status: int, code: str
) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        before = state_hash(client.node.owner("p").state)
        problem = client.bad(status, code, method, path, body)
        assert problem["detail"]
        assert state_hash(client.node.owner("p").state) == before


def test_a_problem_names_the_field(shortcut: bool) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        told = client.bad(422, "invalid", "POST", CREATE, {"task_type": "t", "k": 0})
        assert told["problems"] == [{"field": "k", "value": "0", "expected": "`int` >= 1"}]
        wrong = [{"id": "a"}, {"id": "b", "capacity": -1}]
        told = client.bad(422, "invalid", "PUT", "/v1/pools/p/servers", wrong)
        assert told["problems"][0]["field"] == "[1].capacity"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "text/csv"])
def test_only_json_is_read(shortcut: bool, kind: str) -> None:
    with service(shortcut=shortcut) as client:
        declare(client)
        response = client("POST", CREATE, b'{"task_type":"t"}', content_type=kind)
        assert response.status_code == 415
        problem_of(response, "unsupported-media-type")


def test_large_requests_are_refused_before_they_are_read(shortcut: bool) -> None:
    with service(shortcut=shortcut, body_limit=1000, bulk_limit=5000) as client:
        declare(client)
        big = {"task_type": "t", "context": {"x": "y" * 2000}}
        client.bad(413, "too-large", "POST", CREATE, big)
        streamed = client.http.request(
            "POST",
            CREATE,
            content=iter([b'{"task_type":', b'"' + b"t" * 2000 + b'"}']),
            headers={"content-type": "application/json"},
        )
        assert streamed.status_code == 413
        servers = [{"id": "z" * 100 + str(i)} for i in range(20)]
        client.good("PUT", "/v1/pools/p/servers", servers)
        client.bad(413, "too-large", "PUT", "/v1/pools/p/servers", servers * 3)


def test_a_caller_that_asks_too_much_waits(shortcut: bool) -> None:
    with service(shortcut=shortcut, rate=0.001, burst=5) as client:
        answers = [client("GET", "/livez").status_code for _ in range(7)]
        assert answers == [200] * 5 + [429] * 2
        response = client("POST", CREATE, {"task_type": "t"})
        assert int(response.headers["retry-after"]) >= 1
        problem_of(response, "rate-limited")
