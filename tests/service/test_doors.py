"""What a later stage would refuse is refused at the door, by field, value and remedy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.model.checks import name_problems
from opportune.service import commands
from opportune.service.answers import Answer
from opportune.service.engine import decide
from opportune.service.idempotency import KeyMemory
from opportune.service.keys import KeyFile
from opportune.service.memory import MemoryJournal
from opportune.service.owner import PoolOwner
from opportune.service.planning import plan_pool
from opportune.service.resources import (
    PoolSettings,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service.state import State
from tests.service.serving import declare, problem_of, service

CREATE = "/v1/pools/p/assignments"
UGLY = ["b\u202e", "\u200b", " a", "a ", "\u00ad", "\u2028", "a\u00a0b", "\ue000", "\x85"]


@pytest.mark.parametrize("name", UGLY)
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("servers", [{"id": None}], "id"),
        ("task-types", [{"id": None}], "id"),
        ("", {"context": [None]}, "context"),
        ("plans", {"id": None}, "id"),
    ],
)
def test_names_that_no_file_may_hold_are_refused(
    name: str, path: str, body: Any, field: str
) -> None:
    """A server with a right-to-left mark was taken, and then the pool could not be priced."""
    with service() as client:
        declare(client, 2)
        filled = [{"id": name}] if isinstance(body, list) else _filled(body, name)
        method = "POST" if path == "plans" else "PUT"
        where = f"/v1/pools/p/{path}".rstrip("/")
        told = client.bad(422, "invalid", method, where, filled)
        (item,) = told["problems"]
        assert item["field"] == field
        assert repr(name)[1:-1] in item["value"]
        assert "remove" in item["remedy"]
        client.good("POST", "/v1/pools/p/plans", {})


def _filled(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: [name] if isinstance(value, list) else name for key, value in body.items()}


@given(name=st.text(min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_what_the_door_takes_can_be_priced(name: str) -> None:
    """One rule for names: the engine takes one if and only if an instance may hold it."""
    state = State("p")

    def do(command: commands.Command) -> Answer:
        return decide(state, command, 1.0, [0] * 16)

    do(commands.PutPool(settings=PoolSettings()))
    server = do(commands.PutServer(settings=ServerSettings(id=name)))
    task_type = TaskTypeSettings(id=name, rate=0.01, mean_duration=1.0)
    typed = do(commands.PutTaskType(settings=task_type))
    fits = not name_problems("servers", (name,), 1)
    assert (server.problem is None) == (typed.problem is None) == fits
    if fits:
        do(commands.PutScores(rows=[ScoreRow(name, name, 1.0)]))
        assert plan_pool(state, "plan").servers == [name]
    else:
        with pytest.raises(InputError):
            plan_pool(state, "plan")


def test_a_server_that_was_there_before_the_rule_can_be_changed_and_removed() -> None:
    with service() as client:
        declare(client, 2)
        state = client.node.owner("p").state
        decide_as_before = state.servers[1]
        decide_as_before.settings = ServerSettings(id="b\u202e")
        state.server_index["b\u202e"] = state.server_index.pop("s1")
        path = "/v1/pools/p/servers/b%E2%80%AE"
        client.good("PUT", path, {"id": "b\u202e", "drain": True})
        client.good("DELETE", path)


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"task_type": "none"}, "task_type", "'none'"),
        ({"task_type": "t", "k": 7}, "k", "7"),
        ({"task_type": "t", "pins": ["x"]}, "pins", "['x']"),
        ({"task_type": "t", "pins": ["s0"] * 11}, "pins", "'11 entries'"),
        ({}, "task_type", "missing"),
        ({"task_type": "t\n"}, "task_type", "'t\\n'"),
    ],
)
def test_problems_say_the_value(body: dict[str, Any], field: str, value: str) -> None:
    with service() as client:
        declare(client, 2)
        (item,) = client("POST", CREATE, body).json()["problems"]
        assert (item["field"], item["value"]) == (field, value)
        assert "regex" not in item["expected"]


def test_a_drop_says_its_type() -> None:
    with service() as client:
        declare(client, 1)
        client.assign()
        (item,) = client.bad(409, "no-capacity", "POST", CREATE, {"task_type": "t"})["problems"]
        assert (item["field"], item["value"]) == ("task_type", "'t'")


@pytest.mark.parametrize("shortcut", [True, False])
@pytest.mark.parametrize(
    ("method", "path", "field", "remedy"),
    [
        ("POST", f"{CREATE}?dry_run=true", "dry_run", "leave it out"),
        ("PUT", "/v1/pools/p/scores?replce=false", "replce", "write replace"),
        ("GET", "/v1/pools/p/events?afer=3", "afer", "write after"),
        ("GET", "/v1/pools?request=1", "request", "leave it out"),
    ],
)
def test_a_query_that_nobody_reads_is_refused(
    shortcut: bool, method: str, path: str, field: str, remedy: str
) -> None:
    """A misspelled `replace=false` would have replaced all scores."""
    with service(shortcut=shortcut) as client:
        declare(client, 2)
        body = {"rows": []} if method == "PUT" else {"task_type": "t"}
        told = client.bad(422, "invalid", method, path, None if method == "GET" else body)
        (item,) = told["problems"]
        assert (item["field"], item["remedy"]) == (field, remedy)
        assert client.pool()["counts"] == {}


def test_a_wrong_query_says_its_value() -> None:
    with service() as client:
        declare(client, 1)
        told = client.bad(422, "invalid", "GET", "/v1/pools/p/events?limit=0")
        assert told["problems"] == [{"field": "limit", "value": "'0'", "expected": "`int` >= 1"}]


@pytest.mark.parametrize("broken", ["half", "folder"])
def test_keys_that_cannot_be_read_any_more_leave_those_read_last(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-written file of keys made every request a fault of the service."""
    monkeypatch.setattr("opportune.service.keys.LOOK_AGAIN", 0.0)
    keys = KeyFile(tmp_path / "keys.json")
    shown = {"authorization": f"Bearer {keys.create(['read'])}"}
    with service(keys=keys.path) as client:
        text = keys.path.read_bytes()
        keys.path.unlink()
        if broken == "half":
            keys.path.write_bytes(text[: len(text) // 2])
        else:
            keys.path.mkdir()
        assert client.http.get("/v1/pools", headers=shown).status_code == 200
        assert client.http.get("/v1/pools").status_code == 401
        if broken == "folder":
            keys.path.rmdir()
        keys.path.write_text("[]")
        assert client.http.get("/v1/pools", headers=shown).status_code == 401


def test_a_fault_at_the_gate_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as client:
        monkeypatch.setattr(client.node.limit, "wait", lambda caller, now: 1 / 0)
        problem_of(client("GET", "/v1/pools"), "internal")


def test_a_deadline_that_is_due_at_once_stops_no_command() -> None:
    """uvloop's handle of such a timer has no time; commands were done and answered with 500."""

    async def scenario() -> list[int]:
        owner = PoolOwner("p", MemoryJournal(), KeyMemory(100, 60.0))
        owner.now = lambda: 1000.0
        await owner.ask(commands.PutPool(settings=PoolSettings(lease=1e-5)))
        await owner.ask(commands.PutServer(settings=ServerSettings(id="s", capacity=9)))
        await owner.ask(commands.PutTaskType(settings=TaskTypeSettings(id="t")))
        waiting = [owner.ask(commands.CreateTask(task_type="t")) for _ in range(3)]
        statuses = [(await one).status for one in waiting]
        await owner.close()
        return statuses

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == [201, 201, 201]
