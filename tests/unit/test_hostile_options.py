"""Options that are slips of the keyboard, odd terminals, readers that go: one line, a known end."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opportune.cli import run
from opportune.kernels.jit import jit

INSTANCE = """
task_types = ["Zo\xeb", "b"]
arrival_rate = [0.05, 0.05]
match_reward = [[0.9, 0.7, 0.4], [0.2, 0.8, 0.5]]
duration = { kind = "geometric", mean = 5 }
"""
LOG = "time,server,duration,outcome\n" + "".join(f"{7 * i},x,5,{i % 2}\n" for i in range(40))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an instance and a log."""
    monkeypatch.chdir(tmp_path)
    Path("one.toml").write_text(INSTANCE, encoding="utf-8")
    Path("log.csv").write_text(LOG)
    return tmp_path


WHOLE = [
    "compare one.toml --steps",
    "compare one.toml --seed",
    "compare one.toml --replications",
    "scale one.toml --n",
    "split one.toml --into",
    "split one.toml --redeal",
    "learn one.toml --tasks",
    "day one.toml --days",
    "queue hard-v1 --horizon",
    "fit log.csv --periods",
]
DECIMAL = [
    "check one.toml --load",
    "compare one.toml --load",
    "sweep one.toml --load",
    "plan one.toml --gap",
    "plan one.toml --seconds",
    "learn one.toml --force",
    "queue hard-v1 --lost",
    "fit log.csv --step",
    "replay log.csv --train",
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", WHOLE + DECIMAL)
def test_numbers_of_options_are_plain(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--steps 1_0` ran 10 steps, `--seed \u0663` was the seed 3."""
    for value in ("1_0", "\u0663", "1,_5", "half", ""):
        code = run([*words.split(), value])
        text = capsys.readouterr().err
        assert code in (1, 2)
        assert repr(value) in text, (value, text)
        assert words.split()[-1] in text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["check", "plan", "compare", "day", "scale", "split", "learn"])
@pytest.mark.parametrize("load", ["1e308", "1e300", "5e306"])
def test_a_load_beyond_numbers(command: str, load: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "one.toml", "--load", load]) == 1
    text = "".join(capsys.readouterr())
    assert "arrivals per step" in text


@pytest.mark.parametrize(("factor", "shown"), [("1e308", "1e+307"), ("30", "3")])
def test_a_factor_beyond_numbers(
    factor: str, shown: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedy was a factor of infinity, after a warning of NumPy."""
    profile = f"profile = {{ period_steps = 10, multiplier = [{factor}] }}"
    (folder / "one.toml").write_text(f"{INSTANCE}{profile}", encoding="utf-8")
    assert run(["day", "one.toml", "--days", "2"]) == 1
    assert f"Shorten the step by a factor of {shown}" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("compare one.toml --policies LAG", "lag"),
        ("compare one.toml --policies gready", "greedy"),
        ("queue hard-v1 --policies cqb_opt", "cqb-opt"),
        ("learn one.toml --policies lag-thomson", "lag-thompson"),
    ],
)
def test_a_policy_nearly_right(words: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 1
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("model", ["joint", "server"])
def test_a_regression_without_contexts(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It ended with a TypeError."""
    assert run(["fit", "log.csv", "--model", model]) == 1
    assert "error: --model: no context columns" in capsys.readouterr().err


class Latin(io.TextIOWrapper):
    """Standard output of a terminal that knows few letters."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="ascii", errors="backslashreplace")

    def text(self) -> str:
        """What was written."""
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("folder")
def test_names_survive_an_ascii_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON held an escape of Python, which is no JSON, and CSV another name."""
    for format in ("json", "csv"):
        out = Latin()
        monkeypatch.setattr(sys, "stdout", out)
        assert run(["plan", "one.toml", "--format", format]) == 0
        if format == "json":
            assert json.loads(out.text())["task_types"] == ["Zo\xeb", "b"]
        else:
            assert list(csv.reader(io.StringIO(out.text())))[1][0] == "Zo\xeb"


@pytest.mark.parametrize("columns", ["1", "2", "5", "0", "-3", "abc"])
def test_help_ends_in_a_narrow_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one or two columns it went on for ever and took all memory."""
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["compare", "--help"]) == 0
    assert len(capsys.readouterr().out) < 20_000


@pytest.mark.parametrize("words", [("compare", "--help"), ("policies",), ("plan", "one.toml")])
def test_a_reader_that_has_gone_is_no_fault(words: tuple[str, ...], folder: Path) -> None:
    """Tables and help ended with 1, JSON with 0."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "opportune", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_kernels_run_as_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """``NUMBA_DISABLE_JIT=1`` ended the import."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)

    def twice(x: int) -> int:
        return 2 * x

    assert jit(twice) is twice
