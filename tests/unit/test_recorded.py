"""Policies on recorded outcomes of every server: the log's own tasks, nothing estimated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError
from opportune.experiments.judging import trained
from opportune.experiments.recorded import earned, recorded, recorded_tasks
from opportune.experiments.settings import Settings
from opportune.learning.fit.columns import columns_of, read_columns
from opportune.learning.fit.instance import fit_log
from opportune.learning.fit.log import read_log
from opportune.policies.base import loss_policy
from opportune.simulate.recorded import RecordedTasks, serve_recorded
from tests import naive_evaluation as naive
from tests.fit_logs import write_log
from tests.instances import Shape, random_instance

COLUMNS = columns_of(
    {"time": "time", "task_type": "task_type", "duration": "steps"}
    | {"every_outcome": {"x": "a", "y": "b"}}
)


def wide_log(path: Path, n: int = 200, seed: int = 2) -> Path:
    """Tasks of two kinds; server x solves the first kind, y the second, mostly."""
    rng = np.random.default_rng(seed)
    now, rows = 0, []
    for _ in range(n):
        now += int(rng.integers(1, 12))
        kind = int(rng.random() < 0.5)
        a, b = int(rng.random() < (0.9, 0.3)[kind]), int(rng.random() < (0.6, 0.8)[kind])
        rows.append(f"{now},{'uv'[kind]},{int(rng.integers(1, 9))},{a},{b}")
    return write_log(path, "time,task_type,steps,a,b", *rows)


@pytest.mark.parametrize("k", [1, 2])
def test_plans_serve_recorded_tasks_by_their_rule(k: int) -> None:
    rng = np.random.default_rng(k)
    drawn = random_instance(rng, Shape(k=1))
    few = drawn.arrival_rate / 10
    instance = replace(drawn, servers_per_task=np.full(drawn.n_types, k), arrival_rate=few)
    n = 300
    step = np.sort(rng.integers(0, 900, n))  # several tasks of one step
    tasks = RecordedTasks(step, rng.integers(0, instance.n_types, n), rng.integers(1, 20, n))
    plan = loss_policy("lag-cheapest").plan(instance)
    order = plan.tables.order[:, 0, :].astype(int).tolist()
    chosen = serve_recorded(instance, [plan], tasks, replications=3)[0]
    given = list(zip(step.tolist(), tasks.task_type.tolist(), tasks.duration.tolist(), strict=True))
    assert chosen.shape == (1, n, k)
    assert chosen[0].tolist() == naive.serve(order, given, instance.n_servers, k)


def test_what_was_picked_is_what_is_earned() -> None:
    outcome = np.array([[1.0, 0.5], [0.0, np.nan], [0.25, 0.5]])
    chosen = np.array([[[0, 1], [-1, -1], [1, -1]], [[0, 1], [0, 1], [0, -1]]])
    worth, unknown = earned(outcome, chosen)
    assert worth == pytest.approx([1.5, 0.0, 0.375])
    assert unknown == 1


def test_policies_on_a_wide_log(tmp_path: Path) -> None:
    log = read_log(wide_log(tmp_path / "log.csv"), COLUMNS)
    assert log.servers == ("x", "y")
    assert log.recorded is not None
    fit = fit_log(log)
    assert fit.pair_count.sum() == 400
    settings = Settings(policies=("greedy", "random"), replications=3)
    made = trained(fit, settings, 0.5)
    found = recorded(fit, made, settings)
    assert found is not None
    assert found.n == 100
    assert found.logged is None
    tasks, drawn = recorded_tasks(fit, 1)
    assert drawn == 0
    assert tasks.duration.max() <= 8
    chosen = serve_recorded(made.instance, made.plans, tasks, 1, 3)
    by_hand = np.mean(
        [sum(log.recorded[i, r] for r in chosen[0][0, i] if r >= 0) for i in range(100, 200)]
    )
    assert found.rows[0].reward.value == pytest.approx(by_hand)
    assert found.rows[1].rival.value == pytest.approx(
        found.rows[1].reward.value - found.rows[0].reward.value
    )
    assert found.rows[0].reward.value > found.rows[1].reward.value


def test_scores_that_judge_are_not_those_that_plan(tmp_path: Path) -> None:
    fit = fit_log(read_log(wide_log(tmp_path / "log.csv"), COLUMNS))
    recorded_first = fit.log.recorded[:100]  # type: ignore[index]
    made = trained(fit, Settings(policies=("greedy",)), 0.5)
    kinds = fit.task_type[:100]
    means = [[recorded_first[kinds == v, r].mean() for r in range(2)] for v in range(2)]
    assert made.instance.match_reward == pytest.approx(np.array(means), abs=0.1)
    assert made.judged.tolist() == [False] * 100 + [True] * 100


def test_a_log_that_also_names_servers(tmp_path: Path) -> None:
    rows = (f"{3 * i},{'xy'[i % 2]},2,1,0" for i in range(60))
    path = write_log(tmp_path / "log.csv", "time,server,duration,x,y", *rows)
    columns = "time=time,server=server,duration=duration,every_outcome=x+y"
    log = read_log(path, read_columns(columns))
    assert log.outcome.tolist() == [1.0, 0.0] * 30
    settings = Settings(policies=("greedy",))
    fit = fit_log(log)
    found = recorded(fit, trained(fit, settings, 0.5), settings)
    assert found is not None
    assert found.logged is not None
    assert found.logged.value == pytest.approx(0.5)
    assert found.rows[0].difference is not None
    assert found.rows[0].difference.value == pytest.approx(0.5)
    with pytest.raises(InputError, match="no column for y"):
        read_log(path, columns_of({"time": "time", "server": "server", "every_outcome": ["x"]}))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = wide_log(tmp_path / "log.csv")
    (tmp_path / "columns.toml").write_text(
        'time = "time"\ntask_type = "task_type"\nduration = "steps"\n'
        '[every_outcome]\nx = "a"\ny = "b"\n'
    )
    quick = ["--policies", "lag,random", "--steps", "2000", "--replications", "2"]
    command = ["replay", str(path), "--columns", str(tmp_path / "columns.toml"), *quick]
    assert run([*command, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in record["policies"]] == ["lag", "random"]
    assert record["policies"][0]["difference_to_log"] is None
    assert record["recorded"]["tasks"] == 100
    assert record["off_policy"] is None
    assert run(command) == 0
    assert "On recorded outcomes: 100 tasks" in capsys.readouterr().out
