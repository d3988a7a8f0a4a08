"""Plans made in the background: progress, cancel, failure, restart; new ones when rates drift."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opportune.service import plan_runs, planner, replanning
from opportune.service.commands import RequestPlan, StartPlan
from opportune.service.plan_jobs import MOST_STARTS
from opportune.service.replaying import replay
from opportune.service.sqlite import SqliteJournal
from tests.service.priced import PRIOR, two_types
from tests.service.serving import Client, declare, service
from tests.waiting import PATIENCE, eventually

PLANS = "/v1/pools/p/plans"
SCORES = {"t": [0.9, 0.5, 0.1], "u": [0.8, 0.7, 0.6]}


def state_of(client: Client, plan: str) -> str:
    return str(client.good("GET", f"{PLANS}/{plan}")["state"])


class Held:
    """Pricing that waits in the middle until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.real = plan_runs.plan_pool

    def __call__(self, state: Any, name: str, policy: str, source: str, how: Any) -> Any:
        stop = how[1]
        stop.progress(float("inf"), "dual")
        stop.progress(0.25, "sifting")
        self.inside.set()
        assert self.go.wait(PATIENCE)
        stop.progress(0.125, "sifting")
        return self.real(state, name, policy, source, how)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    one = Held()
    monkeypatch.setattr(plan_runs, "plan_pool", one)
    yield one
    one.go.set()


def test_a_plan_is_made_in_the_background_and_tells_how_far_it_is(held: Held) -> None:
    with service() as client:
        declare(client, 3, SCORES)
        answered = client("POST", PLANS, {"wait": False, "id": "one", "activate": False})
        assert answered.status_code == 202
        assert answered.json()["state"] == "pricing"
        assert held.inside.wait(PATIENCE)
        body = client.good("GET", f"{PLANS}/one")
        assert (body["state"], body["document"], body["bound"]) == ("pricing", None, None)
        assert (body["progress"]["step"], body["progress"]["gap"]) == ("sifting", 0.25)
        assert body["progress"]["seconds"] >= 0
        assert [one["state"] for one in client.good("GET", PLANS)] == ["pricing"]
        assert client.assign()["degraded"] != ""  # decisions go on
        for verb in ("activate", "shadow"):
            client.bad(409, "conflict", "POST", f"{PLANS}/one:{verb}")
        client.bad(409, "conflict", "POST", PLANS, {"id": "one"})
        held.go.set()
        eventually(lambda: state_of(client, "one") == "draft")
        body = client.good("GET", f"{PLANS}/one")
        assert body["progress"] is None
        assert body["document"]["score_version"] == 1
        assert body["document"]["arrival_rate"] == pytest.approx([0.1, 0.1])
        assert client.good("POST", f"{PLANS}/one:shadow")["state"] == "shadow"
        assert client.good("POST", f"{PLANS}/one:activate")["state"] == "active"
        assert client.good("GET", f"{PLANS}/one")["shadow"] is False
        client.bad(409, "conflict", "POST", f"{PLANS}/one:cancel")
        client.bad(404, "not-found", "POST", f"{PLANS}/two:cancel")
        client.bad(422, "invalid", "POST", PLANS, {"shadow": True})


def test_a_plan_that_is_being_priced_is_canceled(held: Held) -> None:
    with service() as client:
        declare(client, 3, SCORES)
        client("POST", PLANS, {"wait": False, "id": "one"})
        assert held.inside.wait(PATIENCE)
        assert client.good("POST", f"{PLANS}/one:cancel")["state"] == "canceled"
        assert client.good("POST", f"{PLANS}/one:cancel")["state"] == "canceled"
        held.go.set()
        eventually(lambda: client.node.planner.progress("p", "one") is None)
        assert state_of(client, "one") == "canceled"
        assert client.pool()["plan"] is None
        held.inside.clear()
        assert client.good("POST", PLANS, {"id": "one"})["state"] == "active"  # asked for again


def test_who_waits_for_a_plan_that_is_canceled_is_told(held: Held) -> None:
    with service() as client:
        declare(client, 3, SCORES)
        told: list[Any] = []
        asks = threading.Thread(
            target=lambda: told.append(client("POST", PLANS, {"id": "one"}, idempotency_key="k"))
        )
        asks.start()
        assert held.inside.wait(PATIENCE)
        again = client("POST", PLANS, {"id": "one"}, idempotency_key="k")
        assert again.json()["code"] == "still-running"
        client.good("POST", f"{PLANS}/one:cancel")
        held.go.set()
        asks.join()
        assert (told[0].status_code, told[0].json()["code"]) == (409, "conflict")
        assert "canceled" in told[0].json()["detail"]


def test_a_plan_that_cannot_be_made_says_why() -> None:
    with service() as client:
        client.good("PUT", "/v1/pools/p", {})
        client.good("PUT", "/v1/pools/p/servers", [{"id": "a"}])
        client.good("PUT", "/v1/pools/p/task-types", [{"id": "t"}])
        assert client("POST", PLANS, {"wait": False, "id": "one"}).status_code == 202
        eventually(lambda: state_of(client, "one") == "failed")
        assert "mean_duration" in client.good("GET", f"{PLANS}/one")["detail"]
        eventually(lambda: client.node.planner.progress("p", "one") is None)
        client.good("PUT", "/v1/pools/p/task-types", [{"id": "t", **PRIOR}])
        assert client.good("POST", PLANS, {"id": "one"})["active"]


@contextmanager
def left_in_the_middle(database: Path, held: Held, **asked: Any) -> Iterator[None]:
    """A service that ends while a plan is being priced; the next one prices as usual."""
    with service(database) as client:
        declare(client, 3, SCORES)
        client("POST", PLANS, {"wait": False, "id": "one", **asked})
        assert held.inside.wait(PATIENCE)
        assert state_of(client, "one") == "pricing"
        threading.Timer(0.2, held.go.set).start()
    yield


def test_a_restart_in_the_middle_begins_again(tmp_path: Path, held: Held) -> None:
    database = tmp_path / "journal.db"
    with left_in_the_middle(database, held), service(database) as client:
        eventually(lambda: state_of(client, "one") == "active")
        assert client.assign()["plan"] == "one"
        assert client.node.owner("p").state.jobs == {}
    journal = SqliteJournal(database)
    found = replay(journal, "p")
    journal.close()
    assert (found.different, found.problems) == (0, [])


def test_a_job_that_ends_the_service_every_time_is_given_up() -> None:
    pool = two_types()
    pool.ok(RequestPlan(plan="one"))
    for _ in range(MOST_STARTS):
        assert pool.ok(StartPlan(plan="one")).state == "pricing"
        pool.restart()
    body = pool.ok(StartPlan(plan="one"))
    assert body.state == "failed"
    assert "every time" in body.detail
    assert pool.refused(StartPlan(plan="one")) == "conflict"
    assert pool.ok(RequestPlan(plan="one")).state == "pricing"
    pool.restart(from_snapshot=True)
    assert pool.state.jobs["one"].starts == 0


def test_a_request_that_waits_is_the_same_one_after_a_restart(tmp_path: Path, held: Held) -> None:
    """The client sends it again with its key: one plan, not two."""
    database, key = tmp_path / "journal.db", {"idempotency_key": "k"}
    with service(database) as client:
        declare(client, 3, SCORES)
        asks = threading.Thread(target=lambda: client("POST", PLANS, {}, **key))
        asks.start()
        assert held.inside.wait(PATIENCE)
        asked = client.node.owner("p").state.jobs
        threading.Timer(0.2, held.go.set).start()
        assert list(asked) == ["plan-1"]
    asks.join()
    with service(database) as client:
        first = client.good("POST", PLANS, {}, **key)
        assert (first["id"], first["state"]) == ("plan-1", "active")
        assert client.good("POST", PLANS, {}, **key) == first
        assert [one["id"] for one in client.good("GET", PLANS)] == ["plan-1"]


# ------------------------------------------------------------------------------ by itself


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(planner, "EVERY", 0.02)
    monkeypatch.setattr(replanning, "SETTLES", 0.05)


def by_itself(client: Client) -> list[Any]:
    """Plans that the service made by itself."""
    plans = client.good("GET", PLANS)
    return [one for one in plans if one["reason"] and one["state"] != "pricing"]


@pytest.mark.usefixtures("soon")
def test_a_pool_gets_its_first_plan_and_a_new_one_when_scores_or_servers_change() -> None:
    with service() as client:
        declare(client, 3, SCORES, replan="shadow")
        first = eventually(lambda: by_itself(client))[0]
        assert (first["reason"], first["state"]) == ("there was no plan", "active")
        assert client.assign()["degraded"].startswith("no plan: prices from the priors")
        client.good("PUT", "/v1/pools/p/scores", {"rows": [["t", "s0", 0.91]]})
        time.sleep(0.3)
        assert len(by_itself(client)) == 1  # so small a change is let be
        client.good("PUT", "/v1/pools/p/scores", {"rows": [["t", "s2", 0.95]]})
        found = eventually(lambda: by_itself(client)[1:])[0]
        assert (found["reason"], found["state"]) == ("scores changed", "shadow")
        client.good("PUT", "/v1/pools/p/servers/s3", {"id": "s3"})
        found = eventually(lambda: by_itself(client)[2:])[0]
        assert (found["reason"], found["state"]) == ("servers came or went", "shadow")
        metrics = client("GET", "/metrics").text
        assert 'opportune_replans{pool="p"} 3.0' in metrics
        assert client.pool()["plan"] == first["id"]


@pytest.mark.usefixtures("soon")
def test_a_shadow_that_somebody_chose_stays() -> None:
    with service() as client:
        declare(client, 3, SCORES, replan="shadow")
        eventually(lambda: by_itself(client))
        client.good("POST", PLANS, {"id": "mine", "activate": False, "shadow": True})
        client.good("PUT", "/v1/pools/p/servers/s3", {"id": "s3"})
        found = eventually(lambda: by_itself(client)[1:])[0]
        assert found["state"] == "draft"
        assert state_of(client, "mine") == "shadow"


@pytest.mark.usefixtures("soon")
def test_a_stale_plan_is_made_anew_and_put_in_force() -> None:
    with service() as client:
        declare(client, 3, SCORES, replan="active", plan_max_age=3.0)
        eventually(lambda: by_itself(client))
        found = eventually(lambda: by_itself(client)[1:])[0]
        assert found["reason"] == "the plan was stale"
        eventually(lambda: client.pool()["degraded"] == "")


@pytest.mark.usefixtures("soon")
def test_tasks_that_come_faster_than_planned_lead_to_one_plan_that_knows() -> None:
    with service() as client:
        declare(client, 3, SCORES, replan="active", replan_window=6.4, replan_change=0.5)
        eventually(lambda: by_itself(client))

        def drifted() -> Any:
            client("POST", "/v1/pools/p/assignments", {"task_type": "t"})
            time.sleep(0.01)
            return [one for one in by_itself(client) if "drifted" in one["reason"]]

        found = eventually(drifted)[0]
        assert found["reason"].startswith("rates drifted: t ")
        assert found["state"] == "active"
        made = client.good("GET", f"{PLANS}/{found['id']}")["document"]
        assert made["arrival_rate"][0] > 0.15  # declared 0.1, and half as many more is a change
        assert made["arrival_rate"][1] == pytest.approx(0.1)  # too few to say


def test_nothing_is_done_by_itself_unless_the_pool_wants_it() -> None:
    with service() as client:
        declare(client, 3, SCORES)
        time.sleep(0.1)
        client.node.planner.look()
        time.sleep(0.1)
        assert client.good("GET", PLANS) == []
