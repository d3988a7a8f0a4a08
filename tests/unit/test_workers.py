"""Pieces over workers: every backend the same, errors and interrupts, kept replications."""

from __future__ import annotations

import importlib.util
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError, MissingExtraError, Problem
from opportune.experiments import keeping, runs
from opportune.experiments.backends import Workers, backend_problems
from opportune.experiments.comparison import Comparison, compare, compare_all
from opportune.experiments.keeping import Kept
from opportune.experiments.scale import ScaleSettings, scale
from opportune.experiments.settings import Settings
from opportune.experiments.workers import Watch, run_pieces
from opportune.model.catalog import catalog_instance

HAS_RAY = importlib.util.find_spec("ray") is not None
RAY = pytest.param(
    "ray", marks=pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed (extra `ray`)")
)
ALL = ["threads", "loky", RAY]
RAY_FIRST = pytest.param("ray", "loky", marks=RAY.marks)
RAY_SECOND = pytest.param("loky", "ray", marks=RAY.marks)


def squared(offset: int, item: int, watch: Watch) -> int:
    """A piece; item 3 of offset 100 is wrong."""
    watch(0.5)
    if offset == 100 and item == 3:
        raise InputError(Problem("item", "3", "another"))
    return item * item + offset


def slow(folder: Path, item: int, watch: Watch) -> int:
    """A piece of some seconds that looks up from its work, and leaves a file at its end."""
    for _ in range(300):
        time.sleep(0.01)
        watch(0.5)
    (folder / str(item)).touch()
    return item


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("count", [1, 2])
def test_every_result_comes_once_with_its_number_to_the_calling_thread(
    backend: str, count: int
) -> None:
    found: dict[int, int] = {}
    threads = set()

    def done(i: int, result: int) -> None:
        assert i not in found
        found[i] = result
        threads.add(threading.get_ident())

    run_pieces(partial(squared, 7), list(range(20)), Workers(count, backend), done)
    assert found == {i: i * i + 7 for i in range(20)}
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("backend", ALL)
def test_an_error_of_a_piece_arrives_whole_and_ends_the_work(backend: str) -> None:
    with pytest.raises(InputError) as caught:
        run_pieces(
            partial(squared, 100), list(range(8)), Workers(2, backend), lambda i, result: None
        )
    assert caught.value.problems == (Problem("item", "3", "another"),)


@pytest.mark.parametrize("backend", ALL)
def test_an_interrupt_ends_the_others(backend: str, tmp_path: Path) -> None:
    def interrupt(i: int, result: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pieces(partial(slow, tmp_path), list(range(40)), Workers(2, backend), interrupt)
    assert 0 < len(list(tmp_path.iterdir())) < 20


def test_nothing_to_do_starts_nothing(tmp_path: Path) -> None:
    run_pieces(partial(slow, tmp_path), [], Workers(2, "loky"), lambda i, result: None)


def test_an_unknown_backend_is_named_and_a_missing_one_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (problem,) = backend_problems("dask")
    assert problem.expected == "one of threads, loky, ray"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert backend_problems("loky") == []
    with pytest.raises(MissingExtraError, match=r"opportune\[ray\]"):
        Settings(backend="ray")
    with pytest.raises(MissingExtraError, match="--backend ray"):
        ScaleSettings(backend="ray")


# ---------------------------------------------------------------- the same bits everywhere

BASE = catalog_instance("priority-v1", 0.8)
LOADS = [replace(BASE, arrival_rate=BASE.arrival_rate * share) for share in (0.25, 0.5, 1.0)]
SMALL = Settings(("lag", "greedy"), 3_000, 4, 3)


def bits(results: list[Comparison]) -> list[object]:
    """All that a sweep says."""
    return [(one.policies, one.bound, one.runs.reward.tobytes()) for one in results]


@pytest.mark.parametrize("backend", ALL)
def test_a_sweep_is_its_comparisons_whatever_the_workers(backend: str) -> None:
    alone = [compare(one, SMALL) for one in LOADS]
    for workers in (1, 2, 3):
        settings = replace(SMALL, workers=workers, backend=backend)
        assert bits(compare_all(LOADS, settings)) == bits(alone)


@pytest.mark.parametrize("backend", ALL)
def test_scaled_systems_are_the_same_on_every_backend(backend: str) -> None:
    settings = ScaleSettings((1, 16), steps=500, replications=3)
    alone = scale(BASE, settings).rows
    assert scale(BASE, replace(settings, workers=2, backend=backend)).rows == alone


def test_progress_of_a_sweep_counts_replications_of_all_loads() -> None:
    told: list[tuple[float, str]] = []
    settings = replace(SMALL, workers=2)
    compare_all(LOADS, settings, lambda share, text: told.append((share, text)))
    assert [share for share, _ in told] == pytest.approx([0.0] * 3 + [i / 12 for i in range(1, 13)])
    assert told[0][1] == "prices at load 0.2"
    assert told[-1][1].startswith("replication 12 of 12, load 0.")


# ------------------------------------------------------------------------- kept and resumed


def test_an_interrupted_sweep_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "kept"
    told: list[float] = []

    def interrupt(share: float, _: str) -> None:
        told.append(share)
        if len(told) == 8:  # three prices and five replications
            raise KeyboardInterrupt

    settings = replace(SMALL, keep=keep)
    with pytest.raises(KeyboardInterrupt):
        compare_all(LOADS, settings, interrupt)
    assert len(list(keep.glob("*.npz"))) == 5
    ran: list[object] = []
    run_piece = runs.run_piece
    monkeypatch.setattr(
        runs, "run_piece", lambda piece, watch: ran.append(piece) or run_piece(piece, watch)
    )
    assert bits(compare_all(LOADS, settings)) == bits([compare(one, SMALL) for one in LOADS])
    assert len(ran) == 12 - 5 + 12
    ran.clear()
    assert bits(compare_all(LOADS, settings)) == bits([compare(one, settings) for one in LOADS])
    assert ran == []


@pytest.mark.parametrize(
    ("first", "second"), [("threads", "loky"), RAY_FIRST, RAY_SECOND], ids=lambda one: one
)
def test_what_one_backend_began_another_one_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, second: str
) -> None:
    """The same table and the same files, to the byte, as a sweep that was not interrupted."""
    words = ["sweep", "priority-v1", "--load", ".2:.8:.3", "--steps", "3000", "--format", "csv"]
    words += ["--replications", "4", "--policies", "lag,greedy", "--seed", "3"]
    assert run([*words, "--keep", str(tmp_path / "whole")]) == 0
    whole = capsys.readouterr().out
    parts, told = tmp_path / "parts", []

    def interrupt(share: float, _: str) -> None:
        told.append(share)
        if len(told) == 8:  # three prices and five replications
            raise KeyboardInterrupt

    loads = [catalog_instance("priority-v1", 0.8).with_load(load) for load in (0.2, 0.5)]
    loads.append(catalog_instance("priority-v1", 0.8))
    settings = replace(SMALL, keep=parts, workers=2, backend=first)
    with pytest.raises(KeyboardInterrupt):
        compare_all(loads, settings, interrupt)
    assert len(list(parts.glob("*.npz"))) == 5
    assert run([*words, "--keep", str(parts), "--workers", "2", "--backend", second]) == 0
    assert capsys.readouterr().out == whole
    assert kept_bytes(parts) == kept_bytes(tmp_path / "whole")


def kept_bytes(folder: Path) -> dict[str, bytes]:
    """Names and bytes of what is kept."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_kept_follows_everything_that_decides_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "kept"
    first = replace(SMALL, keep=keep, replications=1)

    def files(settings: Settings, instance: int = 0) -> int:
        compare(LOADS[instance], settings)
        return len(list(keep.glob("*")))

    assert files(first) == files(first) == 1
    assert files(replace(first, replications=2)) == 2  # the first one is there
    assert files(replace(first, seed=4)) == 3
    assert files(replace(first, steps=3_001)) == 4
    assert files(replace(first, policies=("greedy", "lag"))) == 5
    assert files(first, 1) == 6
    monkeypatch.setattr(keeping, "code_version", lambda: "other")
    assert files(first) == 7


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", b"nonsense"])
def test_a_damaged_file_is_run_again(tmp_path: Path, damage: bytes) -> None:
    settings = replace(SMALL, keep=tmp_path)
    before = compare(LOADS[0], settings)
    for path in tmp_path.glob("*.npz"):
        whole = path.read_bytes()
        path.write_bytes(damage or whole[: len(whole) // 2])
    assert bits([compare(LOADS[0], settings)]) == bits([before])


def edited(path: Path, change: Callable[[str, np.ndarray], np.ndarray]) -> None:
    """Write a kept file again, its arrays changed."""
    with np.load(path) as arrays:
        found = {name: change(name, arrays[name]) for name in arrays.files}
    np.savez(path, **found)  # type: ignore[arg-type]


def test_a_file_that_was_edited_or_renamed_is_run_again(tmp_path: Path) -> None:
    """NaN in it was a table of NaN, another replication's file was counted twice."""
    settings = replace(SMALL, keep=tmp_path)
    before = compare(LOADS[0], settings)
    paths = sorted(tmp_path.glob("*.npz"))
    edited(paths[0], lambda name, one: one * np.nan if name == "reward" else one)
    edited(paths[1], lambda name, one: one[:1] if name == "reward" else one)
    shutil.copy(paths[3], paths[2])
    assert bits([compare(LOADS[0], settings)]) == bits([before])
    ran = [path.read_bytes() for path in paths]
    assert bits([compare(LOADS[0], settings)]) == bits([before])
    assert [path.read_bytes() for path in paths] == ran


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--keep"):
        compare(LOADS[0], replace(SMALL, keep=tmp_path / "file" / "below"))


def test_kept_traces_come_back_bit_by_bit(tmp_path: Path) -> None:
    result = compare(LOADS[1], replace(SMALL, keep=tmp_path, replications=1))
    assert Kept(tmp_path).load(("another",)) is None
    (path,) = tmp_path.glob("*.npz")
    with np.load(path) as arrays:
        assert arrays["reward"].tobytes() == result.runs.reward[0].tobytes()
        assert arrays["assigned"].dtype == np.int64


def test_the_command_says_that_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compare", "priority-v1", "--load", ".5", "--steps", "2000", "--replications", "3"]
    words += ["--policies", "lag,greedy", "--format", "csv"]
    assert run(words) == 0
    plain = capsys.readouterr().out
    words += ["--keep", str(tmp_path / "kept")]
    assert run([*words, "--workers", "2", "--backend", "loky"]) == 0
    assert capsys.readouterr().out == plain
    assert len(list((tmp_path / "kept").iterdir())) == 3

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("opportune.cli.compare.run_comparison", interrupted)
    assert run(words) == 130
    assert "the same command goes on" in capsys.readouterr().err
