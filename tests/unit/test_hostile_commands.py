"""Commands on hostile files and options: a line that names field and value, no file lost."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cyclopts import App

from opportune.cli import app, run
from opportune.learning.fit.columns import read_columns
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.model.queue_generator import hard_instance
from opportune.pricing.bounds import bounds_for
from opportune.pricing.exact import optimum
from opportune.pricing.headcount import headcount_prices

HEADER = "time,task_type,server,duration,outcome,propensity\n"
LOG = HEADER + "".join(f"{7 * i},a,{'xy'[i % 2]},5,{i % 3 % 2},0.5\n" for i in range(40))
INSTANCE = """
type_share = [0.5, 0.5]
match_reward = [[0.9, 0.7], [0.2, 0.8]]
duration = { kind = "geometric", mean = 5 }
"""


def told(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 1) -> str:
    """What a command that fails says, without a traceback."""
    assert run([str(word) for word in words]) == code
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """An instance file with shares."""
    path = tmp_path / "small.toml"
    path.write_text(INSTANCE)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with propensities."""
    path = tmp_path / "scores.csv"
    path.write_text(LOG)
    return path


@pytest.mark.parametrize("rate", [1e-310, 1e-300, 1e-160, 1e-30])
def test_a_type_that_hardly_arrives_warns_of_nothing(rate: float) -> None:
    """cases.md, inference-sim 202: the headcount prices divided by rates of 1e-300."""
    one = loss_instance([[0.9, 0.7, 0.3], [0.2, 0.8, 0.5]], [rate, 0.1], Geometric(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = headcount_prices(one)
        bounds = bounds_for(one)
    exact = optimum(one).value
    assert np.isfinite(found.bound)
    assert all(bound.value >= exact * (1 - 1e-9) for bound in bounds)


def test_a_log_is_never_written_over(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = log.parent / "." / log.name
    assert "is the file that is read" in told(capsys, "export", log, "--to", "vw", "--out", same)
    assert "is the file that is read" in told(capsys, "fit", log, "--out", log.parent)
    assert log.read_text() == LOG


def test_arrays_of_others_are_not_overwritten_by_a_plan(
    instance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = instance.with_suffix(".npz")
    arrays.write_bytes(b"mine")
    out = instance.with_suffix(".json")
    assert "is there, without" in told(capsys, "plan", instance, "--load", "0.3", "--out", out)
    assert arrays.read_bytes() == b"mine"
    arrays.unlink()
    for _ in range(2):  # its own plan is replaced
        assert run(["plan", str(instance), "--load", "0.3", "--out", str(out)]) == 0


@pytest.mark.parametrize("option", ["--report", "--out"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(
    option: str, instance: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {
        "--report": ("compare", instance, "--load", "0.3", "--steps", "1000000000000"),
        "--out": ("plan", instance, "--load", "0.3"),
    }[option]
    file = log / ("page.html" if option == "--report" else "plan.json")
    text = told(capsys, *words, option, file)
    assert f"{option}: {file}: {log} is no folder" in text
    folder = log.parent / file.name
    folder.mkdir()
    assert "is a folder" in told(capsys, *words, option, folder)


@pytest.mark.parametrize("load", ["-1", "0", "nan", "inf"])
@pytest.mark.parametrize("command", ["day", "compare", "plan"])
def test_what_is_no_load_is_told_as_one(
    command: str, load: str, instance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, command, instance, "--load", load).startswith("error: load: ")


@pytest.mark.parametrize("load", ["-1", "nan"])
def test_a_day_of_the_catalog_wants_a_load_above_0(
    load: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, "day", "bank-day-v1@Mon", "--load", load).startswith("error: load: ")


def test_messages_name_what_the_user_wrote(
    instance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance.write_text(INSTANCE.replace("[0.5, 0.5]", "[0.5, 0.3, 0.2]"))
    assert told(capsys, "plan", instance, "--load", "0.3").startswith("error: type_share: 3 shares")
    instance.write_text(INSTANCE)
    twice = told(capsys, "split", instance, "--load", "0.3", "--redeal", "never,never")
    assert "redeal: 'never'" in twice
    assert "'1e3' is no whole number" in told(
        capsys, "compare", instance, "--load", "0.3", "--steps", "1e3", code=2
    )
    twice = told(capsys, "learn", instance, "--load", "0.3", "--join", "server-1=5,server-1=6")
    assert "--join: server-1 is given twice" in twice
    assert "time is given twice" in told(
        capsys, "fit", instance, "--columns", "time=a,time=b,server=c"
    )


@pytest.mark.parametrize(
    ("option", "value"), [("--dimension", 10**7), ("--servers", 10**8), ("--servers", 1)]
)
def test_a_queue_too_large_is_refused_at_once(
    option: str, value: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for world in ("hard-v1", "cqb-joint-v1", "cqb-disjoint-v1")[: 1 if value == 1 else 3]:
        assert f": {value}; expected" in told(capsys, "queue", world, option, str(value))


def test_memory_that_does_not_suffice_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def grab(*_: object, **__: object) -> None:
        raise MemoryError("Allocation failed (probably too large).")

    monkeypatch.setattr("opportune.cli.queue.compare_queue", grab)
    assert told(capsys, "queue", "hard-v1", "--horizon", "10").startswith("error: memory: ")


def test_the_hard_instance_has_a_largest_size() -> None:
    assert hard_instance(100, dimension=2000).dimension == 2000


def test_columns_may_name_several_context_columns() -> None:
    assert read_columns("time=t,context=a+b").context == ("a", "b")


ROWS = (
    ("2026-03-01T08:00:00", "2026-03-01T08:01:00", "2026-03-01T08:02:00"),
    ("2026-03-01T08:10:00", "2026-03-01T08:11:00", "2026-03-01T08:14:00"),
    ("2026-03-01T08:20:00", "2026-03-01T08:21:00", "2026-03-01T08:22:00"),
)


def times_told(
    path: Path, rows: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> str | None:
    """What fitting services at those times says, None if it goes well."""
    lines = [f"{time},a,x,{start},{end},1\n" for time, start, end in rows]
    path.write_text("time,task_type,server,start,end,outcome\n" + "".join(lines))
    code = run(["fit", str(path)])
    text = capsys.readouterr().err
    return text if code else None


def test_clocks_with_and_without_an_offset_are_not_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A time without an offset was once read as UTC beside others that had one."""
    path = tmp_path / "log.csv"
    plain = [tuple(row) for row in ROWS]
    zoned = [tuple(f"{cell}+01:00" for cell in row) for row in ROWS]
    assert times_told(path, plain, capsys) is None
    assert times_told(path, zoned, capsys) is None
    one = times_told(path, [*plain[:2], zoned[2]], capsys)
    assert one is not None
    assert "log.time: no time in 1 row of log.csv: line 4 holds '2026-03-01T08:20:00+01:00'" in one
    starts = [(row[0], *far[1:]) for row, far in zip(plain, zoned, strict=True)]
    column = times_told(path, starts, capsys)
    assert column is not None
    assert "log.start: an offset from UTC in 3 rows" in column
    assert "expected no offset from UTC, as in the column of 'time'" in column


def test_a_run_without_any_task_says_so(instance: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instance.write_text(INSTANCE.replace("type_share = [0.5, 0.5]", "arrival_rate = [1e-14, 0]"))
    words = ["compare", str(instance), "--steps", "100", "--replications", "2"]
    assert run(words) == 0
    assert "no task arrived in the counted steps (1e-14 per step)" in capsys.readouterr().err
    instance.write_text(INSTANCE.replace("type_share = [0.5, 0.5]", "arrival_rate = [0.1, 0]"))
    assert run(words) == 0
    assert "no task arrived" not in capsys.readouterr().err


def test_a_day_that_never_ends_is_refused(
    instance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = "profile = { period_steps = 100000000000000000, multiplier = [1] }\n"
    instance.write_text(INSTANCE + profile)
    text = told(capsys, "day", instance, "--load", "0.3", "--days", "2")
    assert "days: 3 days of 100000000000000000 steps; expected at most 1000000000000000" in text


def leaves(commands: App, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command that does something, with the words that call it."""
    for name in commands:
        if name.startswith("-"):
            continue
        below = (*words, name)
        found = list(leaves(commands[name], below))
        yield from found or [(below, commands[name])]


def test_no_path_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    """An unset variable of the shell was the folder that one happened to be in."""
    filler = {"--to": "vw", "--load": "0.5", "--scope": "read", "--out": "x"}
    walked = []
    for words, command in leaves(app):
        arguments = list(command.assemble_argument_collection())
        positional = [one for one in arguments if not one.name.startswith("-")]
        for chosen in arguments:
            if chosen.hint not in (Path, Path | None) and chosen.name != "--database":
                continue
            tail = ["" if one is chosen else "x" for one in positional]
            for one in arguments:
                if one is chosen and one not in positional:
                    tail += [one.name, ""]
                elif one.required and one not in positional:
                    tail += [one.name, filler[one.name]]
            walked.append((*words, chosen.name))
            text = told(capsys, *words, *tail, code=2)
            assert "'' names nothing; is a variable of the shell not set?" in text, walked[-1]
    assert len(walked) >= 29
    assert ("serve", "--database") in walked
    assert ("export", "LOG") in walked
