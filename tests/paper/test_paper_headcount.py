"""``opportune paper headcount``: what it writes, and that it reproduces its reference numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="pictures need the extra 'report'")
pytest.importorskip("vl_convert", reason="pictures need the extra 'report'")

from opportune.errors import InputError
from opportune.experiments.papers.headcount import measurements, reference, reproduction
from opportune.pricing.headcount_pathwise import Effort

TINY = measurements.Extent(
    loads=(0.5,),
    steps=5_000,
    replications=2,
    pathwise=(("unfriendly-v1", 0.7),),
    effort=Effort(training_steps=8_000, steps=8_000, paths=3, rounds=1, iterations=5),
    large=False,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run."""
    out = tmp_path_factory.mktemp("headcount")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "QUICK", TINY)
        patch.delenv("OPPORTUNE_DATA", raising=False)
        seen: list[float] = []
        made = reproduction.run_headcount_paper(out, True, lambda share, text: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert made.files[0].name == "headcount.html"
    assert all(path.is_file() for path in made.files)
    assert set(made.missing) == {"tmlr", "iclr"}
    return out


def rows(path: Path) -> list[dict[str, str]]:
    """Of a CSV file."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_every_reference_value_is_reproduced_to_a_twentieth_of_a_point(folder: Path) -> None:
    cells = rows(folder / "cells.csv")
    known = [row for row in cells if row["reference"]]
    assert len(known) == 16 * len(reference.QUANTITIES)
    assert max(abs(float(row["difference"])) for row in known) <= 0.05


def test_the_group_index_is_optimal_in_every_cell(folder: Path) -> None:
    at = {
        (row["instance"], row["load"], row["quantity"]): float(row["percent"])
        for row in rows(folder / "cells.csv")
    }
    for (name, load, quantity), value in at.items():
        best = at[name, load, "exact"]
        if quantity == "headcount-group":
            assert value == pytest.approx(best, abs=0.005)
        if quantity in ("lag", "headcount", "greedy"):
            assert value <= best + 1e-6
        if quantity in ("hc-lp", "hc-group-lp"):
            assert value >= best - 1e-6


def test_tables_and_page(folder: Path) -> None:
    solver = rows(folder / "solver.csv")
    assert all(float(row["gap"]) <= 1.01 * float(row["gap_asked"]) for row in solver)
    assert {row["label"] for row in rows(folder / "pathwise.csv")} == {"statistical"}
    auto = rows(folder / "auto.csv")
    assert {row["choice"] for row in auto} == {"optimal", "headcount"}
    html = (folder / "headcount.html").read_text(encoding="utf-8")
    assert "80 of 80 reference values are reproduced" in html
    assert "<script" not in html
    for name in ("cells", "auto"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="a folder"):
        reproduction.run_headcount_paper(place, True)
