"""Fits to real logs: the Anonymous Bank month as it is, and real prompts with known answers."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.learning.fit.columns import Columns, columns_of
from opportune.learning.fit.instance import Fit, FitSettings, fit_log
from opportune.learning.fit.log import LogRules, read_log
from opportune.model.catalog import catalog_instance

BANK = columns_of(
    {
        "time": "arrive_s",
        "date": "day",
        "day": 86_400,
        "task_type": "type",
        "server": "agent",
        "start": "service_start_s",
        "duration": "service_s",
        "leave_out": {"outcome": ["PHANTOM"]},
        "wait": ["vru_s", "queue_s"],
    }
)
ODDITIES = {
    "outcome is PHANTOM": 310,
    "a server is named but no service began": 2,
    "a service without the name of its server": 391,
    "a negative wait in the column 'vru_s'": 18,
    "the service began at 0 o'clock, before the task arrived": 57,
    "the service began after midnight": 6,
    "the service did not begin when the wait was over": 251,
    "a duration of a task that nobody served": 126,
    "zero duration": 125,
    "a task that nobody served": 10_366,
    "a task that arrived at the same time as another": 584,
    "a service that began before the server had ended an earlier one": 374,
    "a service that ran past midnight": 26,
    "a duration of more than 20 times the median of its type": 83,
}
"""Every oddity of the month and in how many rows. One of the 19 negative ``vru_s`` belongs to a
phantom call, which is left out. ``counted_by_hand`` counts them anew, without the reader."""


@pytest.fixture(scope="module")
def bank(data: Path) -> Fit:
    log = read_log(
        data / "anonymous_bank" / "calls_aug1999.csv", BANK, LogRules(too_short="one-step")
    )
    return fit_log(log, FitSettings(score="speed"))


def test_the_raw_month_is_refused_for_its_zero_services(data: Path) -> None:
    with pytest.raises(InputError, match="zero duration in 125 rows"):
        read_log(data / "anonymous_bank" / "calls_aug1999.csv", BANK)


def counted_by_hand(path: Path) -> dict[str, int]:
    """The oddities counted row by row from the raw file."""
    with path.open(encoding="utf-8") as stream:
        raw = list(csv.DictReader(stream))
    found = dict.fromkeys(ODDITIES, 0)
    seen: set[int] = set()
    lasted: dict[str, list[int]] = {}
    work: dict[str, list[tuple[int, int]]] = {}
    for row in raw:
        if row["outcome"] == "PHANTOM":
            found["outcome is PHANTOM"] += 1
            continue
        day = 86_400 * int(row["day"])
        arrival, took = day + int(row["arrive_s"]), int(row["service_s"])
        found["a task that arrived at the same time as another"] += arrival in seen
        seen.add(arrival)
        found["a negative wait in the column 'vru_s'"] += int(row["vru_s"]) < 0
        if not row["service_start_s"]:
            found["a task that nobody served"] += 1
            found["a server is named but no service began"] += row["agent"] != ""
            found["a duration of a task that nobody served"] += took > 0
            continue
        found["a service without the name of its server"] += row["agent"] == ""
        found["zero duration"] += took == 0
        start, due = day + int(row["service_start_s"]), None
        if int(row["vru_s"]) >= 0:
            due = arrival + int(row["vru_s"]) + int(row["queue_s"])
        if start < arrival and row["service_start_s"] == "0":
            found["the service began at 0 o'clock, before the task arrived"] += 1
            start = arrival if due is None else due
        elif start < arrival:
            found["the service began after midnight"] += 1
            start += 86_400
        if due is not None and abs(start - due) > 2:
            found["the service did not begin when the wait was over"] += 1
        found["a service that ran past midnight"] += (start + took - 1) // 86_400 > start // 86_400
        lasted.setdefault(row["type"], []).append(took)
        if row["agent"]:
            work.setdefault(row["agent"], []).append((start, start + took))
    for took_all in lasted.values():
        far = 20 * np.median([took for took in took_all if took > 0])
        found["a duration of more than 20 times the median of its type"] += sum(
            took > far for took in took_all
        )
    for services in work.values():
        until = 0
        for start, end in sorted(services):
            found["a service that began before the server had ended an earlier one"] += (
                start < until
            )
            until = max(until, end)
    return found


def test_every_oddity_of_the_month_has_its_line(bank: Fit, data: Path) -> None:
    assert {one.what: one.rows for one in bank.log.findings} == ODDITIES
    assert len(bank.findings) == len(ODDITIES)
    assert counted_by_hand(data / "anonymous_bank" / "calls_aug1999.csv") == ODDITIES


def test_the_month_gives_the_instance_that_was_made_of_it_by_hand(
    bank: Fit, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPPORTUNE_DATA", str(data))
    known = catalog_instance("bank-v1", 0.5)
    assert bank.instance.task_types == known.task_types
    assert bank.instance.servers == known.servers
    assert np.abs(bank.instance.match_reward - known.match_reward).max() < 0.02
    with (data / "anonymous_bank" / "types.csv").open(encoding="utf-8") as stream:
        rows = {row["type"]: row for row in csv.DictReader(stream)}
    for v, name in enumerate(bank.instance.task_types):
        seconds = bank.services.types[v].mean * bank.step.length
        assert seconds == pytest.approx(float(rows[name]["mean_service"]), rel=0.05)
        assert bank.arrivals.count[v] == int(rows[name]["calls"])


def test_the_month_has_a_day_and_servers_that_differ(bank: Fit) -> None:
    assert bank.step.length == 6.0
    assert bank.arrivals.multiplier is not None
    open_ = bank.arrivals.multiplier[8:20] @ bank.arrivals.rate
    closed = bank.arrivals.multiplier[1:6] @ bank.arrivals.rate
    assert open_.min() > 10 * closed.max()
    assert bank.arrivals.dispersion > 5  # weekdays differ
    assert bank.services.servers_differ
    text = "\n".join(bank.cautions)
    for told in ("made up", "durations depend on the server", "varies", "over the day", "at work"):
        assert told in text


@pytest.fixture(scope="module")
def prompts(data: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(n, 16) contexts, (n, 9) scores, names of the models."""
    with np.load(data / "llm_scores" / "dcrouter_text16.npz") as arrays:
        contexts = arrays["features"].astype(np.float64)
    with (data / "llm_scores" / "dcrouter_scores.csv").open(encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    return contexts, np.array([row[5:] for row in rows], dtype=np.float64), header[5:]


def routed(prompts: tuple[np.ndarray, np.ndarray, list[str]], path: Path, seed: int) -> np.ndarray:
    """A log of one pass over the prompts, each to one model drawn at random; the order."""
    contexts, scores, names = prompts
    rng = np.random.default_rng(seed)
    order, model = rng.permutation(len(scores)), rng.integers(0, 9, len(scores))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["time", "server", "duration", "outcome", *(f"f{i}" for i in range(16))])
        for i, (place, r) in enumerate(zip(order, model, strict=True)):
            took = rng.geometric(1 / 40)
            writer.writerow([8 * i, names[r], took, scores[place, r], *contexts[place]])
    return order


def test_real_prompts(prompts: tuple[np.ndarray, np.ndarray, list[str]], tmp_path: Path) -> None:
    _, scores, names = prompts
    path = tmp_path / "log.csv"
    order = routed(prompts, path, 1)
    roles = {role: role for role in ("time", "server", "duration", "outcome")}
    log = read_log(path, Columns(roles, tuple(f"f{i}" for i in range(16))))
    fit = fit_log(log, FitSettings(types=8))
    assert fit.scores is not None
    assert fit.clusters is not None
    assert fit.scores.model == "server"
    losses = {model: loss for model, (loss, _) in fit.scores.losses.items()}
    assert losses["server"] < losses["joint"] < losses["table"]
    servers = [names.index(name) for name in fit.instance.servers]
    real = np.array(
        [scores[order][fit.clusters.task_type == v][:, servers].mean(axis=0) for v in range(8)]
    )
    table = fit.scores.table
    assert ((table.low <= real) & (real <= table.high)).mean() >= 0.85
    big = fit.arrivals.count > 300
    assert np.abs(table.mean - real)[big].max() < 0.16
    calibration = fit.scores.calibration
    assert calibration is not None
    assert calibration.slope == pytest.approx(1.0, abs=4 * calibration.slope_error)
    chosen = fit_log(log)
    assert 16 <= len(chosen.instance.task_types) <= 64
    assert fit.drifted == []
