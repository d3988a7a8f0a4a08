"""``opportune learn``: what it prints and what it refuses."""

from __future__ import annotations

import csv
import io
import json

import pytest

from opportune.cli import run
from opportune.cli.learn import COLUMNS

SHORT = ["learn", "priority-v1", "--load", "0.7", "--tasks", "400", "--replications", "2"]
POLICIES = ["--policies", "greedy-known,lag-learned,greedy-learned"]


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run([*SHORT, *POLICIES, *words]) == 0
    return capsys.readouterr().out


def test_json_has_rows_gains_claims_and_curves(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(output(capsys, "--format", "json"))
    assert [row["policy"] for row in record["policies"]] == [
        "lag-known",
        "greedy-known",
        "lag-learned",
        "greedy-learned",
    ]
    assert record["ceiling"] == "lag-known"
    assert record["policies"][0]["second_half"] == 100
    assert record["policies"][2]["to_99"] is None or record["policies"][2]["to_99"] <= 400
    assert [(one["policy"], one["known"]) for one in record["gains"]] == [
        ("lag-known", True),
        ("lag-learned", False),
    ]
    assert len(record["claims"]) == 1
    assert len(record["windows"]["share"]) == 4
    assert len(record["windows"]["share"][2]) == len(record["windows"]["edges"]) - 1
    assert record["regret"]["tasks"][-1] == 400
    assert record["pace"] == "learned"


def test_csv_has_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.reader(io.StringIO(output(capsys, "--format", "csv"))))
    assert rows[0] == list(COLUMNS)
    assert len(rows) == 5


def test_the_table_says_what_the_ceiling_is_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    told = output(capsys, "--mode", "queue", "--order", "fifo", "--pace", "known")
    assert "not the optimum" in told
    assert "p99" in told
    assert "rates and durations known" in told


def test_a_forced_share_prints_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    told = output(capsys, "--force", "0.1", "--floor", "0.5", "--width", "0.1")
    assert "lag-learned+forced" in told
    assert "the forced share of 0.1 costs lag-learned" in told


def test_late_servers_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, "--join", "priority-handler-2=100, standard-handler-1=50")
    assert run([*SHORT, "--join", "priority-handler-2"]) == 1
    assert "NAME=TASK" in capsys.readouterr().err
    assert run([*SHORT, "--join", "nobody=3"]) == 1
    assert "nobody" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--order", "fifo"], "--mode queue"),
        (["--policies", "lag"], "lag-known"),
        (["--policies", "lag-features"], "features"),
        (["--force", "2"], "share"),
        (["--workers", "0"], "workers"),
        (["--join", "nobody=3"], "nobody"),
        (["--report", "page.txt"], ".html"),
    ],
)
def test_bad_options_are_told(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SHORT, *words]) == 1
    assert told in capsys.readouterr().err


def test_recorded_prompts_need_a_load_and_take_no_late_servers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["learn", "router-scarce-v1"]) == 1
    assert "--load" in capsys.readouterr().err
    assert run(["learn", "router-scarce-v1", "--load", "0.7", "--join", "a=1"]) == 1
    assert "--join" in capsys.readouterr().err


@pytest.mark.usefixtures("data")
def test_recorded_prompts_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["learn", "router-flat-v1", "--load", "0.7", "--tasks", "300", "--replications", "2"]
    assert run([*words, "--policies", "lag-features,lag-known-features", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in record["policies"]][1:] == [
        "lag-features",
        "lag-known-features",
    ]
