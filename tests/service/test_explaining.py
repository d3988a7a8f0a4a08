"""Every number in an explanation against the plan's own arithmetic; the command that prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from opportune.cli import run
from opportune.client import Client as ServiceClient
from opportune.service.commands import Complete, CreateTask, PutPlan, PutScores
from opportune.service.keys import KeyFile
from opportune.service.planning import plan_pool
from opportune.service.reading import decision_body
from opportune.service.resources import (
    PlanDocument,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service.settings import key_file_beside
from tests.client.serving import Served
from tests.service.pools import Pool, pool_of
from tests.service.priced import priced, two_types
from tests.service.serving import declare, service


def many(k: int = 1, seed: int = 4) -> tuple[Pool, PlanDocument]:
    """A pool of four types and nine servers with a plan in force."""
    score = np.random.default_rng(seed).random((4, 9)).round(3)
    types = {f"t{v}": {"rate": 0.3, "mean_duration": 2.0 + v} for v in range(4)}
    pool = pool_of({f"t{v}": row.tolist() for v, row in enumerate(score)}, types, k=k)
    plan = plan_pool(pool.state, "plan", source="plan")
    pool.ok(PutPlan(plan=plan, activate=True))
    return pool, plan


@pytest.mark.parametrize("k", [1, 3])
def test_every_number_is_the_plans(k: int) -> None:
    pool, plan = many(k)
    rng, seen, index = np.random.default_rng(1), 0, plan.index.numpy()
    for i in range(30):
        answer = pool.do(CreateTask(task_type=f"t{rng.integers(4)}"), float(i))
        body: Any = answer.body if answer.problem is None else answer.problem.body
        told = decision_body(pool.state, body.decision_id)
        assert told is not None
        v = plan.task_types.index(told.task_type)
        for one in told.servers:
            r = plan.servers.index(one.server)
            score = float(pool.state.score[v, r])
            assert one.score == score
            assert one.demand_price == plan.demand_price[v]
            assert one.capacity_price == plan.capacity_price[r]
            assert one.busy_seconds == pytest.approx(plan.mean_duration[v])
            worth = plan.mean_duration[v] * plan.capacity_price[r]
            assert one.capacity_cost == pytest.approx(worth, abs=1e-12)
            assert one.demand_price + one.capacity_cost == pytest.approx(one.opportunity_cost)
            assert one.index == pytest.approx(one.score - one.opportunity_cost, abs=1e-8)
            assert one.index == index[v, r]
            assert one.by_prices
            seen += 1
        picked = [one.server for one in told.servers if one.role == "picked"]
        assert picked == [pick.server for pick in told.picks]
        if picked and len(told.servers) > k:
            last, following = told.servers[k - 1], told.servers[k]
            assert following.role == "runner-up"
            assert told.lost_by == last.index - following.index >= 0
        else:
            assert told.lost_by is None
        if picked and i % 2:
            pool.ok(Complete(assignment=body.assignment_id), float(i))
    assert seen > 20


def test_scores_that_are_newer_than_the_plan_are_told() -> None:
    pool, _ = many()
    pool.ok(PutScores(rows=[ScoreRow("t0", f"s{r}", 0.5) for r in range(9)]))
    told = decision_body(pool.state, pool.task("t0").decision_id)
    assert told is not None
    assert any(one.by_prices is False for one in told.servers)


def test_without_prices_there_are_no_parts() -> None:
    pool = pool_of({"a": [3.0, 2.0, 1.0]})
    told = decision_body(pool.state, pool.task("a").decision_id)
    assert told is not None
    for one in told.servers:
        parts = (one.demand_price, one.capacity_cost, one.opportunity_cost, one.by_prices)
        assert parts == (None, None, None, None)
    assert told.lost_by == 1.0  # by score


def test_pairs_with_durations_of_their_own_tell_them() -> None:
    pool, plan = two_types(), priced()
    own = np.array([[4.0, 4.0, 4.0], [5.0, 9.0, 5.0]])
    document = msgspec.structs.replace(
        plan, pair_mean=type(plan.index).of(own), capacity_price=[0.1, 0.2, 0.3]
    )
    pool.ok(PutPlan(plan=document, activate=True))
    told = decision_body(pool.state, pool.task("b").decision_id)
    assert told is not None
    found = {one.server: one.busy_seconds for one in told.servers}
    assert found == {"s0": 5.0, "s1": pytest.approx(9.0), "s2": 5.0}


def test_reasons_of_exclusion_are_for_admins(tmp_path: Path) -> None:
    database = tmp_path / "journal.db"
    keys = KeyFile(key_file_beside(database))
    admin, read = (keys.create([scope], "") for scope in ("admin", "read"))
    with service(database) as client:
        client.http.headers["authorization"] = f"Bearer {admin}"
        declare(client, 3, {"t": [0.9, 0.5, 0.1]})
        client.good("POST", "/v1/pools/p/plans", {})
        made = client.assign(conflicts=["s0"])
        path = f"/v1/decisions/{made['decision_id']}"
        shown = client.good("GET", path)
        assert shown["why"]["excluded"] == [{"server": "s0", "reason": "conflict"}]
        client.http.headers["authorization"] = f"Bearer {read}"
        hidden = client.good("GET", path)
        assert "excluded" not in hidden["why"]
        assert "s0" not in json.dumps(hidden)
        assert hidden["servers"] == shown["servers"]
        assert hidden["lost_by"] == pytest.approx(0.4)


# ------------------------------------------------------------------------- the command line


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(tmp_path_factory.mktemp("explained"))
    yield one
    one.kill()


def test_plans_and_decisions_on_the_command_line(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", served.url]

    def told(*words: str, code: int = 0) -> str:
        assert run([*words, *where]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    with ServiceClient(served.url) as client:
        client.put_pool("p")
        client.put_servers("p", [ServerSettings(id=f"s{r}") for r in range(3)])
        client.put_task_types("p", [TaskTypeSettings(id="t", rate=0.1, mean_duration=5.0)])
        client.put_scores("p", [("t", f"s{r}", 0.9 - 0.1 * r) for r in range(3)])
        assert "active" in told("plans", "make", "p", "--then", "active")
        assert "draft" in told("plans", "make", "p", "--name", "other", "--policy", "random")
        assert "other" in told("plans", "shadow", "p", "other")
        made = client.create_assignment("p", CreateTask(task_type="t"))
        table = told("explain", made.decision_id)
        lost = client.get_decision(made.decision_id).lost_by
        assert f"runner-up: s1, lost by {lost:.6g}" in table
        assert "shadow plan other" in table
        asked = json.loads(told("explain", made.decision_id, "--format", "json"))
        assert asked["servers"][0]["role"] == "picked"
        assert told("explain", made.decision_id, "--format", "csv").startswith("server,role,")
        listed = json.loads(told("plans", "list", "p", "--format", "json"))
        assert [one["state"] for one in listed["plans"]] == ["active", "shadow"]
        assert listed["plans"][1]["in_shadow"]["decisions"] == 1
        assert "verdict" in told("plans", "list", "p")
        told("plans", "unshadow", "p")
        told("plans", "activate", "p", "other")
        assert "plan-1" in told("plans", "rollback", "p")
        assert "it is not being priced" in told("plans", "cancel", "p", "other", code=1)
        assert "there is no decision" in told("explain", "p.d999", code=1)
        assert "error" in told("plans", "make", "p", "--policy", "best", code=1)


def test_a_decision_is_explained_from_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "journal.db"
    with service(database) as client:
        declare(client, 3, {"t": [0.9, 0.5, 0.1]})
        client.good("POST", "/v1/pools/p/plans", {})
        made = client.assign()
        live = client.good("GET", f"/v1/decisions/{made['decision_id']}")
    capsys.readouterr()  # the log
    words = ["explain", made["decision_id"], "--database", str(database)]
    assert run([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == live
    assert run(["explain", "p.d77", "--database", str(database)]) == 1
    assert run(["explain", "q.d1", "--database", str(database)]) == 1
    assert run(["explain", "p.d1", "--database", str(tmp_path / "none.db")]) == 1
