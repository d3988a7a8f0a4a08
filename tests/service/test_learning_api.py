"""Learning through HTTP: what is told, what survives a restart, what is refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from opportune.service.replaying import replay
from opportune.service.sqlite import SqliteJournal
from tests.service.serving import Client, declare, service
from tests.waiting import PATIENCE, eventually


def served(client: Client, values: list[float | None]) -> list[Any]:
    """Tasks one after another, each with its outcome."""
    made = []
    for value in values:
        made.append(client.assign())
        more = {} if value is None else {"value": value}
        assert client.complete(made[-1], **more).status_code == 200
    return made


def known(told: Any) -> Any:
    """What is known of the pool, whether or not it has been published (and time gone by) since."""
    kept = (
        "pairs",
        "servers",
        "outcomes",
        "reports",
        "served",
        "missing",
        "support",
        "exploration",
    )
    return {name: told[name] for name in kept}


def learning(client: Client) -> Any:
    return client.good("GET", "/v1/pools/p/learning")


def test_what_was_acknowledged_is_told_at_once() -> None:
    with service() as client:
        declare(client, learning="shadow")
        made = served(client, [1.0, 0.0, None])
        told = learning(client)
        assert (told["mode"], told["outcomes"], told["served"], told["pending"]) == (
            "shadow",
            2,
            3,
            1,
        )
        late = {"subject": made[2]["decision_id"], "value": 1.0}
        client.good("POST", "/v1/outcomes", late)
        client.good("POST", "/v1/outcomes", late)
        revised = {"subject": made[0]["assignment_id"], "value": 0.5, "revision": 1}
        client.good("POST", "/v1/outcomes", revised)
        told = learning(client)
        assert (told["outcomes"], told["reports"], told["pending"]) == (3, 4, 0)
        best = next(one for one in told["pairs"] if one["server"] == "s0")
        assert best["low"] <= best["mean"] <= best["score"]
        assert best["mean"] <= best["high"]
        client.bad(422, "invalid", "POST", "/v1/outcomes", {**late, "value": 1.5, "revision": 3})


def test_what_is_learned_is_published_and_planned_for() -> None:
    with service() as client:
        declare(client, 2, {"t": [0.9, 0.1]}, learning="on", replan="active")
        served(client, [0.0] * 12)
        eventually(lambda: learning(client)["version"] >= 1)
        plan = eventually(
            lambda: next(
                (
                    one
                    for one in client.good("GET", "/v1/pools/p/plans")
                    if one["id"] == "learned-1" and one["active"]
                ),
                None,
            )
        )
        assert plan["source"] == "plan"
        assert client.assign()["servers"][0]["id"] == "s1"
        events = client.good("GET", "/v1/pools/p/events?limit=1000")["events"]
        published = [one for one in events if one["type"] == "LearnedPut"]
        assert published
        assert "learned" not in published[0]["event"]
        metrics = client("GET", "/metrics").text
        assert 'opportune_outcomes_counted{pool="p"} 12.0' in metrics
        assert 'opportune_certain_ratio{pool="p"} 1.0' in metrics
        assert "no support" in " ".join(learning(client)["warnings"])


def test_a_pool_that_does_not_learn_and_one_that_is_not_there() -> None:
    with service() as client:
        declare(client)
        served(client, [7.0])  # any number is an outcome
        assert learning(client)["mode"] == "off"
        client.bad(404, "not-found", "GET", "/v1/pools/q/learning")
        assert "opportune_outcomes_counted{" not in client("GET", "/metrics").text


def test_a_restart_goes_on_where_the_learner_was(tmp_path: Path) -> None:
    database = tmp_path / "learn.db"
    with service(database, snapshot_every=20) as client:
        declare(client, learning="shadow")
        served(client, [1.0, 0.0, 0.5] * 8)
        learner = client.node.learners._learners["p"]
        learning(client)
        client.node.owner("p").loaded.learner = learner.checkpoint()
        served(client, [1.0] * 8)
        eventually(lambda: learning(client)["version"])
        before = known(learning(client))
        counts = learner.counts
    with service(database) as client:
        assert client.node.owner("p").loaded.learner != b""
        assert known(learning(client)) == before
        again = client.node.learners._learners["p"].counts
        assert (again.pairs, again.pace, again.tasks) == (counts.pairs, counts.pace, counts.tasks)
        assert again.choices == counts.choices
    journal = SqliteJournal(database)
    assert replay(journal, "p").problems == []
    journal.close()


def test_history_from_before_learning_was_on_is_learned_from(tmp_path: Path) -> None:
    with service(tmp_path / "history.db") as client:
        declare(client)
        served(client, [1.0, 0.0])
        served(client, [3.0])
        client.good("PUT", "/v1/pools/p", {"learning": "on"})
        told = learning(client)
        assert told["outcomes"] == 2
        assert "1 outcomes do not count" in " ".join(told["warnings"])


def test_a_learner_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with service() as client:
        declare(client, learning="on")
        owner = client.node.owner("p")

        tried = threading.Event()

        def broken(*_: object) -> None:
            tried.set()
            raise RuntimeError("planted")

        served(client, [1.0])
        monkeypatch.setattr("opportune.service.learner.take_in", broken)
        served(client, [1.0])
        assert tried.wait(PATIENCE)
        monkeypatch.undo()
        served(client, [1.0])
        assert learning(client)["outcomes"] == 3
        assert owner.failed == ""
