"""Exports: what is written says what the log says, also to the programs that it is for."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.learning.evaluation.decisions import decisions_of
from opportune.learning.evaluation.exporting import vowpal_lines, vowpal_name
from opportune.learning.fit.columns import columns_of
from opportune.learning.fit.log import read_log
from tests.fit_logs import write_log
from tests.unit.test_off_policy import known_log

ODD = ("a b", "a:b", "a|b", "a%20b")


def odd_log(path: Path) -> Path:
    """Names that mean something to Vowpal Wabbit, contexts, outcomes of all sizes."""
    free = ";".join(ODD)
    rows = [
        f"{4 * i},t {i % 2},{ODD[i % 4]},3,{i / 7!r},{1 / (2 + i % 3)!r},{free},{i / 3!r},-1"
        for i in range(24)
    ]
    rows.append("99,t 0,a b,3,,0.5,a b,0,1")  # no outcome: left out
    header = "time,task_type,server,duration,outcome,propensity,free,x y,z"
    return write_log(path, header, *rows)


def columns_text() -> str:
    roles = ("time", "task_type", "server", "duration", "outcome", "propensity", "free")
    return ",".join(f"{one}={one}" for one in roles) + ",context=x y+z"


def parsed(text: str) -> list[tuple[list[str], dict[int, tuple[float, float]]]]:
    """Examples of a file for --cb_adf: action lines without labels, and labels by place."""
    found = []
    for block in text.strip().split("\n\n"):
        shared, *lines = block.split("\n")
        assert shared.startswith("shared |t ")
        labels, actions = {}, []
        for place, line in enumerate(lines):
            label, _, features = line.partition("|")
            if label:
                action, cost, probability = label.split(":")
                assert int(action) == place
                labels[place] = (float(cost), float(probability))
            actions.append(features)
        found.append((actions, labels))
    return found


def test_vowpal_wabbit_is_told_what_the_log_says(tmp_path: Path) -> None:
    path = odd_log(tmp_path / "log.csv")
    assert run(["export", str(path), "--to", "vw", "--columns", columns_text()]) == 0
    text = (tmp_path / "log.vw").read_text(encoding="utf-8")
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))[:24]
    examples = parsed(text)
    assert len(examples) == 24
    servers = sorted(ODD)
    for row, (actions, labels) in zip(rows, examples, strict=True):
        ((place, (cost, probability)),) = labels.items()
        assert servers[place] == row["server"]
        assert cost == -float(row["outcome"])
        assert probability == float(row["propensity"])
        assert actions == [f"s server={vowpal_name(name)}" for name in servers]
    assert "shared |t type=t%200 |c x%20y:0 z:-1" in text
    assert len({vowpal_name(name) for name in ODD}) == 4


def test_one_line_a_decision(tmp_path: Path) -> None:
    log = read_log(known_log(tmp_path / "log.csv", 3, 50))
    decisions = decisions_of(log)
    lines = list(vowpal_lines(log, decisions, "cb"))
    assert len(lines) == decisions.n
    for i, line in enumerate(lines):
        label, features = line.split(" |")
        action, cost, probability = label.split(":")
        assert int(action) == decisions.server[i] + 1
        assert float(cost) == -decisions.outcome[i]
        assert float(probability) == decisions.propensity[i]
        assert features == f"t type={log.task_types[log.task_type[decisions.task[i]]]}"  # type: ignore[index]


def test_only_servers_that_were_free_can_be_chosen(tmp_path: Path) -> None:
    log = read_log(known_log(tmp_path / "log.csv", 3, 50))
    decisions = decisions_of(log)
    text = "\n".join(vowpal_lines(log, decisions))
    for i, (actions, labels) in enumerate(parsed(text)):
        assert len(actions) == decisions.free[i].sum()
        (place,) = labels
        assert actions[place] == f"s server={log.servers[decisions.server[i]]}"


def test_open_bandit_pipeline_gets_its_dict(tmp_path: Path) -> None:
    path = odd_log(tmp_path / "log.csv")
    out = tmp_path / "feedback.npz"
    command = ["export", str(path), "--to", "obp", "--columns", columns_text()]
    assert run([*command, "--out", str(out)]) == 0
    with np.load(out, allow_pickle=False) as file:
        found = dict(file)
    assert found["n_rounds"] == 24
    assert found["n_actions"] == 4
    assert found["context"].shape == (24, 4)  # two contexts, two types
    assert found["context"][1].tolist() == [pytest.approx(1 / 3), -1.0, 0.0, 1.0]
    assert found["reward"] == pytest.approx(np.arange(24) / 7)
    assert found["pscore"] == pytest.approx(1 / (2 + np.arange(24) % 3))
    names = found["action_names"][found["action"]]
    assert names.tolist() == [ODD[i % 4] for i in range(24)]


def test_what_cannot_be_exported_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = odd_log(tmp_path / "log.csv")
    assert run(["export", str(path), "--to", "vw", "--columns", columns_text()]) == 0
    assert "left out: 1 service without an outcome" in capsys.readouterr().err
    bare = write_log(tmp_path / "bare.csv", "time,server,duration", "1,x,2", "5,y,2")
    assert run(["export", str(bare), "--to", "vw"]) == 1
    assert "no decision with a server, a propensity and an outcome" in capsys.readouterr().err
    assert run(["export", str(path), "--to", "obp", "--out", str(tmp_path / "a.csv")]) == 1
    assert run(["export", str(path), "--to", "vw", "--out", str(path / "a.vw")]) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning:vowpalwabbit")
def test_vowpal_wabbit_reads_it_back(tmp_path: Path) -> None:
    """By the real parser, where it is installed."""
    vw = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    path = odd_log(tmp_path / "log.csv")
    log = read_log(path, columns_of(_roles()))
    decisions = decisions_of(log)
    workspace = vw.Workspace("--cb_adf --quiet")
    blocks = "\n".join(vowpal_lines(log, decisions)).strip().split("\n\n")
    for i, block in enumerate(blocks):
        examples = workspace.parse(block.split("\n"), vw.LabelType.CONTEXTUAL_BANDIT)
        assert len(examples) == 1 + decisions.free[i].sum()
        labels = [one.get_label(vw.LabelType.CONTEXTUAL_BANDIT).costs for one in examples[1:]]
        place = int(np.flatnonzero(np.flatnonzero(decisions.free[i]) == decisions.server[i])[0])
        assert [len(costs) for costs in labels] == [int(j == place) for j in range(len(labels))]
        assert labels[place][0].cost == pytest.approx(-decisions.outcome[i], rel=1e-6)
        assert labels[place][0].probability == pytest.approx(decisions.propensity[i], rel=1e-5)
        workspace.learn(examples)
        workspace.finish_example(examples)


def _roles() -> dict[str, object]:
    roles = ("time", "task_type", "server", "duration", "outcome", "propensity", "free")
    return {one: one for one in roles} | {"context": ["x y", "z"]}
