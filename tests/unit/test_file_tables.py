"""Matrices and vectors from CSV, Parquet, NPZ and NPY files, with every oddity they come with."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from opportune.errors import InputError
from opportune.model.files import load_instance
from opportune.model.loss import LossInstance

Write = Callable[..., Path]
S = 'match_reward = {file = "s.csv"}'
WIDE = "task,x,y\na,1,2\nb,3,4\n"
LONG = "task,server,score\na,x,1\na,y,2\nb,x,3\nb,y,4\n"
VALUES = [[1, 2], [3, 4]]


def told(path: Path) -> str:
    """The problems of a file that must be refused."""
    with pytest.raises(InputError) as caught:
        load_instance(path)
    return str(caught.value)


def names(one: LossInstance) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the task types and of the servers."""
    return one.task_types, one.servers


# ------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        WIDE.replace("\n", "\r\n"),
        "\ufeff" + WIDE,
        WIDE + "\n\r\n  \n,,\n",
        WIDE.rstrip("\n"),
        '"task","x","y"\n"a","1","2"\n"b",3,4',
        "task,x,y,,\na,1,2,,\nb,3,4,,\n",
        ",x,y\na,1,2\nb,3,4\n",
        LONG,
        LONG.replace("\n", "\r\n\r\n"),
        LONG.partition("\n")[2],
        "paper,reviewer,bid\n" + LONG.partition("\n")[2],
    ],
)
def test_one_matrix_in_many_files(write_instance: Write, text: str) -> None:
    one = load_instance(write_instance(S, s_csv=text))
    assert one.match_reward.tolist() == VALUES
    assert names(one)[0] == ("a", "b")
    assert names(one)[1] in (("x", "y"), ("server-1", "server-2"))


def test_names_that_a_file_lacks_are_numbered(write_instance: Write) -> None:
    one = load_instance(write_instance(S, s_csv="1,2\n3,4\n"))
    assert names(one) == (("type-1", "type-2"), ("server-1", "server-2"))
    one = load_instance(write_instance(S, s_csv="a,1,2\nb,3,4\n"))
    assert names(one) == (("a", "b"), ("server-1", "server-2"))
    one = load_instance(write_instance(S, s_csv="x,y\n1,2\n3,4\n"))
    assert names(one) == (("type-1", "type-2"), ("x", "y"))


def test_quoted_names_keep_commas_quotes_and_letters(write_instance: Write) -> None:
    text = 'task,"Smith, J.",Zoë\n"a ""x""",1,2\nb,3,4\n'
    one = load_instance(write_instance(S, s_csv=text))
    assert names(one) == (('a "x"', "b"), ("Smith, J.", "Zoë"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "s.csv is empty"),
        ("\n \n", "s.csv is empty"),
        ("task,x,y\n", "a header and no rows"),
        ("task;x;y\na;0,1;0,2\n", "separated by semicolons"),
        ("0,1;0,2\n0,3;0,4\n", "separated by semicolons"),
        ("task\tx\ty\na\t1\t2\n", "separated by tabs"),
        ("task,x,y\na,1\nb,3,4\n", "line 2 has 2 cells; expected 3 cells, as in line 1"),
        ('task,x,y\na,"0,5",2\nb,3,4\n', "'0,5' in s.csv, line 2, column 'x' (1 such cell)"),
        ("task,x,y\n\na,1,n/a\nb,-,4\n", "'n/a' in s.csv, line 3, column 'y' (2 such cells)"),
        ("task,x,y\na,1,1_000\nb,3,4\n", "'1_000' in s.csv"),
        ("task,x,y\na,1,\nb,3,4\n", "missing (NaN) at type 0, server 1"),
        ("task,x,y\na,1,-inf\nb,3,4\n", "Mark conflicts in `allowed`"),
        ('task,x,y\na,"1,2\nb,3,4\n', "unexpected end of data"),
        ("task,x,x\na,1,2\nb,3,4\n", "two columns 'x'"),
        ("task,x ,y\na,1,2\nb,3,4\n", "servers[0]: 'x '"),
        ("task,x,y\na,1,2\na,3,4\n", "task_types: a; expected every name once"),
        ("a\nb\n", "names and no numbers"),
        ("task,x\0,y\na,1,2\n", "zero bytes"),
    ],
)
def test_a_csv_file_is_refused_with_its_line(
    write_instance: Write, text: str, problem: str
) -> None:
    assert problem in told(write_instance(S, s_csv=text))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_that_is_not_utf8_is_refused(write_instance: Write, encoding: str) -> None:
    path = write_instance(S, s_csv="task,Zoë,y\na,1,2\nb,3,4\n".encode(encoding))
    assert "is not UTF-8 text (byte 0x" in told(path)


def test_what_may_be_names_or_numbers_is_asked(write_instance: Write) -> None:
    numbered = "paper,x,y\n0,.1,.2\n160,.3,.4\n"
    assert 'write task = "paper"' in told(write_instance(S, s_csv=numbered))
    reference = 'match_reward = {file = "s.csv", %s}'
    one = load_instance(write_instance(reference % 'task = "paper"', s_csv=numbered))
    assert names(one) == (("0", "160"), ("x", "y"))
    one = load_instance(write_instance(reference % 'columns = ["y", "x"]', s_csv=numbered))
    assert one.match_reward.tolist() == [[0.2, 0.1], [0.4, 0.3]]
    headed = "paper,0,1,2\na,1,2,4\nb,3,4,3\n"
    assert 'write task = "paper"' in told(write_instance(S, s_csv=headed))
    one = load_instance(write_instance(reference % 'task = "paper"', s_csv=headed))
    assert names(one) == (("a", "b"), ("0", "1", "2"))
    pairs = "0,0,.5\n0,1,.25\n1,0,.5\n1,1,.3\n"
    assert "task = 0, server = 1, value = 2" in told(write_instance(S, s_csv=pairs))
    keys = "task = 0, server = 1, value = 2"
    one = load_instance(write_instance(reference % keys, s_csv=pairs))
    assert one.match_reward.tolist() == [[0.5, 0.25], [0.5, 0.3]]


# ------------------------------------------------------------------------------ long tables


def test_a_missing_pair_is_forbidden_or_zero_by_an_explicit_switch(write_instance: Write) -> None:
    text = LONG.replace("b,y,4\n", "")
    reference = 'match_reward = {file = "s.csv", missing = %s}'
    problem = told(write_instance(S, s_csv=text))
    assert "for 1 pair, the first is task 'b', server 'y'" in problem
    assert 'missing = "forbid"' in problem
    one = load_instance(write_instance(reference % '"forbid"', s_csv=text))
    assert one.allowed.tolist() == [[True, True], [True, False]]
    one = load_instance(write_instance(reference % "0", s_csv=text))
    assert one.allowed.all()
    assert one.match_reward.tolist() == [[1, 2], [3, 0]]
    for wrong in ("1", '"drop"', "false"):
        assert "match_reward.missing" in told(write_instance(reference % wrong, s_csv=text))


@pytest.mark.parametrize(
    ("keys", "text", "problem"),
    [
        ("missing = 0", "task,score\na,1\n", "no column 'server' (columns found: 'task', 'score')"),
        ('value = "bid"', LONG, "no column 'bid' (columns found: 'task', 'server', 'score')"),
        ('value = "scroe"', LONG, "Did you mean 'score'?"),
        ("value = 5", LONG, "no column 5 (it has 3 columns, 0 to 2)"),
        ("value = true", LONG, "match_reward.value: True"),
        ('value = "server"', LONG, "one column of s.csv for two keys"),
        ("missing = 0", LONG + "a,y,7\n", "task 'a', server 'y' has 2 rows"),
        ("missing = 0", "a,x,n/a\na,y,2\n", "'n/a' in s.csv, line 1"),
        ('missing = 0, array = "S"', LONG, "match_reward.array: does not apply"),
        ("missing = 0, index = 0", LONG, "match_reward.index: does not apply"),
    ],
)
def test_a_long_table_is_checked(write_instance: Write, keys: str, text: str, problem: str) -> None:
    path = write_instance(f'match_reward = {{file = "s.csv", {keys}}}', s_csv=text)
    assert problem in told(path)


# --------------------------------------------------------------------------- array references


def reference(write: Write, keys: str, **arrays: np.ndarray) -> Path:
    """An instance whose rewards are a reference to an NPZ file."""
    return write(f'match_reward = {{file = "s.npz", {keys}}}', s_npz=arrays)


def test_index_transpose_scale_rows_columns_normalize_act_in_this_order(
    write_instance: Write,
) -> None:
    cube = np.arange(24).reshape(2, 4, 3)  # two samples of 4 servers x 3 types
    keys = "index = 1, transpose = true, scale = 0.5, rows = [2, 0], columns = [3, 1]"
    one = load_instance(reference(write_instance, keys, S=cube))
    want = cube[1].T[[2, 0]][:, [3, 1]] * 0.5
    assert one.match_reward.tolist() == want.tolist()
    one = load_instance(reference(write_instance, keys + ", normalize = true", S=cube))
    assert one.match_reward.tolist() == (want / want.max()).tolist()


def test_small_integers_do_not_overflow_when_scaled(write_instance: Write) -> None:
    bids = np.array([[200, 0], [100, 250]], dtype=np.uint8)
    one = load_instance(reference(write_instance, "scale = 10", bids=bids))
    assert one.match_reward.tolist() == [[2000, 0], [1000, 2500]]


def test_a_value_may_mean_forbidden(write_instance: Write) -> None:
    bids = np.array([[0, 25], [50, 100]])
    keys = "scale = 0.01, forbid = 0, normalize = true"
    one = load_instance(reference(write_instance, keys, bids=bids))
    assert one.allowed.tolist() == [[False, True], [True, True]]
    assert one.match_reward.tolist() == [[0, 0.25], [0.5, 1]]
    conflict = {"S": np.ones((2, 2)), "conflict": np.array([[0, 1], [0, 0]], dtype=np.uint8)}
    path = write_instance(
        'match_reward = {file = "s.npz", array = "S"}\n'
        'allowed = {file = "s.npz", array = "conflict", forbid = 1}',
        s_npz=conflict,
    )
    assert load_instance(path).allowed.tolist() == [[True, False], [True, True]]


def test_what_forbids_adds_up(write_instance: Write) -> None:
    path = write_instance(
        'match_reward = {file = "s.npz", forbid = 0}\nallowed = [[true, false], [true, true]]',
        s_npz={"S": np.array([[1, 1], [1, 0]])},
    )
    assert load_instance(path).allowed.tolist() == [[True, False], [True, False]]


def test_the_file_of_peer_review_matchers(write_instance: Write) -> None:
    """Scores as ``similarity_matrix``, conflicts as ones of ``mask_matrix``."""
    arrays = {
        "similarity_matrix": np.array([[1, 2], [3, 4], [5, 6]]),
        "mask_matrix": np.array([[0, 1], [0, 0], [0, 0]]),
    }
    one = load_instance(reference(write_instance, "transpose = true", **arrays))
    assert one.match_reward.tolist() == [[1, 3, 5], [0, 4, 6]]
    assert one.allowed.tolist() == [[True] * 3, [False, True, True]]
    arrays["mask_matrix"] = np.array([[0, 2], [0, 0], [0, 0]])
    assert "entries other than 0 and 1" in told(reference(write_instance, "scale = 1", **arrays))


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ('array = "s"', "no array 's' (arrays found: S, T)"),
        ("scale = 1", "holds several arrays (arrays found: S, T)"),
        ('array = "S"', "shape (2, 2, 2); expected a matrix. Pick one with index = 0 to 1"),
        ('array = "S", index = 2', "match_reward.index: 2; expected a whole number from 0 to 1"),
        ('array = "S", index = -1', "match_reward.index: -1"),
        ('array = "S", index = true', "match_reward.index: True"),
        ('array = "T", index = 0', "shape (2,); expected a matrix"),
        ('array = "T", rows = [0, 2]', "match_reward.rows: 2; expected a position from 0 to 1"),
        ('array = "T", rows = [0, 0]', "match_reward.rows: 0 twice"),
        ('array = "T", rows = []', "match_reward.rows: []"),
        ('array = "T", columns = ["x"]', "The file has no names here"),
        ('array = "T", transpose = 1', "match_reward.transpose: 1; expected true or false"),
        ('array = "T", scale = "2"', "match_reward.scale: '2'"),
        ('array = "T", scale = nan', "match_reward.scale: nan"),
        ('array = "T", scale = 0, normalize = true', "match_reward.normalize: the largest value"),
        ('array = "T", normalise = true', "Did you mean 'normalize'?"),
        ('array = "T", task = "a"', "match_reward.task: does not apply"),
    ],
)
def test_a_reference_is_checked(write_instance: Write, keys: str, problem: str) -> None:
    arrays = {"S": np.ones((2, 2, 2)), "T": np.ones((2, 2))}
    assert problem in told(reference(write_instance, keys, **arrays))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("s.npz", b"", "s.npz: No data left"),
        ("s.npz", b"PK\x03\x04 cut off", "s.npz: "),
        ("s.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': ('<f8',", "s.npy: "),
        ("s.npy", pickle.dumps([[1, 2]]), "s.npy holds pickled objects"),
        ("s.parquet", b"not parquet", "s.parquet: "),
        ("s.pkl", b"", "expected no pickle"),
        ("s.xlsx", b"", "Save it as CSV"),
        ("s", b"", "expected a file ending in .csv"),
    ],
)
def test_a_foreign_file_is_refused(
    write_instance: Write, tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert problem in told(write_instance(f'match_reward = {{file = "{name}"}}'))


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.array([[1, None]], dtype=object), "s.npz holds pickled objects"),
        (np.array([["1", "2"]]), "match_reward[0,0]: '1'"),
        (np.array([[True, False]]), "match_reward[0,0]: True"),
        (np.array([[1j]]), "match_reward[0,0]: 1j"),
        (np.float64(3), "shape ()"),
    ],
)
def test_an_array_of_another_kind_is_refused(
    write_instance: Write, array: np.ndarray, problem: str
) -> None:
    assert problem in told(reference(write_instance, "scale = 1", S=array))


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("https://example.org/s.csv", "not a URL"),
        ("~/s.csv", "without ~"),
        ("t.csv", "Did you mean 's.csv'?"),
        ("nowhere/s.csv", "looked for in"),
        ("x" * 5000 + ".csv", "looked for in"),
        ("", "the name of a file"),
    ],
)
def test_where_a_file_may_lie(write_instance: Write, file: str, problem: str) -> None:
    path = write_instance(f'match_reward = {{file = "{file}"}}', s_csv=WIDE)
    assert problem in told(path)


def test_an_absolute_path_is_fine(write_instance: Write, tmp_path: Path) -> None:
    path = write_instance(f"match_reward = {{file = '{tmp_path / 's.csv'}'}}", s_csv=WIDE)
    assert load_instance(path).match_reward.tolist() == VALUES


# ---------------------------------------------------------------------------------- Parquet


def test_parquet_wide_and_long(write_instance: Write, tmp_path: Path) -> None:
    frames = {
        "wide": {"x": [1.0, 3.0], "y": [2, 4], "__index_level_0__": ["a", "b"]},
        "long": {
            "task": ["a", "a", "b", "b"],
            "server": ["x", "y", "x", "y"],
            "score": [1.0, 2.0, 3.0, 4.0],
        },
    }
    for name, columns in frames.items():
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
        one = load_instance(write_instance(f'match_reward = {{file = "{name}.parquet"}}'))
        assert one.match_reward.tolist() == VALUES
        assert names(one) == (("a", "b"), ("x", "y"))


# ---------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ('{file = "r.csv"}', "0.1\n0.3\n"),
        ('{file = "r.csv"}', "rate\n0.1\n0.3\n"),
        ('{file = "r.csv"}', "0.1,0.3\n"),
        ('{file = "r.csv"}', "type-2,0.3\ntype-1,0.1\n"),
        ('{file = "r.csv", value = "rate"}', "task,n,rate\ntype-2,9,0.3\ntype-1,9,0.1\n"),
        ('{file = "r.csv", scale = 0.1}', "type-1,1\ntype-2,3\n"),
        ('{file = "r.csv", columns = ["rate"]}', "n,rate\n1,0.1\n2,0.3\n"),
    ],
)
def test_rates_from_a_file(write_instance: Write, reference: str, text: str) -> None:
    one = load_instance(write_instance(f"arrival_rate = {reference}", r_csv=text))
    assert one.arrival_rate == pytest.approx([0.1, 0.3], rel=1e-15)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("type-1,0.1\n", "nothing for task type 'type-2'"),
        ("type-1,0.1\ntype-2,0.1\nTYPE-2,0.1\n", "'TYPE-2' may mean 'type-2'"),
        ("1,2\n3,4\n", "shape (2, 2); expected one number per task type"),
        ("type-1,0.1\ntype-2,nan\n", "arrival_rate[1]: nan"),
    ],
)
def test_rates_from_a_file_are_checked(write_instance: Write, text: str, problem: str) -> None:
    assert problem in told(write_instance('arrival_rate = {file = "r.csv"}', r_csv=text))
