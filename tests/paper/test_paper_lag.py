"""``opportune paper lag``: published numbers, pieces that survive an interruption, the page."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from opportune.cli import paper, run
from opportune.errors import InputError, MissingExtraError
from opportune.experiments import resume
from opportune.experiments.code_version import COMPUTED_BY, PACKAGE
from opportune.experiments.papers.lag import published
from opportune.experiments.papers.lag.instances import INSTANCES, available
from opportune.experiments.papers.lag.reproduction import run_lag_paper
from opportune.experiments.papers.lag.units import Cell, Fluid, Point
from opportune.experiments.resume import Parts, Record, Watch, finish
from opportune.experiments.settings import Settings
from tests.structure.layers import imported
from tests.structure.sources import sources

SPECIFIED = ("specialist", "priority", "unfriendly", "lowrank")
SMALL = Cell("priority-v1", 0.5, ("lag", "random"), 2_000, 3, 1)
UNITS = (
    SMALL,
    replace(SMALL, load=0.7),
    Point("priority-v1", 0.8, 4, 2, 500, 1),
    Fluid("priority-v1", 0.8, 2, 50, 1),
)


def silent(share: float, text: str) -> None:
    """A progress callback that nobody watches."""


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``--quick`` writes without the data folder."""
    out = tmp_path_factory.mktemp("lag")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPPORTUNE_DATA", raising=False)
        assert run(["paper", "lag", "--quick", "--workers", "2", "--out", str(out)]) == 0
    return out


def rows(path: Path) -> list[dict[str, str]]:
    """A CSV file."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def csv_files(folder: Path) -> dict[str, bytes]:
    """The bytes of every CSV file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))}


# ------------------------------------------------------------------------ pieces of work


def test_a_run_gives_the_same_for_any_workers_and_backend(tmp_path: Path) -> None:
    ways = [(1, "threads"), (2, "threads"), (2, "loky")]
    if importlib.util.find_spec("ray") is not None:  # the extra `ray`, tested when installed
        ways.append((2, "ray"))
    found = [
        finish(UNITS, Parts(tmp_path / str(i)), Settings(workers=n, backend=backend), silent)
        for i, (n, backend) in enumerate(ways)
    ]
    assert len({json.dumps(one) for one in found}) == 1


class Counting(Cell):
    """A cell that notes that it was run."""

    ran: list[float]

    def run(self, watch: Watch) -> Record:
        """Note it, and give a record."""
        Counting.ran.append(self.load)
        return {"load": self.load}


def test_finished_pieces_are_not_run_again(tmp_path: Path) -> None:
    units = [Counting(**vars(replace(SMALL, load=load))) for load in (0.1, 0.2, 0.1, 0.3)]
    Counting.ran = []
    parts = Parts(tmp_path)
    first = finish(units, parts, Settings(), silent)
    assert Counting.ran == [0.1, 0.2, 0.3]
    assert first == [{"load": one.load} for one in units]
    parts.path(units[1]).write_text("damaged {")
    assert finish(units, parts, Settings(workers=2), silent) == first
    assert Counting.ran == [0.1, 0.2, 0.3, 0.2]


def test_a_piece_that_was_edited_or_renamed_is_run_again(tmp_path: Path) -> None:
    units = [Counting(**vars(replace(SMALL, load=load))) for load in (0.1, 0.2, 0.3)]
    Counting.ran = []
    parts = Parts(tmp_path)
    first = finish(units, parts, Settings(), silent)
    edited = parts.path(units[0]).read_text().replace('"load": 0.1}', '"load": NaN}')
    assert "NaN" in edited
    parts.path(units[0]).write_text(edited)
    parts.path(units[1]).write_text(parts.path(units[2]).read_text())
    assert finish(units, parts, Settings(), silent) == first
    assert Counting.ran == [0.1, 0.2, 0.3, 0.1, 0.2]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, workers: int) -> None:
    units = [Counting(**vars(replace(SMALL, load=i / 10))) for i in range(1, 9)]
    Counting.ran = []
    told: list[float] = []

    def interrupt(share: float, text: str) -> None:
        told.append(share)
        if len(told) == 3:
            raise KeyboardInterrupt

    settings = Settings(workers=workers)
    with pytest.raises(KeyboardInterrupt):
        finish(units, Parts(tmp_path), settings, interrupt)
    kept = len(list(tmp_path.glob("*.json")))
    assert kept == 3
    Counting.ran = []
    assert finish(units, Parts(tmp_path), settings, silent) == [{"load": u.load} for u in units]
    assert len(Counting.ran) == 8 - kept
    assert list(tmp_path.glob("*.tmp")) == []


def test_a_running_piece_stops_when_it_is_told(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    for unit in UNITS:
        with pytest.raises(KeyboardInterrupt):
            unit.run(stop)


def test_the_name_of_a_piece_follows_settings_instance_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(tmp_path)
    changed = [
        replace(SMALL, seed=2),
        replace(SMALL, steps=2_001),
        replace(SMALL, replications=4),
        replace(SMALL, policies=("lag",)),
        replace(SMALL, instance="specialist-v1"),
    ]
    names = {parts.path(unit) for unit in [SMALL, *changed]}
    assert len(names) == 1 + len(changed)
    assert parts.path(replace(SMALL)) in names
    monkeypatch.setattr(resume, "code_version", lambda: "other")
    assert parts.path(SMALL) not in names


def test_the_code_that_names_a_piece_is_all_that_computes_it() -> None:
    """Every module that the units import, directly or not, is among ``COMPUTED_BY``."""
    known = {source.module: source for source in sources("src/opportune")}
    hashed = {
        path.relative_to(PACKAGE).as_posix()
        for pattern in COMPUTED_BY
        for path in PACKAGE.glob(pattern)
    }
    waiting, seen = ["opportune.experiments.papers.lag.units"], set()
    while waiting:
        module = waiting.pop()
        while module and module not in known:
            module = module.rpartition(".")[0]
        if module in ("", "opportune") or module in seen:
            continue
        seen.add(module)
        waiting += [target for _, target in imported(known[module])]
    needed = {known[module].path.removeprefix("src/opportune/") for module in seen}
    assert {path for path in needed - hashed if not path.endswith("__init__.py")} == set()
    assert "policies/loss/lag.py" in hashed


# ----------------------------------------------------------------------- the whole run


def test_the_quick_run_writes_every_table_and_picture(quick: Path) -> None:
    names = {path.name for path in quick.iterdir()}
    tables = {"table2", "table3", "bounds", "figure4", "figure5", "figure6", "blocking"}
    assert {f"{name}.csv" for name in tables | {"fluid", "fluid_paths", "claims", "run"}} <= names
    for name in ("table2", "table3", "figure4", "figure5", "figure6", "blocking", "fluid"):
        content = (quick / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG"), name
        assert len(content) > 10_000, name
    assert {"figure3.csv", "figure3.png", "samples.csv"} & names == set()


def test_every_cell_stands_beside_the_papers(quick: Path) -> None:
    table = rows(quick / "table3.csv")
    assert {row["instance"] for row in table} == set(SPECIFIED)
    for row in table:
        paper = published.load_sweep().get((row["instance"], float(row["load"]), row["policy"]))
        assert row["paper"] == ("" if paper is None else f"{paper:g}")
        if paper is not None:
            difference = float(row["ours"]) - paper
            assert float(row["difference"]) == pytest.approx(difference, abs=1e-5)
    summary = [row for row in table if row["load"] == "0.7"]
    assert rows(quick / "table2.csv") == summary


def test_the_quick_run_finds_fixed_points_and_blocking(quick: Path) -> None:
    for row in rows(quick / "fluid.csv"):
        assert float(row["residual"]) < 1e-9
    exact = {row["instance"]: row["exact"] for row in rows(quick / "blocking.csv")}
    assert float(exact["specialist"]) == pytest.approx(0.1330, abs=5e-5)
    assert float(exact["priority"]) == pytest.approx(0.1308, abs=5e-5)
    assert exact["unfriendly"] == exact["lowrank"] == ""


def test_the_page_opens_offline_and_says_what_is_missing(quick: Path) -> None:
    text = (quick / "lag.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert re.findall(r'(?:src|href)="(?!#)', text) == []
    assert re.findall(r"\$[a-z]+", text) == []
    for name in ("TMLR", "ICLR"):
        assert f"{name} was not run. OPPORTUNE_DATA: not set" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for title in ("Table 2", "Table 3", "Figure 4", "Figure 5", "Figure 6", "Fluid limit"):
        assert title in text


@pytest.mark.usefixtures("no_data")
def test_a_second_run_keeps_all_pieces_and_gives_the_same_bytes(quick: Path) -> None:
    before = csv_files(quick)
    again = run_lag_paper(quick, Settings(), quick=True)
    assert again.kept == again.pieces
    assert csv_files(quick) == before


@pytest.mark.usefixtures("no_data")
def test_one_worker_gives_the_same_bytes(quick: Path, tmp_path: Path) -> None:
    made = run_lag_paper(tmp_path, Settings(), quick=True)
    assert made.kept == 0
    assert csv_files(tmp_path) == csv_files(quick)


@pytest.mark.usefixtures("no_data")
def test_instances_without_data_are_missing_with_a_reason() -> None:
    found, missing = available()
    assert tuple(one.name for one in found) == SPECIFIED
    assert set(missing) == {"tmlr", "iclr"}
    assert all("OPPORTUNE_DATA" in reason for reason in missing.values())


def test_all_instances_run_with_the_data(data: Path) -> None:
    found, missing = available()
    assert found == INSTANCES
    assert missing == {}


def test_an_interrupt_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("opportune.experiments.papers.lag.reproduction.run_lag_paper", interrupted)
    assert run(["paper", "lag", "--out", str(tmp_path)]) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("text")
    with pytest.raises(InputError, match="a folder"):
        run_lag_paper(place, Settings(), quick=True)
    assert run(["paper", "lag", "--quick", "--out", str(place)]) == 1


def test_a_missing_extra_is_named_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name}", name="altair")

    monkeypatch.setattr(paper.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"opportune\[report\]"):
        paper.lag(out=Path("nowhere"))
