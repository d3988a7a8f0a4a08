"""Both clients against a real service: every operation, every kind of problem."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from opportune.client import (
    AlreadyEndedError,
    AssignmentBody,
    Client,
    ConflictError,
    CreateTask,
    InvalidRequestError,
    NewPlan,
    NoCapacityError,
    NotAllowedError,
    NotFoundError,
    PoolSettings,
    RankRequest,
    ReportOutcome,
    Retries,
    ServerSettings,
    StaleLeaseError,
    TaskBody,
    TaskTypeSettings,
)
from opportune.errors import InputError
from opportune.service.keys import KeyFile
from opportune.service.settings import key_file_beside
from tests.client.serving import Losing, Served, Waiting

SOON = Retries(tries=5, first=0.001)
SERVERS = ["s0", "nurse/1 ü", ".."]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    service = Served(tmp_path_factory.mktemp("served"))
    yield service
    service.kill()


@pytest.fixture(params=[Client, Waiting], ids=["blocking", "async"])
def client(request: pytest.FixtureRequest, served: Served) -> Iterator[Any]:
    with request.param(served.url, retries=SOON) as made:
        made.kind = "blocking" if request.param is Client else "async"
        yield made


def declare(client: Any, pool: str, **settings: Any) -> None:
    client.put_pool(pool, PoolSettings(**settings))
    assert client.put_servers(pool, [ServerSettings(id=name) for name in SERVERS]) == 3
    types = [TaskTypeSettings(id=name, rate=0.1, mean_duration=5.0) for name in ("t", "u")]
    assert client.put_task_types(pool, types) == 2
    rows = [("t", name, 0.9 - 0.1 * r) for r, name in enumerate(SERVERS)]
    client.put_scores(pool, [*rows, ("u", "s0", 0.5)])


def test_a_pool_is_declared_and_read_back(client: Any) -> None:
    pool = f"declared-{client.kind}"
    made = client.create_pool(pool, PoolSettings(k=2))
    assert (made.id, made.settings.k) == (pool, 2)
    with pytest.raises(ConflictError):
        client.create_pool(pool)
    declare(client, pool)
    assert pool in client.list_pools()
    assert client.get_pool(pool).servers == 3
    assert [one.settings.id for one in client.list_servers(pool)] == SERVERS
    for name in SERVERS:
        assert client.get_server(pool, name).settings.id == name
        assert client.server_heartbeat(pool, name).state == "free"
    assert client.put_server(pool, ServerSettings(id=SERVERS[1], capacity=2)).settings.capacity == 2
    assert client.remove_server(pool, SERVERS[2]).state == "removed"
    assert client.put_task_type(pool, TaskTypeSettings(id="u", k=1)).settings.k == 1
    assert [one.settings.id for one in client.list_task_types(pool)] == ["t", "u"]
    assert client.get_scores(pool).pairs == 4
    assert client.put_scores(pool, [("t", "s0", 0.5)], replace=True).pairs == 1
    assert client.clear_quarantine(pool, "s0").quarantined_until is None
    assert [one.action.partition(" ")[0] for one in client.get_audit(pool)][-1] == "POST"
    assert client.is_ready()


def test_tasks_are_assigned_explained_and_completed(client: Any) -> None:
    pool = f"served-{client.kind}"
    declare(client, pool)
    made = client.create_assignment(pool, CreateTask(task_type="t", external_id="x"))
    assert isinstance(made, AssignmentBody)
    assert [one.id for one in made.servers] == ["s0"]
    assert client.create_assignment(pool, CreateTask(task_type="t", external_id="x")) == made
    assert client.get_assignment(made.assignment_id) == made
    assert client.get_task(made.task_id).assignment_id == made.assignment_id
    assert client.get_decision(made.decision_id).picks[0].server == "s0"
    assert client.heartbeat(made.assignment_id, lease=made.lease).state == "accepted"
    with pytest.raises(StaleLeaseError):
        client.complete(made.assignment_id, lease=made.lease + 7)
    done = client.complete(made.assignment_id, value=0.25, lease=made.lease)
    assert (done.state, done.task_state) == ("completed", "done")
    with pytest.raises(AlreadyEndedError) as ended:
        client.fail(made.assignment_id, reason="too late")
    assert ended.value.present["state"] == "completed"
    outcome = ReportOutcome(subject=made.assignment_id, value=0.0, revision=1)
    assert client.report_outcome(outcome).value == 0.0
    assert client.get_pool(pool).reward == 0.0
    ranked = client.rank(pool, RankRequest(task_type="t", candidates=["..", "s0"]))
    assert [one.id for one in ranked.servers] == ["s0", ".."]
    events = client.get_events(pool, limit=3)
    assert [one.sequence for one in events.events] == sorted(one.sequence for one in events.events)


def test_a_drop_says_when_to_try_again(client: Any) -> None:
    pool = f"full-{client.kind}"
    declare(client, pool)
    held = [client.create_assignment(pool, CreateTask(task_type="t")) for _ in SERVERS]
    with pytest.raises(NoCapacityError, match="0 of 3 permitted servers") as dropped:
        client.create_assignment(pool, CreateTask(task_type="t"))
    error = dropped.value
    assert error.retry_after is not None
    assert 0.0 <= error.retry_after <= 60.0
    assert error.expected_free is not None
    assert error.decision is not None
    assert client.get_decision(error.decision.decision_id).picks == []
    assert client.get_pool(pool).counts["dropped"] == 1
    for one in held:
        assert client.release(one.assignment_id).state == "released"


def test_offers_and_the_queue(client: Any) -> None:
    pool = f"queue-{client.kind}"
    declare(client, pool, mode="queue", auto_accept=False)
    first = client.create_assignment(pool, CreateTask(task_type="t"))
    assert (first.state, first.servers[0].id) == ("offered", "s0")
    declined = client.decline(first.assignment_id, server="s0", reason="a \u2028 break")
    assert [one.id for one in declined.servers if one.state == "offered"] == [SERVERS[1]]
    assert client.accept(first.assignment_id).state == "accepted"
    for _ in range(2):
        client.create_assignment(pool, CreateTask(task_type="t"))
    waits = client.create_assignment(pool, CreateTask(task_type="t", external_id="w"))
    assert isinstance(waits, TaskBody)
    assert (waits.state, waits.position) == ("queued", 1)
    again = client.create_assignment(pool, CreateTask(task_type="t", external_id="w"))
    assert isinstance(again, TaskBody)
    assert [one.task_id for one in client.list_waiting(pool)] == [waits.task_id]
    assert client.cancel_task(waits.task_id).state == "cancelled"
    last = client.get_pool(pool)
    assert (last.tasks_waiting, last.capacity_mismatch) == (0, 0)


def test_plans(client: Any) -> None:
    pool = f"plans-{client.kind}"
    declare(client, pool)
    one, two = (client.make_plan(pool, NewPlan(id=name)) for name in ("one", "two"))
    assert (one.active, two.active) == (True, True)
    assert client.activate_plan(pool, "one").active
    assert client.rollback_plan(pool).id == "two"
    assert client.shadow_plan(pool, "one").shadow
    assert client.unshadow_plan(pool) is None
    document = client.get_plan(pool, "one").document
    assert document.servers == SERVERS
    assert client.put_plan(pool, document).id == "one"
    assert [plan.id for plan in client.list_plans(pool)] == ["one", "two"]


def test_what_is_wrong_is_told(client: Any) -> None:
    with pytest.raises(NotFoundError):
        client.get_pool("nowhere")
    with pytest.raises(NotFoundError):
        client.complete("nowhere.a1")
    with pytest.raises(InvalidRequestError) as wrong:
        client.put_pool("wrong", PoolSettings(k=0))
    assert wrong.value.problems[0].field == "k"
    assert isinstance(wrong.value, InputError)
    assert wrong.value.key
    with pytest.raises(InputError, match=r"body.value: nan"):
        client.report_outcome(ReportOutcome(subject="p.a1", value=float("nan")))
    with pytest.raises(InputError, match="key"):
        client.put_pool("wrong", key="")
    declare(client, f"keys-{client.kind}")
    client.put_pool(f"keys-{client.kind}", PoolSettings(), key=f"mine-{client.kind}")
    with pytest.raises(InvalidRequestError, match="another request"):
        client.put_pool(f"keys-{client.kind}", PoolSettings(k=2), key=f"mine-{client.kind}")


def test_an_answer_that_is_lost_is_given_again(served: Served) -> None:
    losing = Losing()
    with httpx.Client(transport=losing) as http:
        client = Client(served.url, retries=SOON, http=http)
        declare(client, "lossy", context=["n"])
        held = [client.create_assignment("lossy", CreateTask(task_type="t")) for _ in SERVERS]
        assert len({one.task_id for one in held}) == 3
        with pytest.raises(NoCapacityError):
            client.create_assignment("lossy", CreateTask(task_type="t"))
        for one in held:
            assert isinstance(one, AssignmentBody)
            assert client.complete(one.assignment_id, value=2.0).state == "completed"
        pool = client.get_pool("lossy")
        client.make_plan("lossy")
        assert [plan.id for plan in client.list_plans("lossy")] == ["plan-1"]
    counted = [pool.counts[name] for name in ("created", "done", "dropped", "outcomes")]
    assert (counted, pool.reward, pool.slots_open) == ([4, 3, 1, 3], 6.0, 0)
    del losing.tries[""]
    assert set(losing.tries.values()) == {2}


def test_events_are_followed(served: Served, client: Any) -> None:
    pool = f"events-{client.kind}"
    declare(client, pool, auto_accept=False)
    made = client.create_assignment(pool, CreateTask(task_type="t"))
    client.decline(made.assignment_id, reason="a \u2028\x85 break")
    page = [one for one in client.get_events(pool, limit=1000).events if one.sequence > 2]
    if client.kind == "async":
        followed = client.first_events(pool, 2, len(page))
    else:
        followed = list(islice(client.follow_events(pool, 2), len(page)))
    assert followed == page
    assert any(event.event.get("reason") == "a \u2028\x85 break" for event in followed)


def test_an_api_key_is_shown(tmp_path: Path) -> None:
    keys = KeyFile(key_file_beside(tmp_path / "opportune.db"))
    admin, reader = keys.create(["admin"]), keys.create(["read"])
    service = Served(tmp_path)
    try:
        with Client(service.url, api_key=admin, retries=SOON) as client:
            client.put_pool("p")
        with Client(service.url, api_key=reader, retries=SOON) as client:
            assert client.list_pools() == ["p"]
            with pytest.raises(NotAllowedError, match="scope"):
                client.put_pool("q")
        with Client(service.url, retries=SOON) as nobody, pytest.raises(NotAllowedError):
            nobody.list_pools()
    finally:
        service.kill()
