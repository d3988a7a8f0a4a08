"""Policies on a log: simulated on the fitted instance, set beside what really happened."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opportune
from opportune.cli import run
from opportune.experiments.replay import LOGGED, Replay, replay
from opportune.experiments.settings import Settings
from opportune.learning.fit.instance import FitSettings, fit_log
from opportune.learning.fit.log import read_log
from opportune.policies.base import loss_policies_by_id
from tests.fit_logs import key_paths, simulated_log, told_keys, write_log
from tests.unit.test_fit import small_world

QUICK = Settings(policies=("lag", "greedy", "random"), steps=30_000, replications=4)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the policy ``random`` did for 20,000 steps."""
    return simulated_log(small_world(), tmp_path_factory.mktemp("log") / "log.csv", 20_000, 5)


@pytest.fixture(scope="module")
def result(log: Path) -> Replay:
    return replay(fit_log(read_log(log)), QUICK)


def test_the_policy_that_made_the_log_earns_what_the_log_did(result: Replay) -> None:
    rows = {row.policy: row for row in result.rows}
    assert list(rows) == [LOGGED, "lag", "greedy", "random"]
    same = rows["random"]
    assert abs(same.difference) <= 1.5 * same.difference_half_width
    assert same.unserved == pytest.approx(rows[LOGGED].unserved, abs=0.02)
    assert rows["lag"].difference > rows["lag"].difference_half_width


def test_what_is_promised_is_true(result: Replay) -> None:
    """Rewards and differences under the true scores lie within the intervals."""
    truth = small_world()
    fit = result.fit
    order = [truth.servers.index(name) for name in fit.instance.servers]
    types = [truth.task_types.index(name) for name in fit.instance.task_types]
    true = replace(fit.instance, match_reward=truth.match_reward[np.ix_(types, order)])
    runs = opportune.Run(steps=400_000, warm_up=1_000, seed=9)
    plans = [loss_policies_by_id()[row.policy].plan(fit.instance) for row in result.rows[1:]]
    traces = opportune.simulate_plans(true, plans, runs)
    earned = [trace.reward.sum() / trace.arrived.sum() for trace in traces]
    for row, value in zip(result.rows[1:], earned, strict=True):
        half = float(np.hypot(row.half_width, row.score_half_width))
        assert abs(row.reward - value) <= 1.5 * half
        assert abs(row.rival - (value - earned[0])) <= 1.5 * row.rival_half_width + 1e-12


def test_the_log_earns_its_outcomes_per_task(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "time,server,duration,outcome",
        *(f"{9 * i},{'xy'[i % 2]},3,{i % 2}" for i in range(60)),
        "541,,,",
        "545,,,",
    )
    found = replay(fit_log(read_log(path)), replace(QUICK, steps=2_000))
    assert found.rows[0].reward == pytest.approx(30 / 62)
    assert found.rows[0].unserved == pytest.approx(2 / 62)


def test_scores_that_were_made_up_and_waits_are_told(tmp_path: Path) -> None:
    rows = (f"{5 * i},{5 * i + 8},x,3" for i in range(100))
    path = write_log(tmp_path / "log.csv", "time,start,server,duration", *rows)
    fit = fit_log(read_log(path), FitSettings(score="none"))
    text = "\n".join(replay(fit, replace(QUICK, steps=2_000)).cautions)
    assert "100% of the services of the log began after a wait" in text
    assert "rewards are made up" in text
    assert "nobody served 0.0% of the tasks of the log" in text


def test_the_command(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--policies", "lag,random", "--steps", "3000", "--replications", "2"]
    assert run(["replay", str(log), *quick, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in record["policies"]] == [LOGGED, "lag", "random"]
    assert record["policies"][0]["difference_to_log"] == 0.0
    assert run(["replay", str(log), *quick, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == record
    assert run(["replay", str(log), *quick, "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("policy,reward_per_task,half_width")
    assert run(["replay", str(log), *quick]) == 0
    assert "'log' is what really happened" in capsys.readouterr().out
    assert run(["replay", str(log), "--policies", "best"]) == 1
    assert run(["replay", str(tmp_path / "gone.csv")]) == 1


def test_every_key_is_on_the_page_of_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (f"{4 * i},{'xy'[i % 3 % 2]},3,{i % 2},1,0.5" for i in range(90))
    log = write_log(tmp_path / "log.csv", "time,server,duration,x,y,propensity", *rows)
    roles = "time=time,server=server,duration=duration,propensity=propensity,every_outcome=x+y"
    quick = ["--policies", "lag,random", "--steps", "3000", "--replications", "2"]
    assert run(["replay", str(log), "--columns", roles, *quick, "--format", "json"]) == 0
    assert key_paths(json.loads(capsys.readouterr().out)) == told_keys("replay")


def test_one_replication_has_no_interval_and_no_nan(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--policies", "lag,random", "--steps", "3000", "--replications", "1"]
    assert run(["replay", str(log), *quick, "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["policies"][1]
    assert row["half_width"] is None
    assert row["score_half_width"] > 0


def test_the_page(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    page = tmp_path / "replay.html"
    quick = ["--policies", "lag,greedy", "--steps", "3000", "--replications", "2"]
    assert run(["replay", str(log), *quick, "--report", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    specs = json.loads(text.split('id="chart-specs">')[1].split("</script>")[0])
    assert {"log-reward", "run-reward"} <= set(specs)
    named = [row["policy"] for row in specs["log-reward"]["datasets"]["rows"]]
    assert named == ["The log itself", "LAG", "Greedy"]
    assert "What each policy would have earned" in text


def test_the_page_shows_all_ways_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    rows = (f"{4 * i},{'xy'[i * i % 3 % 2]},3,{i % 2},1,0.5" for i in range(400))
    log = write_log(tmp_path / "log.csv", "time,server,duration,x,y,propensity", *rows)
    page = tmp_path / "replay.html"
    roles = "time=time,server=server,duration=duration,propensity=propensity,every_outcome=x+y"
    quick = ["--policies", "greedy,random", "--steps", "3000", "--replications", "2"]
    assert run(["replay", str(log), "--columns", roles, *quick, "--report", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    specs = json.loads(text.split('id="chart-specs">')[1].split("</script>")[0])
    ways = [row["way"] for row in specs["side-by-side"]["datasets"]["rows"]]
    assert ways == ["off-policy", *["simulated", "recorded", "off-policy"] * 2]
    assert (
        "Off-policy estimates are about single decisions at the log's own states"
        in text.replace("&#x27;", "'").replace("&#39;", "'")
    )
    alone = ["--columns", "time=time,duration=duration,every_outcome=x+y"]
    assert run(["replay", str(log), *alone, *quick, "--report", str(page)]) == 0
    assert "earns most in the simulation: " in page.read_text(encoding="utf-8")


def test_tasks_whose_servers_begin_one_after_another_are_not_judged_off_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{9 * i},t{i},{r},3,{i % 2},0.5" for i in range(60) for r in "xy"]
    header = "time,task,server,duration,outcome,propensity"
    log = write_log(tmp_path / "together.csv", header, *rows)
    quick = ["--policies", "greedy", "--steps", "2000", "--replications", "2"]
    page = tmp_path / "replay.html"
    assert run(["replay", str(log), *quick]) == 0
    told = capsys.readouterr()
    assert "30 decisions took several servers" in told.err
    assert "all servers of a task have the same outcome" in told.err
    assert "off-policy greedy: the mean weight is 2, which no true propensities give" in told.err
    assert "Off-policy:" in told.out
    later = [f"{row},{9 * (i // 2) + i % 2}" for i, row in enumerate(rows)]
    log = write_log(tmp_path / "log.csv", f"{header},start", *later)
    assert run(["replay", str(log), *quick]) == 0
    told = capsys.readouterr()
    left_out = "60 services that began after another of the same task, 60 services beside one"
    assert f"off-policy estimates leave out {left_out} of these" in told.err
    assert "no decision of the log can judge a policy off-policy" in told.err
    assert "Off-policy:" not in told.out
    pytest.importorskip("vl_convert")
    assert run(["replay", str(log), *quick, "--report", str(page)]) == 0
    assert "side-by-side" not in page.read_text(encoding="utf-8")
