"""The log of a pool: what was decided and what came of it; from serving to a plan and back."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opportune.cli import run
from opportune.learning.evaluation.decisions import decisions_of
from opportune.learning.fit.columns import read_columns
from opportune.learning.fit.instance import fit_log
from opportune.learning.fit.log import read_log
from opportune.service import events
from opportune.service.commands import (
    Accept,
    Complete,
    CreateTask,
    Decline,
    PutServer,
    Release,
    RemoveServer,
    ReportOutcome,
)
from opportune.service.decision_log import columns_file, decision_log, log_of
from opportune.service.journal import Append
from opportune.service.resources import ServerSettings
from tests.service.journals import JOURNALS
from tests.service.pools import Pool, pool_of
from tests.service.serving import Client, declare, service


def rows_of(pool: Pool) -> list[dict[str, Any]]:
    """The rows of a pool's log, by column; read back from records."""
    happened = [events.decode(events.encode(event)) for event in pool.log]
    found = log_of("p", happened)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_a_row_says_who_served_how_long_and_who_was_free() -> None:
    pool = pool_of({"a": [3.0, 2.0, 1.0], "b": [None, 1.0, 1.0]})
    first = pool.task("a", now=10.0)
    pool.task("b", now=11.0)
    pool.ok(Complete(assignment=first.assignment_id), 14.0)
    row, other = rows_of(pool)
    assert (row["task"], row["time"], row["task_type"], row["server"]) == ("p.t1", 10.0, "a", "s0")
    assert (row["start"], row["duration"], row["complete"]) == (10.0, 4.0, "true")
    assert (row["free"], row["propensity"], row["decision"]) == ("s0;s1;s2", 1.0, "p.d1")
    assert other["free"] == "s1;s2"
    assert other["propensity"] == 0.5
    assert (other["duration"], other["complete"], other["outcome"]) == (3.0, "false", "")


def test_several_servers_are_picked_one_after_another() -> None:
    pool = pool_of({"a": [3.0, 2.0, 1.0]}, {"a": {"k": 2}})
    made = pool.task("a", now=0.0)
    pool.ok(Complete(assignment=made.assignment_id), 5.0)
    pool.ok(ReportOutcome(subject=made.assignment_id, value=3.0), 6.0)
    pool.ok(ReportOutcome(subject=made.assignment_id, value=0.5, server="s1"), 6.0)
    rows = rows_of(pool)
    assert [row["server"] for row in rows] == ["s0", "s1"]
    assert [row["free"] for row in rows] == ["s0;s1;s2", "s1;s2"]
    assert [row["outcome"] for row in rows] == [1.5, 0.5]  # its share of the whole, its own


def test_order_and_repetitions_of_outcomes_change_nothing() -> None:
    told = [(0.2, 0), (0.9, 2), (0.4, 1)]
    found = []
    for order in (told, told[::-1], [*told, *told], random.Random(3).sample(told * 3, 9)):
        pool = pool_of({"a": [1.0, 0.5]})
        made = pool.task("a", now=0.0)
        pool.ok(Complete(assignment=made.assignment_id), 1.0)
        for value, revision in order:
            report = ReportOutcome(subject=made.decision_id, value=value, revision=revision)
            pool.do(report, 2.0)
        found.append(rows_of(pool)[0]["outcome"])
    assert found == [0.9] * 4


def test_an_outcome_that_was_taken_back_is_none() -> None:
    pool = pool_of({"a": [1.0]})
    made = pool.task("a", now=0.0)
    pool.ok(ReportOutcome(subject=made.assignment_id, value=1.0), 1.0)
    pool.ok(ReportOutcome(subject=made.assignment_id, value=None, revision=1), 1.0)
    assert rows_of(pool)[0]["outcome"] == ""


def test_offers_that_were_declined_are_no_services() -> None:
    pool = pool_of({"a": [3.0, 2.0]}, auto_accept=False)
    made = pool.task("a", now=0.0)
    pool.ok(Decline(assignment=made.assignment_id, server="s0", lease=made.lease), 2.0)
    again = pool.state.tasks[1]
    pool.ok(Accept(assignment=made.assignment_id, server="s1", lease=again.lease), 3.0)
    pool.ok(Release(assignment=made.assignment_id), 8.0)
    (row,) = rows_of(pool)
    assert (row["server"], row["start"], row["duration"]) == ("s1", 2.0, 6.0)
    assert (row["complete"], row["free"], row["decision"]) == ("false", "s1", "p.d2")


def test_tasks_that_nobody_served_and_pins() -> None:
    pool = pool_of({"a": [3.0, 2.0]})
    pool.task("a", now=0.0, pins=["s1"])
    pool.task("a", now=0.0, conflicts=["s1"])
    pool.do(CreateTask(task_type="a"), 1.0)
    rows = rows_of(pool)
    assert [row["server"] for row in rows] == ["s1", "s0", ""]
    assert [row["free"] for row in rows] == ["s1", "s0", ""]


def test_a_server_that_leaves_and_comes_back() -> None:
    pool = pool_of({"a": [3.0, 2.0]})
    made = pool.task("a", now=0.0)
    pool.ok(RemoveServer(server="s0"), 4.0)
    pool.ok(PutServer(settings=ServerSettings(id="s0")), 5.0)
    pool.task("a", now=6.0)
    pool.ok(Complete(assignment=made.assignment_id), 9.0)
    rows = rows_of(pool)
    assert [(row["start"], row["duration"], row["complete"]) for row in rows] == [
        (0.0, 4.0, "false"),
        (6.0, 3.0, "false"),
    ]


def test_contexts_become_columns_if_all_tasks_have_them() -> None:
    kept = ["age", 'a"b', "vip", "note"]
    pool = pool_of({"a": [1.0, 1.0, 1.0]}, context=kept)
    pool.task("a", now=0.0, context={"age": 3, 'a"b': 1.5, "vip": True, "note": "x"})
    pool.task("a", now=1.0, context={'a"b': 2, "age": 4.5})
    found = log_of("p", pool.log)
    assert found.contexts == ("age", 'a"b')
    assert found.left_out == ("vip", "note")
    assert [row[-2:] for row in found.rows] == [[3, 1.5], [4.5, 2]]
    assert 'context = ["context.age", "context.a\\"b"]' in columns_file(found)


def served(client: Client, n: int, seed: int, chance: dict[str, list[float]]) -> None:
    """Tasks that come, are served and turn out well or not, in a pool that draws by weight."""
    rng = random.Random(seed)
    running: list[Any] = []
    for _ in range(n):
        kind = rng.choice(sorted(chance))
        response = client("POST", "/v1/pools/p/assignments", {"task_type": kind})
        if response.status_code < 300:
            running.append(response.json())
        while len(running) > 1 or (running and rng.random() < 0.5):
            made = running.pop(rng.randrange(len(running)))
            client.complete(made)
            name = made["servers"][0]["id"]
            won = float(rng.random() < chance[kind_of(made)][int(name[1:])])
            told = {"subject": made["decision_id"], "value": won}
            client.good("POST", "/v1/outcomes", told)


def kind_of(assignment: Any) -> str:
    """The type of an assignment's task."""
    return str(assignment["task_type"])


def test_from_serving_to_a_plan_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Serve, write the log, fit it, replay it, export it, serve by what was learned."""
    chance = {"u": [0.9, 0.2, 0.5], "v": [0.2, 0.9, 0.5]}
    database, folder = tmp_path / "opportune.db", tmp_path / "log"
    alike: dict[str, list[float | None]] = {"u": [1.0, 1.0, 1.0], "v": [1.0, 1.0, 1.0]}
    with service(database) as client:
        declare(client, 3, alike)
        served(client, 300, 5, chance)
    assert run(["log", "p", "--database", str(database), "--out", str(folder)]) == 0
    log = read_log(folder / "log.csv", read_columns(folder / "columns.toml"))
    decisions = decisions_of(log)
    assert log.n_tasks == 300
    assert decisions.source == "log"
    assert decisions.propensity == pytest.approx(1.0 / decisions.free.sum(axis=1))
    fit = fit_log(log)
    assert fit.scores is not None
    order = [fit.instance.servers.index(f"s{r}") for r in range(3)]
    truth = np.array([chance[name] for name in fit.instance.task_types])
    assert fit.instance.match_reward[:, order] == pytest.approx(truth, abs=0.25)
    common = [str(folder / "log.csv"), "--columns", str(folder / "columns.toml")]
    quick = ["--policies", "greedy,random", "--steps", "2000", "--replications", "2"]
    capsys.readouterr()
    assert run(["replay", *common, *quick]) == 0
    assert "Off-policy: outcome per decision" in capsys.readouterr().out
    assert run(["export", *common, "--to", "vw"]) == 0
    with service(database) as client:
        rows = [
            [name, f"s{r}", float(fit.instance.match_reward[v, order[r]])]
            for v, name in enumerate(fit.instance.task_types)
            for r in range(3)
        ]
        client.good("PUT", "/v1/pools/p/scores", {"rows": rows, "replace": True})
        for made in list(client.good("GET", "/v1/pools/p/servers")):
            for name in made["assignments"]:
                client.complete(name)
        first = client.assign("u")
        second = client.assign("v")
        assert [first["servers"][0]["id"], second["servers"][0]["id"]] == ["s0", "s1"]


def test_the_log_is_printed_and_mistakes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "opportune.db"
    with service(database) as client:
        declare(client)
        client.assign()
    capsys.readouterr()
    assert run(["log", "p", "--database", str(database)]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["task_type"], row["server"], row["complete"]) == ("t", "s0", "false")
    assert run(["log", "P", "--database", str(database)]) == 1
    assert "Did you mean 'p'?" in capsys.readouterr().err
    assert run(["log", "p", "--database", str(tmp_path / "gone.db")]) == 1
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize("kind", JOURNALS)
def test_what_the_journal_is_kept_in_changes_nothing(kind: str, tmp_path: Path) -> None:
    pool = pool_of({"a": [3.0, 2.0]})
    made = pool.task("a", now=0.0)
    pool.ok(Complete(assignment=made.assignment_id), 2.0)
    journal = JOURNALS[kind](tmp_path, None)
    try:
        token = journal.acquire("p")
        records = [events.encode(event) for event in pool.log]
        journal.append(Append("p", token, 1, records)).result(30)
        found = decision_log(journal, "p")
    finally:
        journal.close()
    assert [dict(zip(found.columns, row, strict=True)) for row in found.rows] == rows_of(pool)
