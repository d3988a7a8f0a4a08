"""Forbidden pairs from matrices and constraints files, and durations from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.files import load_instance

Write = Callable[..., Path]
NAMED = 'match_reward = {file = "s.csv"}\n'
SCORES = "task,r1,r2\np1,1,2\np2,3,4\n"
CONSTRAINTS = NAMED + 'allowed = {file = "c.csv"}'


def told(path: Path) -> str:
    """The problems of a file that must be refused."""
    with pytest.raises(InputError) as caught:
        load_instance(path)
    return str(caught.value)


# ----------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    "text",
    [
        "p1,r2,-1\n",
        "task,server,constraint\np1,r2,-1\np1,r1,0\n",
        "paper,reviewer,value\r\np1,r2,-1\r\np1,r2,-1\r\n\r\n",
        "task,r1,r2\np1,true,false\np2,TRUE,true\n",
        "task,r2,r1\np2,1,1\np1,0,1\n",
        "1,0\n1,1\n",
    ],
)
def test_one_conflict_in_many_files(write_instance: Write, text: str) -> None:
    one = load_instance(write_instance(CONSTRAINTS, s_csv=SCORES, c_csv=text))
    assert one.allowed.tolist() == [[True, False], [True, True]]


def test_no_conflict_at_all(write_instance: Write) -> None:
    path = write_instance(CONSTRAINTS, s_csv=SCORES, c_csv="task,server,constraint\n")
    assert load_instance(path).allowed.all()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("p1,r2,1\n", "pins (1) in 1 row, the first in line 1 of c.csv"),
        ("p1,r2,2\n", "2 in line 1 of c.csv (1 such row); expected -1 (conflict) or 0"),
        ("p1,r2,\np1,r1,0\n", "nan in line 1 of c.csv"),
        ("p1,r2,-1\np1,r2,0\n", "task 'p1', server 'r2' has two constraints"),
        ("p1,r1,-1\np1,r2,-1\n", "type 0 (p1) has no permitted server"),
        ("task,serv,constraint\np1,r1,-1\n", "no column 'server' (columns found: 'task', 'serv'"),
        ("task,r1,r2\np1,1,1\np3,1,1\n", "unknown task type 'p3'"),
        ("1,0,1\n1,1,1\n1,1,0\n", "unknown task type '1'"),
        ("0.5,0\n1,1\n", "entries such as 0.5"),
        ("", "c.csv is empty"),
    ],
)
def test_a_constraints_file_is_checked(write_instance: Write, text: str, problem: str) -> None:
    path = write_instance(CONSTRAINTS, s_csv=SCORES, c_csv=text)
    assert problem in told(path)


def test_allowed_knows_no_scale(write_instance: Write) -> None:
    path = write_instance(
        'allowed = {file = "a.npz", scale = 2}', a_npz={"A": np.ones((2, 3), dtype=bool)}
    )
    assert "allowed.scale: unknown key" in told(path)


# ------------------------------------------------------------------------------- durations


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{kind = "deterministic", steps = 2}', (Deterministic(2), Deterministic(2))),
        (
            '[{kind = "deterministic", steps = 2}, {kind = "geometric", mean = 4}]',
            (Deterministic(2), Geometric(4)),
        ),
        (
            '{type-2 = {kind = "geometric", mean = 4}, type-1 = {kind = "geometric", mean = 2}}',
            (Geometric(2), Geometric(4)),
        ),
        (
            '{kind = "empirical", steps = [3, 1], weight = [1, 3]}',
            (Empirical(np.array([1, 3]), np.array([3, 1])),) * 2,
        ),
    ],
)
def test_durations_in_the_file_itself(write_instance: Write, text: str, want: object) -> None:
    assert load_instance(write_instance(f"duration = {text}")).duration == want


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3", 'duration: 3; expected a table such as {kind = "deterministic"'),
        ("[3, 3]", "duration[1]: 3"),
        ("{}", "duration.kind: missing"),
        ("{steps = 3}", "duration.kind: missing"),
        ('{knid = "geometric", mean = 3}', "Did you mean 'kind'?"),
        ('{kind = "geometrical", mean = 3}', "Did you mean 'geometric'?"),
        ("{kind = 3, mean = 3}", "duration.kind: 3"),
        ('{kind = "geometric"}', "duration.mean: missing"),
        ('{kind = "geometric", mean = 3, steps = 3}', "duration.steps: unknown key"),
        ('{kind = "geometric", rate = 3}', "Did you mean 'mean'?"),
        ('{kind = "empirical", steps = [1, 2]}', "duration.weight: missing"),
        ('{kind = "empirical", steps = 3, weight = [1]}', "duration.steps: 3; expected a list"),
        ('{kind = "empirical", steps = [0], weight = [1]}', "duration.steps[0]: 0"),
        ('[{kind = "geometric", mean = 3}]', "duration: 1 given; expected one, or one per type"),
        (
            '{type-1 = {kind = "geometric", mean = 2}, b = {kind = "geometric", mean = 0}}',
            "duration.b.mean: 0",
        ),
        (
            '{type-1 = {kind = "geometric", mean = 2}, b = {kind = "geometric", mean = 2}}',
            "unknown task type 'b'",
        ),
    ],
)
def test_durations_in_the_file_itself_are_checked(
    write_instance: Write, text: str, problem: str
) -> None:
    assert problem in told(write_instance(f"duration = {text}"))


def from_file(write: Write, keys: str, text: str) -> Path:
    """An instance whose durations are read from a CSV file."""
    return write(f'duration = {{kind = "empirical", file = "d.csv"{keys}}}', d_csv=text)


def test_rows_of_type_and_duration_are_rounded_up(write_instance: Write) -> None:
    rows = "type-2,0.1\ntype-1,2\ntype-1,2.5\ntype-1,3\ntype-1,2.000000001\n"
    want = (
        Empirical(np.array([2, 3]), np.array([0.5, 0.5])),
        Empirical(np.array([1]), np.array([1.0])),
    )
    for text in (rows, "task_type,duration\n" + rows, "kind,time\n" + rows):
        assert load_instance(from_file(write_instance, "", text)).duration == want
    named = from_file(write_instance, ', task = "t", steps = "s"', "x,s,t\n1,2,type-1\n2,2,type-2")
    assert load_instance(named).mean_duration.tolist() == [2, 2]


def test_a_histogram_for_all_types_or_by_type(write_instance: Write) -> None:
    keys = ', steps = "days", weight = "probability"'
    path = from_file(write_instance, keys, "days,count,probability\n1,1,0.25\n3,3,0.75\n")
    want = Empirical(np.array([1, 3]), np.array([0.25, 0.75]))
    assert load_instance(path).duration == (want, want)
    keys += ', task = "type"'
    text = "type,days,probability\ntype-1,1,0.25\ntype-2,2,1\ntype-1,3,0.75\n"
    path = from_file(write_instance, keys, text)
    assert load_instance(path).duration == (want, Empirical(np.array([2]), np.array([1.0])))


def test_units_of_a_file_become_steps_without_rounding_noise(write_instance: Write) -> None:
    path = from_file(write_instance, ", per_step = 0.3", "duration\n0.9\n0.91\n0.3\n0.0003\n")
    assert load_instance(path).duration[0] == Empirical(
        np.array([1, 3, 4]), np.array([0.5, 0.25, 0.25])
    )


def test_zero_and_negative_durations_are_refused_or_one_step_by_option(
    write_instance: Write,
) -> None:
    text = "task_type,duration\ntype-1,2\ntype-1,0\ntype-2,-3\n"
    problem = told(from_file(write_instance, "", text))
    assert "2 zero or negative durations in d.csv, the first (0) in line 3" in problem
    assert 'too_short = "one-step"' in problem
    path = from_file(write_instance, ', too_short = "one-step"', text)
    assert load_instance(path).mean_duration.tolist() == [1.5, 1.0]


@pytest.mark.parametrize(
    ("keys", "text", "problem"),
    [
        ("", "type-1,2\n", "nothing for task type 'type-2'"),
        ("", "type-1,2\ntype-2 ,2\n", "unknown task type 'type-2 ' (in d.csv)"),
        ("", "type-1,\ntype-2,2\n", "1 missing or infinite duration in d.csv, the first in line 1"),
        ("", "type-1,inf\ntype-2,2\n", "1 missing or infinite duration"),
        ("", "type-1,2\ntype-2,1e30\n", "1e+30 in d.csv, line 2"),
        ("", "type-1,2\ntype-2,two\n", "'two' in d.csv, line 2"),
        ("", "steps,count\n1,2\n", "duration.weight: not given, and d.csv has a column 'count'"),
        (', weight = "count"', "steps,count\n1,2\n1,3\n", "duration 1 in lines 2 and 3"),
        (', weight = "count"', "steps,count\n1,-2\n", "duration.weight: -2 in d.csv, line 2"),
        (', weight = "count"', "steps,count\n1,nan\n", "duration.weight: nan in d.csv"),
        (', weight = "count"', "steps,count\n1,0\n", "duration: all zero"),
        (', weight = "coutn"', "steps,n\n1,0\n", "no column 'coutn' (columns found: 'steps', 'n')"),
        (', steps = "day"', "days\n1\n", "Did you mean 'days'?"),
        (", per_step = 0", "1\n", "duration.per_step: 0"),
        (', per_step = "30"', "1\n", "duration.per_step: '30'"),
        (', too_short = "drop"', "1\n", "duration.too_short: 'drop'"),
        (', unit = "s"', "1\n", "Did you mean 'per_step'?"),
        ("", "", "d.csv is empty"),
    ],
)
def test_a_file_of_durations_is_checked(
    write_instance: Write, keys: str, text: str, problem: str
) -> None:
    assert problem in told(from_file(write_instance, keys, text))


def test_a_list_may_name_one_file_per_type(write_instance: Write) -> None:
    one = '{kind = "empirical", file = "d.csv"}'
    other = '{kind = "geometric", mean = 3}'
    path = write_instance(f"duration = [{one}, {other}]", d_csv="duration\n2\n4\n")
    assert load_instance(path).mean_duration.tolist() == [3, 3]
    path = write_instance(f"duration = [{one}, {other}]", d_csv="type-1,2\ntype-2,4\n")
    assert "d.csv has a column of task types; expected one duration here" in told(path)
