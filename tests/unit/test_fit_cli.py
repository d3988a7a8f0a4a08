"""``opportune fit``: its files are taken by other commands; JSON, CSV, tables and a page."""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opportune
from opportune.cli import run
from opportune.learning.fit.columns import columns_of
from opportune.learning.fit.files import write_fit
from opportune.learning.fit.instance import FitSettings, fit_log
from opportune.learning.fit.log import read_log
from tests.fit_logs import key_paths, simulated_log, told_keys, write_log
from tests.unit.test_fit import small_world


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log of whole steps."""
    return simulated_log(small_world(), tmp_path_factory.mktemp("log") / "log.csv", 5_000, 1)


def numbers_of(value: Any) -> Iterator[float]:
    """All numbers in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers_of(one)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def test_the_files_are_taken_by_the_other_commands(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fitted"
    assert run(["fit", str(log), "--out", str(out), "--name", "pool"]) == 0
    told = capsys.readouterr()
    assert "instance.toml" in told.err
    assert "In the log:" in told.out
    instance = str(out / "instance.toml")
    assert run(["check", instance]) == 0
    assert run(["plan", instance]) == 0
    quick = ["--steps", "2000", "--replications", "2", "--policies", "lag,greedy"]
    assert run(["compare", instance, *quick]) == 0
    assert "pool" in capsys.readouterr().out
    header = Path(instance).read_text(encoding="utf-8").split("name =")[0]
    assert "Fitted by opportune" in header
    assert "sha256" in header
    assert f"Command: opportune fit {log}" in header


def test_json_and_files_agree_and_hold_no_nan(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fitted"
    assert run(["fit", str(log), "--out", str(out), "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((out / "fit.json").read_text(encoding="utf-8"))
    assert all(math.isfinite(number) for number in numbers_of(record))
    loaded = opportune.load_instance(out / "instance.toml")
    np.testing.assert_array_equal(loaded.match_reward, record["score"]["value"])
    np.testing.assert_array_equal(loaded.arrival_rate, record["arrival_rate"]["value"])
    np.testing.assert_array_equal(loaded.mean_duration, record["mean_duration"]["value"])
    assert list(loaded.task_types) == record["task_types"]
    low, high = np.array(record["score"]["low"]), np.array(record["score"]["high"])
    assert ((low <= loaded.match_reward) & (loaded.match_reward <= high)).all()
    with (out / "scores.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == loaded.match_reward.size
    assert float(rows[0]["score"]) == loaded.match_reward[0, 0]


def test_every_key_is_on_the_page_of_results(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", str(log), "--format", "json"]) == 0
    printed, told = key_paths(json.loads(capsys.readouterr().out)), told_keys("fit")
    parents = {path.rpartition(".")[0].removesuffix("[]") for path in told} - {""}
    only_with_days = {path for path in told if path.startswith("profile.")}
    assert printed - told - parents == set()
    assert told - printed == only_with_days


def test_csv_has_a_row_per_pair(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", str(log), "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["task", "server", "score", "low", "high", "outcomes", "mean", "services"]
    assert len(rows) == 1 + 8


def test_the_same_log_gives_the_same_files(log: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run(["fit", str(log), "--out", str(tmp_path / name), "--seed", "7"]) == 0
    for name in ("scores.csv", "fit.json"):
        first, second = ((tmp_path / each / name).read_bytes() for each in ("one", "two"))
        assert first == second


def test_errors_end_with_one_and_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", "1,x,0,1", "no,x,2,1")
    assert run(["fit", str(path), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "log.time" in told
    assert "log.duration" in told
    assert not (tmp_path / "out").exists()
    assert run(["fit", str(tmp_path / "gone.csv")]) == 1
    assert run(["fit", str(path), "--too-short", "maybe"]) == 2
    assert run(["fit", str(path), "--columns", str(tmp_path / "gone.toml")]) == 1
    assert run(["fit", str(path), "--types", "0"]) == 1


def test_a_folder_that_cannot_be_written_to(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["fit", str(log), "--out", str(tmp_path / "file" / "deeper")]) == 1
    assert "a place that can be written to" in capsys.readouterr().err


def test_a_profile_and_shares_are_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    busy = [day * 1000 + np.sort(rng.uniform(0, 500, 200)) for day in range(6)]
    rows = [f"{t:.3f},s{rng.integers(3)},{rng.exponential(8):.3f},1" for t in np.concatenate(busy)]
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    columns = tmp_path / "columns.toml"
    columns.write_text(
        'time = "time"\nserver = "server"\nduration = "duration"\noutcome = "outcome"\nday = 1000\n'
    )
    out = tmp_path / "fitted"
    arguments = ["fit", str(path), "--columns", str(columns), "--step", "0.5", "--periods", "4"]
    assert run([*arguments, "--availability", "share", "--out", str(out)]) == 0
    data = tomllib.loads((out / "instance.toml").read_text(encoding="utf-8"))
    assert data["profile"]["period_steps"] == 500
    assert data["profile"]["multiplier"][3] == [0.0]
    day = opportune.load_day(out / "instance.toml")
    assert day.n_periods == 4
    assert (day.on_duty[:2] > 0.9).all()
    assert (day.on_duty[2:] < 0.1).all()
    mean = opportune.load_instance(out / "instance.toml")
    assert mean.servers_on_duty == pytest.approx(1.5, abs=0.15)


def test_shares_without_a_profile(tmp_path: Path) -> None:
    rows = [f"{day * 100 + t},s{t % 2},1,1" for day in range(4) for t in range(40)]
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    roles = {role: role for role in ("time", "server", "duration", "outcome")}
    fit = fit_log(read_log(path, columns_of({**roles, "day": 100})), FitSettings(periods=1))
    made = write_fit(fit, tmp_path / "out", shares=True)
    loaded = opportune.load_instance(made[0])
    np.testing.assert_allclose(loaded.on_duty, [4 * 39 / 339, 4 * 39 / 339], atol=0.01)
    always = write_fit(fit, tmp_path / "always")
    assert opportune.load_instance(always[0]).availability is None


def test_names_that_need_quotes_and_odd_letters(tmp_path: Path) -> None:
    names = ['say "hi"', "back\\slash", "Zoë", "a,b"]
    rows = [(3 * i, f"typ {i % 2}", names[i % 4], 2, i % 2) for i in range(80)]
    path = tmp_path / "log.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("time", "task_type", "server", "duration", "outcome"))
        writer.writerows(rows)
    fit = fit_log(read_log(path))
    made = write_fit(fit, tmp_path / "out", 'opportune fit "x\ty"')
    assert opportune.load_instance(made[0]).servers == tuple(sorted(names))


def test_what_turns_contexts_into_types_is_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [
        f"{5 * i},s{i % 2},{rng.geometric(0.3)},{rng.integers(2)},{x:.5f},{rng.normal():.5f}"
        for i, x in enumerate(rng.normal(size=400))
    ]
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome,x,y", *rows)
    roles = {role: role for role in ("time", "server", "duration", "outcome")}
    log = read_log(path, columns_of({**roles, "context": ["x", "y"]}))
    fit = fit_log(log, FitSettings(types=3, model="server"))
    made = write_fit(fit, tmp_path / "out")
    with np.load(made[-1]) as kept:
        x = (log.context - kept["center"]) / kept["spread"] / kept["reach"]
        nearest = ((x[:, None, :] - kept["type_center"]) ** 2).sum(axis=2).argmin(axis=1)
        assert kept["columns"].tolist() == ["x", "y"]
        assert kept["server_weight"].shape == (2, 3)
    np.testing.assert_array_equal(nearest, fit.clusters.task_type)  # type: ignore[union-attr]


def test_the_report_is_one_page_with_its_pictures(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    page = tmp_path / "fit.html"
    assert run(["fit", str(log), "--report", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    found = text.split('id="chart-specs">')[1].split("</script>")[0]
    specs = json.loads(found)
    assert {
        "fit-level",
        "fit-durations",
        "fit-scores",
        "fit-support",
        "fit-shrinkage",
        "fit-calibration",
    } <= set(specs)
    for name, spec in specs.items():
        assert f'id="{name}"' in text
        assert all(spec["datasets"].values()), name
    assert "What was odd in the log" in text
    assert "a task that nobody served" in text
