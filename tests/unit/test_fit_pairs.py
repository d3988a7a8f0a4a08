"""Durations by type and server: when the data say so, and that the stretched laws keep means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opportune
from opportune.cli import run
from opportune.learning.fit.instance import FitSettings, fit_log
from opportune.learning.fit.log import read_log
from opportune.learning.fit.pair_durations import POINTS, stretched
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from tests.fit_logs import write_log


def log_of(folder: Path, slow: float, n: int = 6000) -> Path:
    """Three servers, two types; the third server takes ``slow`` times as long."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(n):
        kind, server = rng.integers(2), rng.integers(3)
        mean = (6.0, 15.0)[kind] * (slow if server == 2 else 1.0)
        rows.append(f"{30 * i},{'ab'[kind]},{'xyz'[server]},{rng.geometric(1 / mean)},1")
    return write_log(folder / "log.csv", "time,task_type,server,duration,outcome", *rows)


@pytest.mark.parametrize(
    ("slow", "by_server"), [(1.0, False), (1.15, False), (1.6, True), (3.0, True)]
)
def test_pairs_get_laws_when_servers_differ_by_enough(
    tmp_path: Path, slow: float, by_server: bool
) -> None:
    fit = fit_log(read_log(log_of(tmp_path, slow)))
    assert (fit.instance.server_duration is not None) is by_server
    assert fit.services.servers_differ is (slow > 1.0)
    told = [text for text in fit.cautions if "durations depend on the server" in text]
    assert len(told) == (slow > 1.0)
    if by_server:
        truth = np.outer([6.0, 15.0], [1.0, 1.0, slow])
        np.testing.assert_allclose(fit.instance.pair_mean, truth, rtol=0.08)
        assert "a law per pair" in told[0]
    elif told:
        assert "one law per type" in told[0]


def test_the_choice_can_be_made(tmp_path: Path) -> None:
    log = read_log(log_of(tmp_path, 3.0))
    assert fit_log(log, FitSettings(durations="type")).instance.server_duration is None
    alike = read_log(log_of(tmp_path, 1.0))
    assert fit_log(alike, FitSettings(durations="server")).instance.server_duration is not None


def test_the_file_with_laws_of_pairs_is_taken(tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    assert run(["fit", str(log_of(tmp_path, 3.0)), "--out", str(out)]) == 0
    instance = str(out / "instance.toml")
    assert opportune.load_instance(instance).server_duration is not None
    assert run(["check", instance]) == 0
    assert run(["plan", instance]) == 0
    quick = ["--steps", "2000", "--replications", "2", "--policies", "lag,greedy"]
    assert run(["compare", instance, "--load", "0.5", *quick]) == 0


@pytest.mark.parametrize(
    "law",
    [
        Geometric(7.5),
        Deterministic(4),
        Empirical([3, 8, 20], [0.2, 0.5, 0.3]),
        Empirical(np.arange(5, 400), np.ones(395)),
    ],
)
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.37, 4.0])
def test_a_stretched_law_has_the_stretched_mean(law: Duration, factor: float) -> None:
    found = stretched(law, factor)
    assert found.mean == pytest.approx(law.mean * factor, rel=1e-9)
    if isinstance(found, Empirical):
        assert len(found.steps) <= POINTS
        assert found.steps.min() >= 1


def test_a_law_is_never_shorter_than_a_step() -> None:
    assert stretched(Geometric(2.0), 0.1) == Geometric(1.0)
    assert stretched(Deterministic(3), 0.1) == Deterministic(1)
    assert stretched(Empirical([1, 10], [0.5, 0.5]), 0.2) == Empirical([1, 2], [0.5, 0.5])
