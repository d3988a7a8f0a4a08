"""CSV files with a slip of the keyboard: told with its line, never read as something else."""

from __future__ import annotations

import importlib
from decimal import Decimal
from pathlib import Path

import pytest

from opportune.errors import InputError
from opportune.learning.fit.log import read_log
from opportune.model.checks import name_problems
from opportune.model.duration import Geometric
from opportune.model.files import load_instance, load_sparse
from opportune.model.loss import loss_instance
from opportune.model.numerals import decimal_number, whole_number
from opportune.model.spelling import did_you_mean

INSTANCE = """
match_reward = {{ file = "scores.csv"{keys} }}
arrival_rate = {rates}
duration = {{ kind = "geometric", mean = 2 }}
"""


def told(folder: Path, text: str, keys: str = "", types: int = 2) -> str:
    """What reading scores says."""
    with pytest.raises(InputError) as caught:
        read(folder, text, keys, types)
    return str(caught.value)


def read(folder: Path, text: str, keys: str = "", types: int = 2) -> tuple[int, int]:
    """Types and servers of an instance with these scores."""
    (folder / "scores.csv").write_text(text, encoding="utf-8")
    path = folder / "instance.toml"
    path.write_text(INSTANCE.format(keys=keys, rates=[0.01] * types))
    return load_instance(path).match_reward.shape


ODD = ["1_0", "0.1_0", "0,5", "٣", "0.٥", "１", "0x1", "1e", "n/a", "yes", "50%", "1/2"]


@pytest.mark.parametrize("cell", ODD)
def test_a_misspelled_number_makes_no_column_of_names(cell: str, tmp_path: Path) -> None:
    """The whole first column was taken for names: one server fewer, without a word."""
    for text in (f'x,y\n"{cell}",0.7\n0.1,0.9\n', f'0.5,0.7\n"{cell}",0.9\n'):
        found = told(tmp_path, text)
        assert repr(cell) in found
        assert "in line 2, first column of scores.csv" in found or "in scores.csv, line 2" in found
    assert read(tmp_path, f'task,y\n"{cell}",0.7\n12,0.9\n') == (2, 1)
    assert read(tmp_path, f'x,y\n"{cell}",0.7\n12,0.9\n', ', task = "x"') == (2, 1)


@pytest.mark.parametrize("cell", ODD)
def test_a_misspelled_number_makes_no_header(cell: str, tmp_path: Path) -> None:
    """The first line was taken for a header: one type fewer, without a word."""
    found = told(tmp_path, f'0.5,"{cell}"\n0.1,0.9\n0.2,0.3\n')
    assert f"{cell!r} in line 1 of scores.csv, beside numbers" in found
    found = told(tmp_path, f'a,x,"{cell}"\nb,x,0.7\nc,x,0.3\n')
    assert f"{cell!r} in scores.csv, line 1" in found
    assert read(tmp_path, "2019,B2\n0.1,0.9\n0.2,0.3\n") == (2, 2)


@pytest.mark.parametrize("scale", ["'x'", "true", "[1]", "nan", "inf"])
def test_a_scale_is_a_number_also_where_pairs_are_few(scale: str, tmp_path: Path) -> None:
    """A text ended with an error of NumPy, true and [1] were 1."""
    rows = "".join(f"t{i},s{i},0.5\n" for i in range(1100))
    (tmp_path / "scores.csv").write_text(f"task,server,score\n{rows}")
    path = tmp_path / "instance.toml"
    keys = f', missing = "forbid", scale = {scale}'
    path.write_text(INSTANCE.format(keys=keys, rates=[1e-5] * 1100))
    with pytest.raises(InputError, match=r"match_reward\.scale: .* expected a finite number"):
        load_sparse(path)


def test_decimals_and_bytes_of_a_database(tmp_path: Path) -> None:
    """Decimals were no numbers, and bytes were names such as b'a'."""
    pyarrow = pytest.importorskip("pyarrow")
    columns = {
        "task": [b"a", b"a"],
        "server": ["x", "y"],
        "score": [Decimal("0.10"), Decimal("12.30")],
    }
    importlib.import_module("pyarrow.parquet").write_table(
        pyarrow.table(columns), tmp_path / "scores.parquet"
    )
    path = tmp_path / "instance.toml"
    path.write_text(INSTANCE.format(keys="", rates=[0.1]).replace(".csv", ".parquet"))
    found = load_instance(path)
    assert found.task_types == ("a",)
    assert found.match_reward.tolist() == [[0.1, 12.3]]
    columns["task"] = [b"\xff", b"a"]
    importlib.import_module("pyarrow.parquet").write_table(
        pyarrow.table(columns), tmp_path / "scores.parquet"
    )
    with pytest.raises(InputError, match=r"scores\.parquet: Invalid UTF8"):
        load_instance(path)


def test_a_blank_name_is_told_with_its_line(tmp_path: Path) -> None:
    head = "task,server,score\na,x,0.5\na,y,0.7\n"
    for row in (",,", "total,,1.2", ",x,1.2"):
        found = told(tmp_path, f"{head}{row}\nb,x,0.1\nb,y,0.9\n", ', missing = "forbid"')
        assert "no name in scores.csv, line 4, column '" in found
        assert "(1 such cell)" in found


def test_numbers_are_written_with_digits_0_to_9() -> None:
    assert [whole_number(text) for text in ("12", " +5 ", "-3", "0")] == [12, 5, -3, 0]
    assert [decimal_number(text) for text in ("1.5", " .5 ", "1e3", "-2")] == [1.5, 0.5, 1000, -2]
    for text in ("1_0", "٣", "", " ", "0x1", "1.0", "9" * 5000):
        assert whole_number(text) is None
    for text in ("1_0", "٣", "", " ", "0x1", "0,5", "1d0"):
        assert decimal_number(text) is None


def test_names_that_look_alike() -> None:
    one, other = "Zo\xeb", "Zoe\u0308"
    found = name_problems("servers", (one, other), 2)
    assert [problem.field for problem in found] == ["servers"]
    assert "'Zo\\xeb' and 'Zoe\\u0308' look alike" in str(found[0])
    assert name_problems("servers", (one, "Zoe", "zo\xeb"), 3) == []
    assert "expected a name" in str(name_problems("servers", ("",), 1)[0])
    with pytest.raises(InputError, match="name: ''; expected printable text"):
        loss_instance([[1.0]], [0.1], Geometric(2), name="")


def test_what_cannot_be_seen_is_escaped() -> None:
    assert did_you_mean("task", ["\ufefftask"]) == "did you mean '\\ufefftask'?"


def test_a_log_that_is_no_plain_file(tmp_path: Path) -> None:
    """`expected a file that exists. Did you mean 'log.csv'?`"""
    (tmp_path / "log.csv").mkdir()
    with pytest.raises(InputError) as caught:
        read_log(tmp_path / "log.csv")
    assert "expected a plain file, no pipe or folder" in str(caught.value)
    assert "mean" not in str(caught.value)
