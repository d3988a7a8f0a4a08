"""Coupled comparisons: what the numbers of a row are, settings, records, the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError
from opportune.experiments.queue import (
    ORACLE,
    QueueSettings,
    compare_queue,
    compare_queue_plans,
    queue_plan,
)
from opportune.experiments.queue_record import COLUMNS, queue_record
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_streams import Feedback, queue_streams
from opportune.simulate.queue import queue_path

IDS = ("optimistic", "cqb-eta-2", "random")
WORLD = load_queue("cqb-joint-v1", QueueChoice(horizon=150, dimension=3, servers=3))
SETTINGS = QueueSettings(IDS, replications=6, seed=4)


def queues(policy: str) -> np.ndarray:
    """(n, T) queue lengths of every replication, from the runs in full."""
    plan = queue_plan(policy, WORLD, 150)
    return np.array(
        [queue_path(queue_streams(WORLD, 150, 4, i), plan).queue[1:] for i in range(6)],
        dtype=np.float64,
    )


@pytest.mark.parametrize("policy", IDS)
def test_every_number_of_a_row_follows_from_the_paths(policy: str) -> None:
    row = compare_queue(WORLD, SETTINGS).row(policy)
    own, best = queues(policy), queues(ORACLE)
    end = own[:, -1] - best[:, -1]
    assert row.queue_regret == pytest.approx(end.mean())
    assert row.standard_error == pytest.approx(end.std(ddof=1) / math.sqrt(6))
    assert row.worst == end.max()
    excess = (own - best).mean(axis=1)
    assert row.excess == pytest.approx(excess.mean())
    assert row.excess_error == pytest.approx(excess.std(ddof=1) / math.sqrt(6))
    assert row.mean_queue == pytest.approx(own.mean())
    assert row.final_queue == pytest.approx(own[:, -1].mean())
    way = np.cumsum(own - best, axis=1) / np.arange(1, 151)
    kept = way[:, row.transient_round - 1]
    assert row.transient_cost == pytest.approx(kept.mean())
    assert row.transient_error == pytest.approx(kept.std(ddof=1) / math.sqrt(6))
    assert row.transient_cost <= way.mean(axis=0)[19:].max() + 1e-12
    variance = own[:, -1].var(ddof=1) + best[:, -1].var(ddof=1)
    assert row.variance_ratio == pytest.approx(
        variance / end.var(ddof=1) if end.any() else math.inf
    )


def test_coupling_saves_runs() -> None:
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=300))
    row = compare_queue(world, QueueSettings(("optimistic",), replications=60)).row("optimistic")
    assert row.variance_ratio > 2


def test_the_same_policy_with_other_knobs_stands_beside_itself() -> None:
    plans = [queue_plan(one, WORLD, 150) for one in ("optimistic", "greedy-decay")]
    result = compare_queue_plans(WORLD, plans, SETTINGS)
    apart, error = result.difference("optimistic", "greedy-decay")
    paired = result.traces["optimistic"].mean_queue - result.traces["greedy-decay"].mean_queue
    assert apart == pytest.approx(paired.mean())
    assert error == pytest.approx(paired.std(ddof=1) / math.sqrt(6))
    with pytest.raises(InputError, match="every name once"):
        compare_queue_plans(WORLD, [plans[0], plans[0]], SETTINGS)


def test_references_know_less_and_more() -> None:
    ids = ("best-single", "full-information", ORACLE, "random")
    result = compare_queue(WORLD, QueueSettings(ids, replications=20))
    assert result.row(ORACLE).excess == 0
    assert result.row("full-information").excess == 0  # outcomes are drawn: no more to know
    # tasks that the best server cannot solve wait for ever: it may even lose to random service
    assert result.row("best-single").excess > 1


def test_a_record_has_no_infinity() -> None:
    result = compare_queue(WORLD, QueueSettings(("optimistic", ORACLE), replications=1))
    record = queue_record(result)
    text = json.dumps(record, allow_nan=False)
    assert record["rows"][0]["standard_error"] is None
    assert set(record["rows"][0]) == set(COLUMNS)
    assert "optimistic" in text


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"policies": "optimistic"}, "policies"),
        ({"policies": ("optimistic", "optimistic")}, "policies"),
        ({"policies": ("nonsense",)}, "policy"),
        ({"replications": 0}, "replications"),
        ({"horizon": 1}, "horizon"),
        ({"seed": -1}, "seed"),
        ({"workers": 2.5}, "workers"),
        ({"servers_at_once": 0}, "servers_at_once"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        QueueSettings(**options)
    assert caught.value.problems[0].field == field


def test_seed_zero_is_a_seed() -> None:
    zero, one = (
        compare_queue(WORLD, QueueSettings(("random",), replications=4, seed=s)) for s in (0, 1)
    )
    assert zero.settings.seed == 0
    assert not np.array_equal(zero.traces["random"].curve, one.traces["random"].curve)


def test_late_reports_cost_something_and_several_servers_help() -> None:
    plain = compare_queue(WORLD, QueueSettings(("random",), replications=10))
    two = compare_queue(WORLD, QueueSettings(("random",), replications=10, servers_at_once=2))
    assert two.row("random").mean_queue < plain.row("random").mean_queue
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=400))
    settings = [
        QueueSettings(("optimistic",), replications=20, feedback=feedback)
        for feedback in (Feedback(), Feedback(delay=100))
    ]
    soon, late = (compare_queue(world, one).row("optimistic").excess for one in settings)
    assert late > soon


QUICK = ("--horizon", "60", "--replications", "2", "--policies", "optimistic,random")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["queue", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "hard-v1", *QUICK, "--format", "json")
    record = json.loads(out)
    assert code == 0
    assert [row["policy"] for row in record["rows"]] == ["optimistic", "random"]
    needed = {"queue_regret", "standard_error", "mean_queue", "final_queue", "exploration_share"}
    assert needed <= set(record["rows"][0])
    assert (record["horizon"], record["replications"], record["seed"]) == (60, 2, 1)
    code, out, _ = call(capsys, "hard-v1", *QUICK, "--format", "csv")
    assert out.splitlines()[0] == ",".join(COLUMNS)
    code, out, err = call(capsys, "cqb-disjoint-v1", *QUICK)
    assert "2 runs coupled with the oracle" in out
    assert "every replication draws its own" in err


@pytest.mark.parametrize("workers", ["2", "3"])
def test_any_number_of_workers_prints_the_same(
    capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    one = call(capsys, "cqb-joint-v1", *QUICK, "--format", "json")[1]
    assert call(capsys, "cqb-joint-v1", *QUICK, "--format", "json", "--workers", workers)[1] == one


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("nosuch",), 1, "an id of a queue instance"),
        (("hard-v1", "--arrival-rate", "0.7"), 1, "below 1/2"),
        (("hard-v1", "--load", "0.7"), 1, "hard-v1 has its own"),
        (("hard-v1", "--policies", "optimstic"), 1, "policy"),
        (("hard-v1", "--horizon", "2.5"), 2, "usage error"),
        (("hard-v1", "--lost", "1.5"), 1, "from 0 to 1"),
        (("hard-v1", "--report", "queue.pdf"), 1, "ends in .html"),
    ],
)
def test_what_is_wrong_is_said(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, told: str
) -> None:
    found, _, err = call(capsys, *words)
    assert found == code
    assert told in err


def test_the_report_is_one_file_that_fetches_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "queue.html"
    assert call(capsys, "cqb-joint-v1", *QUICK, "--report", str(path))[0] == 0
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert text.count("<svg") >= 4
    assert "<script" not in text
    for row in ("optimistic", "random"):
        assert row in text


def test_a_queue_can_be_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["check", "cqb-joint-v1"]) == 0
    assert "10 numbers to learn (one weight)" in capsys.readouterr().out
    path = tmp_path / "prompts.toml"
    path.write_text("contexts = [[1.0]]\noutcomes = [[0.5, 1]]\nload = 0.5\n", encoding="utf-8")
    assert run(["check", str(path)]) == 1
    assert "0.5 in row 0" in capsys.readouterr().out
