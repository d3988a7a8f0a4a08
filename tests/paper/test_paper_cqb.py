"""``opportune paper cqb``: numbers known otherwise, statistics of sums, and a quick run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.experiments.papers.cqb.claims import LOWER_BOUND, published
from opportune.experiments.papers.cqb.merging import Estimate, fitted_slope, merged
from opportune.experiments.papers.cqb.plan_of_work import (
    FULL,
    HARD,
    HARD_RULE,
    JOINT,
    QUICK,
    arm,
    settings,
)
from opportune.experiments.papers.cqb.units import Piece
from opportune.experiments.queue import QueueSettings, compare_queue
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue


def piece(first: int, n: int) -> Piece:
    """Some replications of two policies on the joint law."""
    return Piece(JOINT, 100, (arm("optimistic"), arm("random")), first, n, 3)


def record(one: Piece) -> dict:
    return one.run(lambda: None)


def test_numbers_do_not_depend_on_how_the_work_is_cut() -> None:
    whole = merged([record(piece(0, 12))])
    parts = merged([record(piece(0, 5)), record(piece(5, 7))])
    result = compare_queue(
        load_queue("cqb-joint-v1", QueueChoice(horizon=100)),
        QueueSettings(("optimistic", "random"), replications=12, seed=3),
    )
    for name in ("optimistic", "random"):
        one, two, row = whole[name], parts[name], result.row(name)
        assert one.runs == two.runs == 12
        for own in (one, two):
            assert own.end.value == pytest.approx(row.queue_regret)
            assert own.end.error == pytest.approx(row.standard_error)
            assert own.excess.value == pytest.approx(row.excess)
            assert own.excess.error == pytest.approx(row.excess_error)
            assert own.cost.value == pytest.approx(row.transient_cost)
            assert own.cost.error == pytest.approx(row.transient_error)
            assert own.worst == row.worst
            assert own.variance_ratio == pytest.approx(row.variance_ratio)
        assert two.way == pytest.approx(one.way)
    apart = result.traces["random"].mean_queue - result.traces["optimistic"].mean_queue
    assert whole["random"].excess_apart.value == pytest.approx(apart.mean())
    assert whole["random"].excess_apart.error == pytest.approx(apart.std(ddof=1) / math.sqrt(12))


@pytest.mark.parametrize(("horizon", "flat", "n"), [(100, 1.82, 12_000), (400, 2.43, 3000)])
def test_regret_times_the_root_of_the_horizon_on_the_hard_instance(
    horizon: int, flat: float, n: int
) -> None:
    """1.82 and 2.43 (cqb.md section 4), to four standard errors of the run; the bound holds."""
    found = merged([record(Piece(HARD, horizon, (HARD_RULE,), 0, n, 1))])["sign rule"]
    root = math.sqrt(horizon)
    assert root * found.end.value == pytest.approx(flat, abs=4 * root * found.end.error)
    assert root * found.end.error < 0.2
    assert root * found.end.value >= 0.4 * LOWER_BOUND


def test_the_default_learner_keeps_few_tasks_waiting() -> None:
    """learned.md section 4 at a tenth of its runs: limits .8 and .2, costs 3.3 and 1.7."""
    for name, excess, cost in (("cqb-disjoint-v1", 0.8, 3.3), ("cqb-joint-v1", 0.2, 1.7)):
        world = load_queue(name, QueueChoice(horizon=2000))
        row = compare_queue(world, QueueSettings(("optimistic",), replications=60)).row(
            "optimistic"
        )
        assert row.excess <= excess + 2 * row.excess_error
        assert row.transient_cost <= cost + 2 * row.transient_error
        assert row.worst <= 10
        assert row.exploration_share == 0


def test_a_slope_is_that_of_the_power_law() -> None:
    horizons = [100, 1000, 10_000, 100_000]
    law = [Estimate(3.0 * t**-0.5, 0.01 * t**-0.5) for t in horizons]
    slope = fitted_slope(horizons, law)
    assert slope is not None
    assert slope.slope == pytest.approx(-0.5)
    assert slope.horizons == 4
    noisy = [*law[:3], Estimate(1e-3, 1e-2)]  # nothing can be said of the last
    shorter = fitted_slope(horizons, noisy)
    assert shorter is not None
    assert shorter.horizons == 3
    assert fitted_slope(horizons[:2], law[:2]) is None


def test_the_interval_of_a_slope_covers() -> None:
    rng = np.random.default_rng(5)
    horizons = [100, 400, 1600, 6400]
    hits = 0
    for _ in range(300):
        points = [
            Estimate(2.0 * t**-0.5 * (1 + 0.05 * rng.standard_normal()), 0.1 * t**-0.5)
            for t in horizons
        ]
        slope = fitted_slope(horizons, points)
        assert slope is not None
        hits += abs(slope.slope + 0.5) <= slope.half_width
    assert 0.90 < hits / 300 < 0.99


def test_the_full_run_has_what_a_ranking_needs() -> None:
    work = settings(FULL, with_data=True)
    assert len({(one.section, one.name) for one in work}) == len(work)
    by_section: dict[str, list[int]] = {}
    for one in work:
        by_section.setdefault(one.section, []).append(one.replications)
    assert min(by_section["summary"]) >= 1000
    assert min(by_section["first paper"]) >= 1000
    horizons = {one.horizon for one in work if one.section == "hard"}
    assert len(horizons) >= 5
    assert max(horizons) == 100_000
    for one in work[:3]:
        pieces = one.pieces(1)
        assert sum(piece.replications for piece in pieces) == one.replications
        assert [piece.first for piece in pieces][1:] == list(
            np.cumsum([piece.replications for piece in pieces])[:-1]
        )
    seeds = {one.section: one.pieces(1)[0].seed for one in work}
    assert seeds["choosing"] != seeds["default"]


def test_the_published_tables_are_the_summary_s() -> None:
    values = {(row["policy"], row["setting"]): row["value"] for row in published()}
    assert values["cqb-eta-2", ""] == 0.42
    assert values["random", ""] == 28.6
    assert values["eta-forever", "base"] == 1.12
    assert len(published()) == 11


def test_a_quick_run_writes_page_tables_and_pictures_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)
    out = tmp_path / "cqb"
    assert run(["paper", "cqb", "--out", str(out), "--quick", "--workers", "2"]) == 0
    first = capsys.readouterr()
    assert "0 of them kept" in first.out
    assert "OPPORTUNE_DATA is not set" in first.err
    page = (out / "cqb.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "A quick run" in page
    for name in ("rates", "knobs", "queues"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    claims = (out / "claims.csv").read_text(encoding="utf-8").splitlines()
    assert claims[0] == "source,said,ours,verdict"
    assert len(claims) >= 13
    written = {path.name: path.read_bytes() for path in out.glob("*.csv")}
    assert run(["paper", "cqb", "--out", str(out), "--quick"]) == 0
    n = len(settings(QUICK, with_data=False))
    assert f"{n} pieces of work, {n} of them kept" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in out.glob("*.csv")} == written
