"""Who may ask what: API keys, scopes, exposure, and what only an administrator sees."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from opportune.cli import run
from opportune.errors import InputError
from opportune.service.app import create_app
from opportune.service.keys import KeyFile
from opportune.service.limits import RateLimit
from opportune.service.node import Node
from opportune.service.settings import (
    ServiceSettings,
    check_exposure,
    is_loopback,
    key_file_beside,
)
from tests.service.serving import Client, declare, problem_of, service

CREATE = "/v1/pools/p/assignments"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def bearer(key: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def guarded(keys: KeyFile) -> Iterator[tuple[Client, dict[str, dict[str, str]]]]:
    """A service with one key per scope, and a pool."""
    shown = {scope: bearer(keys.create([scope])) for scope in ("decide", "report", "read", "admin")}
    with service(keys=keys.path) as client:
        client.http.headers.update(shown["admin"])
        declare(client, 3, {"t": [0.9, 0.5, 0.1]})
        del client.http.headers["authorization"]
        yield client, shown


NEEDS = [
    ("decide", "POST", CREATE, {"task_type": "t"}),
    ("decide", "POST", "/v1/pools/p/tasks", {"task_type": "t"}),
    ("decide", "POST", "/v1/pools/p:rank", {"task_type": "t"}),
    ("decide", "POST", "/v1/tasks/p.t1:cancel", None),
    ("report", "POST", "/v1/assignments/p.a1:complete", None),
    ("report", "POST", "/v1/assignments/p.a1:decline", None),
    ("report", "POST", "/v1/outcomes", {"subject": "p.a1", "value": 1.0}),
    ("report", "POST", "/v1/pools/p/servers/s0:heartbeat", None),
    ("read", "GET", "/v1/pools", None),
    ("read", "GET", "/v1/pools/p", None),
    ("read", "GET", "/v1/pools/p/servers", None),
    ("read", "GET", "/v1/assignments/p.a1", None),
    ("read", "GET", "/v1/decisions/p.d1", None),
    ("read", "GET", "/v1/pools/p/events", None),
    ("read", "GET", "/metrics", None),
    ("admin", "PUT", "/v1/pools/p", {}),
    ("admin", "PUT", "/v1/pools/p/servers/s0", {"id": "s0"}),
    ("admin", "DELETE", "/v1/pools/p/servers/s2", None),
    ("admin", "PUT", "/v1/pools/p/scores", {"rows": []}),
    ("admin", "POST", "/v1/pools/p/plans", {}),
    ("admin", "GET", "/v1/pools/p/audit", None),
]


@pytest.mark.parametrize(("scope", "method", "path", "body"), NEEDS)
def test_a_request_needs_its_scope(
    guarded: Any, scope: str, method: str, path: str, body: Any
) -> None:
    client, shown = guarded
    for held, header in shown.items():
        response = client(method, path, body, **header)
        if held in (scope, "admin"):
            assert response.status_code not in (401, 403), response.text
        else:
            assert response.status_code == 403
            assert repr(scope) in problem_of(response, "forbidden")["detail"]
    response = client(method, path, body)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    problem_of(response, "unauthenticated")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/openapi.json"])
def test_health_needs_no_key(guarded: Any, path: str) -> None:
    client, _ = guarded
    assert client("GET", path).status_code == 200


def test_wrong_keys_are_no_keys(guarded: Any, keys: KeyFile) -> None:
    client, shown = guarded
    good = shown["read"]["authorization"]
    other = shown["admin"]["authorization"].rpartition("_")[2]
    prefix = good.split("_")[1]
    for wrong in (
        good[:-1],
        good + "x",
        good.replace("opp", "key"),
        good.replace("Bearer", "Basic"),
        f"Bearer opp_{prefix}_{other}",
        f"Bearer opp_{prefix}_",
        "Bearer opp__",
        "Bearer ",
        "Bearer é",
        good.removeprefix("Bearer "),
    ):
        response = client("GET", "/v1/pools", authorization=wrong.encode("latin-1", "replace"))
        assert response.status_code == 401, wrong


def test_a_new_key_counts_and_a_revoked_one_ends_while_the_service_runs(
    keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opportune.service.keys.LOOK_AGAIN", 0.0)
    with service(keys=keys.path) as client:
        declare(client)  # without keys, on this machine, everything is allowed
        key = keys.create(["read"])
        assert client("GET", "/v1/pools/p").status_code == 401
        assert client("GET", "/v1/pools/p", **bearer(key)).status_code == 200
        keys.revoke(key.split("_")[1])
        assert client("GET", "/v1/pools/p", **bearer(key)).status_code == 401
        assert client("GET", "/v1/pools/p").status_code == 401  # nobody is let in again


def test_only_hashes_are_stored_and_only_the_owner_reads_them(keys: KeyFile) -> None:
    key = keys.create(["decide", "report"], "router in the west")
    text = keys.path.read_text(encoding="utf-8")
    assert key.rpartition("_")[2] not in text
    assert len(key.split("_", 2)[2]) >= 43  # 256 bits
    assert stat.S_IMODE(os.stat(keys.path).st_mode) == 0o600
    (stored,) = KeyFile(keys.path).keys
    assert (stored.scopes, stored.note) == (["decide", "report"], "router in the west")


def test_what_others_may_not_see(guarded: Any) -> None:
    """Conflicts and the reasons of exclusion: `read` does not see them, `admin` does."""
    client, shown = guarded
    body = {"task_type": "t", "conflicts": ["s0"], "external_id": "paper"}
    made = client.good("POST", CREATE, body, **shown["decide"])
    task, decision = f"/v1/tasks/{made['task_id']}", f"/v1/decisions/{made['decision_id']}"
    events = "/v1/pools/p/events"
    assert client.good("GET", task, **shown["admin"])["conflicts"] == ["s0"]
    full = client.good("GET", decision, **shown["admin"])
    assert full["why"]["excluded"] == [{"server": "s0", "reason": "conflict"}]
    assert client.good("GET", task, **shown["read"])["conflicts"] == []
    for path in (task, decision, events, f"/v1/assignments/{made['assignment_id']}"):
        shown_to_read = json.dumps(client.good("GET", path, **shown["read"]))
        assert '"excluded": [{' not in shown_to_read
        assert "conflict" not in shown_to_read.replace('"conflicts": []', "")
    assert '"conflicts": ["s0"]' in json.dumps(client.good("GET", events, **shown["admin"]))


@pytest.mark.parametrize("mode", ["loss", "queue"])
def test_no_reply_tells_conflicts_to_who_is_no_administrator(guarded: Any, mode: str) -> None:
    """Whoever may decide learned the conflicts of any task by canceling it, even an ended one."""
    client, shown = guarded
    client.good("PUT", "/v1/pools/p", {"mode": mode}, **shown["admin"])
    asked: list[tuple[str, Any, dict[str, str]]] = []
    for number in range(5):  # three servers: the last ones wait, or are dropped
        body = {"task_type": "t", "conflicts": ["s0"], "external_id": f"paper {number}"}
        asked += [(CREATE, body, {"idempotency_key": f"k{number}"})] * 2
        asked += [(CREATE, body, {})]  # known by its external id
    asked += [(f"/v1/tasks/p.t{number}:cancel", None, {}) for number in (1, 4, 4)]
    told = [client("POST", path, body, **key, **shown["decide"]) for path, body, key in asked]
    assert {one.status_code for one in told} == {201, 200, 202 if mode == "queue" else 409}
    for one in told:
        text = one.text.replace('"conflicts":[]', "").replace('"code":"conflict"', "")
        assert '"conflict' not in text
        assert "excluded" not in text
    full = client("POST", "/v1/tasks/p.t4:cancel", **shown["admin"]).text
    assert '"conflicts":["s0"]' in full


def test_what_administrators_do_is_noted_with_who_and_what(guarded: Any) -> None:
    client, shown = guarded
    client.good("DELETE", "/v1/pools/p/servers/s2", **shown["admin"])
    client.good("POST", CREATE, {"task_type": "t"}, **shown["decide"])
    latest = client.good("GET", "/v1/pools/p/audit", **shown["admin"])[0]
    assert latest["action"] == "DELETE /v1/pools/p/servers/s2"
    assert latest["who"] == shown["admin"]["authorization"].split("_")[1]
    assert latest["status"] == 200


def test_one_callers_idempotency_key_is_not_anothers(keys: KeyFile) -> None:
    one, two = (bearer(keys.create(["admin"])) for _ in range(2))
    with service(keys=keys.path) as client:
        client.http.headers.update(one)
        declare(client)
        first = client.good("POST", CREATE, {"task_type": "t"}, idempotency_key="k", **one)
        second = client.good("POST", CREATE, {"task_type": "t"}, idempotency_key="k", **two)
        assert first["assignment_id"] != second["assignment_id"]


# ----------------------------------------------------------------------------------- exposure


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_nobody_is_open_to_the_network_by_accident(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--insecure"):
        check_exposure(host, 0, insecure=False)
    check_exposure(host, 1, insecure=False)
    check_exposure(host, 0, insecure=True)
    node = Node(ServiceSettings(host=host))
    with pytest.raises(InputError, match="opportune keys create"):
        create_app(node)


def test_serve_refuses_to_be_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = tmp_path / "p.db"
    assert run(["serve", "--host", "0.0.0.0", "--port", "0", "--database", str(database)]) == 1
    assert "--insecure" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1"])
def test_this_machine_is_this_machine(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, 0, insecure=False)


def test_a_page_in_a_browser_does_not_reach_an_open_service() -> None:
    """No key is needed on this machine: a foreign Host (rebinding) or Origin is refused."""
    with service() as client:
        for header in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            response = client("GET", "/v1/pools", **header)
            assert response.status_code == 403
            problem_of(response, "forbidden")
        assert client("GET", "/v1/pools", origin="http://localhost:3000").status_code == 200
        assert client("GET", "/v1/pools", host="[::1]:8080").status_code == 200


# --------------------------------------------------------------------------------- the command


def test_keys_are_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--database", str(tmp_path / "p.db")]
    assert run(["keys", "create", "--scope", "decide", "--scope", "report", *where]) == 0
    key = capsys.readouterr().out.strip()
    caller = KeyFile(key_file_beside(tmp_path / "p.db")).caller(key)
    assert caller is not None
    assert caller.scopes == {"decide", "report"}
    assert run(["keys", "list", *where, "--format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["keys"]
    assert (listed["prefix"], listed["scopes"]) == (caller.name, "decide report")
    assert run(["keys", "revoke", "nobody", *where]) == 1
    assert run(["keys", "revoke", caller.name, *where]) == 0
    assert KeyFile(key_file_beside(tmp_path / "p.db")).keys == ()
    assert run(["keys", "create", "--scope", "everything", *where]) == 1
    assert "decide, report, read, admin" in capsys.readouterr().err


def test_keys_that_are_made_at_once_are_all_kept(tmp_path: Path) -> None:
    """Each read the file, added its own key, and wrote: the last one won."""
    path = tmp_path / "keys.json"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: KeyFile(path).create(["read"], str(i)), range(24)))
    kept = KeyFile(path)
    assert [kept.caller(key) is not None for key in made] == [True] * 24
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: KeyFile(path).revoke(key.split("_")[1]), made[:12]))
    assert len(KeyFile(path).keys) == 12


def test_keys_that_cannot_be_written_leave_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    first = keys.create(["read"])

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left"):
        keys.create(["admin"])
    monkeypatch.undo()
    assert [one.name for one in tmp_path.glob("*.new")] == []
    assert KeyFile(keys.path).caller(first) is not None
    assert len(KeyFile(keys.path).keys) == 1


def test_a_file_of_keys_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="opportune keys"):
        KeyFile(path)


# ---------------------------------------------------------------------------------- the bucket


def test_a_bucket_fills_with_time_and_not_beyond() -> None:
    limit = RateLimit(2.0, 3)
    assert [limit.wait("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limit.wait("a", 0.0) == pytest.approx(0.5)
    assert limit.wait("b", 0.0) == 0.0
    assert limit.wait("a", 0.5) == 0.0
    assert limit.wait("a", 0.5) > 0.0
    assert [limit.wait("a", 1000.0) > 0.0 for _ in range(4)] == [False, False, False, True]
    assert RateLimit(None, 1).wait("a", 0.0) == 0.0
