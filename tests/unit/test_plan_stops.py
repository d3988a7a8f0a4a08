"""``opportune plan`` ends at a gap, a time or an interrupt, with the best pair so far."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.model.saving import save_instance
from opportune.pricing import gears
from opportune.pricing.feasibility import max_load
from opportune.pricing.occupancy import price
from opportune.pricing.search import Search, Stop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """60 x 90, more than the full LP takes."""
    rng = np.random.default_rng(1)
    allowed = rng.random((60, 90)) < 0.6
    made = loss_instance(
        rng.random((60, 90)), np.full(60, 1e-3), Geometric(300), 2, allowed=allowed
    )
    save_instance(made.with_load(0.7), tmp_path / "one.toml")
    return tmp_path / "one.toml"


def planned(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, object]:
    """The record of a plan that succeeds."""
    assert run(["plan", str(path), *words, "--format", "json"]) == 0
    loaded: dict[str, object] = json.loads(capsys.readouterr().out)
    return loaded


def test_a_gap_ends_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = planned(capsys, path)
    rough = planned(capsys, path, "--gap", "1e-2")
    assert isinstance(exact["gap"], float)
    assert isinstance(rough["gap"], float)
    assert exact["gap"] <= 1e-9
    assert 1e-9 < rough["gap"] <= 1e-2
    assert rough["notices"] == []
    assert rough["max_load"] == exact["max_load"]


def test_a_time_ends_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, path, "--seconds", "0")
    assert isinstance(found["gap"], float)
    assert found["gap"] > 1e-9
    assert "the time limit" in str(found["notices"])
    assert found["max_load"] is None
    assert run(["plan", str(path), "--seconds", "0"]) == 0
    assert "largest feasible not computed" in capsys.readouterr().out


def test_an_interrupt_ends_it(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(search: Search, margin: float, mu: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gears, "sift", interrupted)
    found = planned(capsys, path)
    assert "an interrupt" in str(found["notices"])
    assert isinstance(found["value"], float)
    assert isinstance(found["dual_value"], float)
    assert 0 < found["value"] < found["dual_value"]


@pytest.mark.parametrize("words", [("--gap", "-1"), ("--seconds", "nan"), ("--gap", "nan")])
def test_bad_limits_are_refused(
    path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    assert run(["plan", str(path), *words]) == 1
    assert "stop." in capsys.readouterr().err


def test_the_gap_that_is_told_falls(path: Path) -> None:
    told: list[float] = []
    rng = np.random.default_rng(2)
    made = loss_instance(rng.random((60, 90)), np.full(60, 1e-3), Geometric(300), 2)
    price(made.with_load(0.7), stop=Stop(progress=lambda gap, text: told.append(gap)))
    assert told == sorted(told, reverse=True)
    assert told[-1] <= 1e-9


def test_the_largest_load_to_five_digits(path: Path) -> None:
    rng = np.random.default_rng(3)
    allowed = rng.random((50, 60)) < 0.5
    made = loss_instance(
        rng.random((50, 60)), np.full(50, 1e-3), Geometric(300), 1, allowed=allowed
    )
    assert max_load(made, 1e-5) == pytest.approx(max_load(made), rel=1e-5)
