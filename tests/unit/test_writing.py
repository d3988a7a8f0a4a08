"""Files are written whole or not at all; an input is not written over, by whatever name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.model.saving import save_instance
from opportune.model.writing import check_place, put, put_all, written_whole

INSTANCE = """
arrival_rate = [0.05, 0.05]
match_reward = [[0.9, 0.7, 0.4], [0.2, 0.8, 0.5]]
duration = { kind = "geometric", mean = 5 }
"""
HEADER = "time,task_type,server,duration,outcome,propensity\n"
LOG = HEADER + "".join(f"{7 * i},a,{'xy'[i % 2]},5,{i % 3 % 2},0.5\n" for i in range(40))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full when files are about to be moved to their places."""

    def replace(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("opportune.model.writing.os.replace", replace)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {one.name: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    "words",
    [
        ("plan", "instance.toml", "--out", "out.json"),
        ("fit", "log.csv", "--out", "."),
        ("export", "log.csv", "--to", "vw", "--out", "out.vw"),
        ("export", "log.csv", "--to", "obp", "--out", "out.npz"),
    ],
    ids=lambda words: " ".join(words[:4:2]),
)
def test_a_full_disk_leaves_what_was_there(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`fit --out` and `export` left empty files."""
    monkeypatch.chdir(tmp_path)
    for name in ("out.json", "out.npz", "out.vw", "scores.csv", "instance.toml"):
        Path(name).write_text(INSTANCE)
    Path("log.csv").write_text(LOG)
    before = files(tmp_path)
    assert run(list(words)) == 1
    text = capsys.readouterr().err
    assert "error: --out: " in text
    assert "No space left on device; expected a place that can be written to" in text
    assert "Make room there" in text
    assert files(tmp_path) == before


@pytest.mark.usefixtures("full")
def test_an_instance_is_saved_whole_or_not(tmp_path: Path) -> None:
    one = loss_instance(np.ones((30, 20)), [0.01] * 30, Geometric(3))
    with pytest.raises(InputError, match=r"path: .*No space left"):
        save_instance(one, tmp_path / "one.toml")
    assert files(tmp_path) == {}


@pytest.mark.parametrize("ends", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_ends_the_writing_leaves_nothing(ends: type[BaseException], tmp_path: Path) -> None:
    place = tmp_path / "a" / "file.txt"
    put(place, b"old")

    def end_early() -> None:
        with written_whole([place]) as (beside,):
            beside.write_bytes(b"half")
            raise ends

    with pytest.raises(ends):
        end_early()
    assert files(tmp_path) == {"file.txt": b"old"}


def test_the_second_of_two_files_has_no_place(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="--out"):
        put_all({tmp_path / "one": b"1", tmp_path / "taken" / "two": b"2"})
    assert list(files(tmp_path)) == ["taken"]


def test_what_is_no_file_is_written_to_itself(tmp_path: Path) -> None:
    """`export --out /dev/stdout`, as root, would have put a file in place of the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    put(pipe, b"rows")
    assert os.read(reader, 9) == b"rows"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["plan.json", "deep/plan.json"])
def test_a_plan_is_not_written_over_its_instance(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link was followed: the plan stood in the instance file."""
    instance = tmp_path / "instance.toml"
    instance.write_text(INSTANCE)
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(instance)
    assert run(["plan", str(instance), "--out", str(link)]) == 1
    assert "is the file that is read" in capsys.readouterr().err
    assert instance.read_text() == INSTANCE


@pytest.mark.parametrize("name", ["x" * 300 + ".json", "x" * 248 + ".json"])
def test_a_long_name(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    if len(name) < 255:
        put(place, b"well")
        assert files(tmp_path) == {name: b"well"}
        return
    with pytest.raises(InputError, match="File name too long"):
        check_place(place)
    with pytest.raises(InputError, match="File name too long"):
        put(place, b"")


def test_a_folder_to_keep_runs_in_is_checked_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = tmp_path / "instance.toml"
    instance.write_text(INSTANCE)
    words = ["compare", str(instance), "--steps", "1000000000000", "--keep", str(instance)]
    assert run(words) == 1
    assert f"{instance} is no folder" in capsys.readouterr().err


def test_who_may_read_a_file_is_as_the_user_has_set_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    before = os.umask(0o077)
    try:
        put(path, b"first")
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        put(path, b"second")
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"second", 0o640)
