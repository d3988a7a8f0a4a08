"""Instance files: keys, names, groups, loads, and how a check tells what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError, MissingExtraError
from opportune.model.duration import Geometric
from opportune.model.files import check_instance, load_instance
from opportune.model.loss import loss_instance

Write = Callable[..., Path]


def told(path: Path | str, load: float | None = None) -> str:
    """What a check says is wrong, one problem a line; the instance must be refused."""
    check = check_instance(path, load)
    assert not check.ok
    assert check.summary == f"{path}: {len(check.problems)} problem" + "s" * (
        len(check.problems) > 1
    )
    with pytest.raises((InputError, MissingExtraError)) as caught:
        load_instance(path, load)
    assert caught.value.problems == check.problems
    return "\n".join(str(problem) for problem in check.problems)


def test_the_plain_file(write_instance: Write) -> None:
    path = write_instance()
    want = loss_instance([[1, 2, 3], [4, 5, 6]], [0.1, 0.2], Geometric(5))
    one = load_instance(path)
    assert one == want
    assert one.name == "instance"
    assert load_instance(str(path)) == want
    assert check_instance(path) == (
        (),
        "instance: 2 task types, 3 servers, 1 per task, mean duration 5 steps, "
        "0.3 arrivals per step, load 0.5",
    )


def test_the_summary_tells_what_is_special(write_instance: Write) -> None:
    path = write_instance(
        "name = 'odd'\narrival_rate = [0.1, 0]\nservers_per_task = [1, 2]\n"
        "allowed = [[true, false, true], [true, true, true]]\n"
        'duration = [{kind = "geometric", mean = 5}, {kind = "deterministic", steps = 2}]'
    )
    assert check_instance(path).summary == (
        "odd: 2 task types, 3 servers, 1 to 2 per task, mean durations 2 to 5 steps, "
        "0.1 arrivals per step, load 0.1667, 1 of 6 pairs forbidden, 1 type without arrivals"
    )


def test_a_load_multiplies_the_rates(write_instance: Write) -> None:
    one = load_instance(write_instance(), 0.25)
    assert one.arrival_rate == pytest.approx([0.05, 0.1], rel=1e-15)


def test_shares_need_a_load_and_may_be_counts(write_instance: Write) -> None:
    path = write_instance("type_share = [30, 10]")
    assert "load: not given" in told(path)
    assert "--load 0.7" in told(path)
    one = load_instance(path, 0.5)
    assert one.load == pytest.approx(0.5, rel=1e-15)
    assert one.arrival_rate[0] == pytest.approx(3 * one.arrival_rate[1], rel=1e-15)


@pytest.mark.parametrize(
    ("share", "problem"),
    [
        ("[1, -1]", "type_share[1]: -1"),
        ("[0, 0.0]", "type_share: all zero"),
        ("[1, nan]", "type_share[1]: nan"),
        ("[1, inf]", "type_share[1]: inf"),
        ("[1]", "1 shares; expected one per row of match_reward, 2"),
        ("['1', 2]", "type_share[0]: '1'"),
    ],
)
def test_shares_are_checked(write_instance: Write, share: str, problem: str) -> None:
    assert problem in told(write_instance(f"type_share = {share}"), 0.5)


def test_rates_and_shares_together_are_refused(write_instance: Write) -> None:
    both = "type_share = [1, 1]\narrival_rate = [0.1, 0.1]"
    assert "type_share: given beside arrival_rate" in told(write_instance(both))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("macth_reward = 3", "macth_reward: unknown key"),
        ("macth_reward = 3", "Did you mean 'match_reward'?"),
        ("k = 3", "Did you mean 'servers_per_task'?"),
        ("Allowed = [[true]]", "Did you mean 'allowed'?"),
        ("load = 0.7", "load: given; expected no such key. Leave it out and give --load"),
        ("name = 3", "name: 3; expected printable text"),
    ],
)
def test_unknown_keys(write_instance: Write, text: str, problem: str) -> None:
    assert problem in told(write_instance(text))


def test_missing_keys_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("")
    text = told(path)
    assert all(f"{key}: missing" in text for key in ("match_reward", "duration", "arrival_rate"))


def test_a_check_finds_every_problem(write_instance: Write) -> None:
    path = write_instance(
        "macth_reward = 1\n"
        "match_reward = [[1, -1], [2, 3]]\n"
        "arrival_rate = [0.7, 0.7]\n"
        'duration = [{kind = "geometric", maen = 1}, {kind = "deterministic", steps = "3"}]\n'
        "servers_per_task = '2'\n"
        'allowed = {file = "conflicts.csv"}\n'
        'servers = ["r1", {name = "r2", count = "inf"}]\n'
    )
    problems = check_instance(path).problems
    assert {problem.field for problem in problems} >= {
        "macth_reward",
        "match_reward",
        "arrival_rate",
        "duration[0].maen",
        "duration[0].mean",
        "duration[1].steps",
        "servers_per_task",
        "servers[1].count",
        "allowed.file",
    }
    assert len(set(problems)) == len(problems)
    unreadable = write_instance(
        'match_reward = {file = "no.csv"}\narrival_rate = [2, 0]\nservers_per_task = "2"\n'
        'allowed = {file = "conflicts.csv"}\nduration = {kind = "geometrical", mean = 2}'
    )
    fields = [problem.field for problem in check_instance(unreadable).problems]
    assert fields == [
        "match_reward.file",
        "allowed.file",
        "servers_per_task",
        "duration.kind",
        "arrival_rate[0]",
    ]


# -------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("nowhere/x.toml", "expected a folder nowhere"),
        ("https://example.org/x.toml", "not a URL"),
        ("~/x.toml", "a path without ~"),
        (Path("priority-v1"), "a path ending in .toml"),
        ("scores.csv", "or a path ending in .toml"),
        ("x" * 5000 + ".toml", "expected a file in this folder"),
    ],
)
def test_a_source_that_is_no_file(source: Any, expected: str) -> None:
    assert expected in told(source)


def test_a_near_file_name_is_suggested(write_instance: Write) -> None:
    path = write_instance()
    assert "Did you mean 'instance.toml'?" in told(path.with_name("instanse.toml"))


def test_a_byte_order_mark_and_crlf_are_tolerated(write_instance: Write) -> None:
    path = write_instance()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_instance(path).n_servers == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("name = 'Zoë'".encode("latin-1"), "not UTF-8 text (byte 0xeb in line 1)"),
        ("name = 'x'".encode("utf-16"), "not UTF-8 text (byte 0xff in line 1)"),
        (b"name = 'x'\0", "holds zero bytes"),
        (b"arrival_rate = [.1]", "line 1, column 17"),
        (b"a = 1\na = 2", "A key is given twice"),
        (b"a = " + b"[" * 100_000, "nested too deep"),
        (b"a = " + b"9" * 5000, "a TOML file"),
    ],
)
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    assert problem in told(path)


# ------------------------------------------------------------------------ names and groups


def test_a_row_of_servers_stands_for_equal_ones(write_instance: Write) -> None:
    path = write_instance(
        'match_reward = [[1, 2], [3, 4]]\nservers = [{name = "nurse", count = 3}, "doctor"]\n'
        "allowed = [[false, true], [true, true]]"
    )
    one = load_instance(path)
    assert one.servers == ("nurse/1", "nurse/2", "nurse/3", "doctor")
    assert one.match_reward.tolist() == [[0, 0, 0, 2], [3, 3, 3, 4]]
    assert one.allowed.tolist() == [[False] * 3 + [True], [True] * 4]


def test_a_conflict_of_a_group_is_that_of_each_of_its_servers(write_instance: Write) -> None:
    path = write_instance(
        'match_reward = [[1, 2], [3, 4]]\nservers = [{name = "nurse", count = 2}, "doctor"]\n'
        'allowed = {file = "c.csv"}',
        c_csv="type-2,nurse,-1\n",
    )
    assert load_instance(path).allowed.tolist() == [[True] * 3, [False, False, True]]


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ("3", "servers: 3; expected a list of names"),
        ("[]", "servers: []"),
        ('["a", "b"]', "servers: 2 given, match_reward has 3 columns"),
        ('["a", "b", "b"]', "servers: b; expected every name once"),
        ('["a", "b", 3]', "servers[2]: 3; expected text"),
        ('["a", "b", {count = 2}]', "servers[2]: ''"),
        ('["a", "b", {name = "c", count = 0}]', "servers[2].count: 0; expected a whole number"),
        ('["a", "b", {name = "c", count = -1}]', "servers[2].count: -1"),
        ('["a", "b", {name = "c", count = 2.5}]', "servers[2].count: 2.5"),
        ('["a", "b", {name = "c", count = true}]', "servers[2].count: True"),
        ('["a", "b", {name = "c", count = 1000000000}]', "servers[2].count: 1000000000"),
        ('["a", "b", {name = "c", cuont = 2}]', "Did you mean 'count'?"),
        ('["a/1", "b", {name = "a", count = 2}]', "servers: a/1; expected every name once"),
    ],
)
def test_rows_of_servers_are_checked(write_instance: Write, servers: str, problem: str) -> None:
    assert problem in told(write_instance(f"servers = {servers}"))


def test_names_of_the_file_are_reordered_as_given(write_instance: Write) -> None:
    path = write_instance(
        'task_types = ["b", "a"]\nservers = ["y", "x"]\nmatch_reward = {file = "s.csv"}\n'
        'arrival_rate = {file = "r.csv", task = "task", value = "rate"}',
        s_csv="task,x,y\na,1,2\nb,3,4\n",
        r_csv="task,rate\na,0.1\nb,0.2\n",
    )
    one = load_instance(path)
    assert one.match_reward.tolist() == [[4, 3], [2, 1]]
    assert one.arrival_rate.tolist() == [0.2, 0.1]
    assert one.task_types == ("b", "a")


def test_names_that_disagree_with_the_file_are_all_listed(write_instance: Write) -> None:
    path = write_instance(
        'servers = ["y", "X", "z"]\nmatch_reward = {file = "s.csv"}',
        s_csv="task,x,y,w\na,1,2,3\nb,3,4,5\n",
    )
    text = told(path)
    assert "unknown servers 'x', 'w'" in text
    assert "'x' may mean 'X'" in text
    assert "nothing for servers 'X', 'z'" in text


def test_a_missing_package_is_told_as_such(
    write_instance: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "opportune.model.parquet", raising=False)
    path = write_instance('match_reward = {file = "s.parquet"}', s_parquet=b"")
    with pytest.raises(MissingExtraError, match=r"pip install 'opportune\[parquet\]'"):
        load_instance(path)
    assert "the package 'pyarrow' is missing" in told(path)
    both = write_instance('match_reward = {file = "s.parquet"}\nk = 2', s_parquet=b"")
    with pytest.raises(InputError, match="unknown key"):
        load_instance(both)


def test_servers_per_task_in_every_form(write_instance: Write) -> None:
    assert load_instance(write_instance("servers_per_task = 2")).one_k == 2
    assert load_instance(write_instance("servers_per_task = 2.0")).one_k == 2
    path = write_instance("servers_per_task = [3, 1]")
    assert load_instance(path).servers_per_task.tolist() == [3, 1]
    demands = 'servers_per_task = {file = "demands.csv"}'
    for text in ("type-2,2\ntype-1,3\n", "task,k\ntype-2,2\ntype-1,3\n"):
        path = write_instance(demands, demands_csv=text)
        assert load_instance(path).servers_per_task.tolist() == [3, 2]
    path = write_instance(
        'servers_per_task = {file = "d.npz", array = "k"}', d_npz={"k": np.array([1, 2])}
    )
    assert load_instance(path).servers_per_task.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("task,k\ntype-1,3\n", "nothing for task type 'type-2'"),
        ("task,k\ntype-1,3\ntype-2,1\ntype-9,1\n", "unknown task type 'type-9'"),
        ("task,k\ntype-1,3\ntype-2,2.5\n", "servers_per_task: 2.5"),
        ("task,k\ntype-1,3\ntype-2,\n", "servers_per_task: nan"),
        ("task,k\ntype-1,3\ntype-1,3\n", "task 'type-1' in lines 2 and 3"),
        ("task,n\ntype-1,3\ntype-2,3\n", "no column 'k' (columns found: 'task', 'n')"),
    ],
)
def test_demands_are_checked(write_instance: Write, rows: str, problem: str) -> None:
    path = write_instance('servers_per_task = {file = "d.csv"}', d_csv=rows)
    assert problem in told(path)
