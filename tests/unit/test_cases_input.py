"""Inputs that broke other people's tools: the right behavior, one test a case.

Each docstring names where it was seen and what happened there. Input data and conflicts, and what
concerns building an instance; the rest stands with pricing, simulation and learning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.files import check_instance, load_instance
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.streams import stream_key
from opportune.policies.loss.greedy import Greedy
from opportune.simulate.loss import Run, simulate_plans

Write = Callable[..., Path]


def build(reward: Any, **changed: Any) -> LossInstance:
    """An instance with this reward matrix and small rates."""
    n_types = len(reward)
    rest: dict[str, Any] = {"arrival_rate": [0.5 / n_types] * n_types, "duration": Geometric(3)}
    return loss_instance(reward, **{**rest, **changed})


def told(**arguments: Any) -> str:
    """The problems of an instance that must be refused."""
    with pytest.raises(InputError) as caught:
        build(**arguments)
    return str(caught.value)


def real(path: Path) -> str:
    """A path as it stands between the quotes of a TOML string."""
    return path.as_posix()


# --------------------------------------------------------------- A. input data and conflicts


def test_one_missing_score_is_named_by_type_and_server() -> None:
    """scipy/scipy#14545: a row of NaN reached the solver, whose message named no row."""
    reward = np.ones((10, 30))
    reward[3, 4] = np.nan
    text = told(reward=reward)
    assert "type 3, server 4" in text
    assert "1 missing in all" in text


@pytest.mark.parametrize(
    "bad",
    [
        lambda: build(np.full((10, 30), np.nan)),
        lambda: build(np.ones((2, 2)), arrival_rate=[0.1, np.nan]),
        lambda: build(np.ones((2, 2)), arrival_rate=[np.nan, np.nan]),
        lambda: Empirical(np.array([1, 2]), np.array([0.5, np.nan])),
        lambda: Empirical(np.array([1, 2]), np.array([np.nan, np.nan])),
        lambda: Empirical(np.array([1, np.nan]), np.array([0.5, 0.5])),
        lambda: Geometric(np.nan),
        lambda: build(np.ones((2, 2)), servers_per_task=[1, np.nan]),
    ],
)
def test_nothing_but_nan_is_refused_at_once(bad: Callable[[], object]) -> None:
    """google-deepmind/optax#1179: an all-NaN cost matrix sent the solver into an endless loop."""
    start = time.process_time()
    with pytest.raises(InputError, match=r"nan|NaN"):
        bad()
    assert time.process_time() - start < 5.0


def test_infinite_scores_are_refused_with_a_hint_to_the_mask() -> None:
    """scipy/scipy#6900: infinite costs, meant as "not allowed", gave invalid arithmetic."""
    reward = np.ones((3, 4))
    reward[1, 2] = reward[2, 3] = -np.inf
    text = told(reward=reward)
    assert "-inf at type 1, server 2 (2 infinite in all)" in text
    assert "`allowed`" in text
    allowed = np.isfinite(reward)
    one = build(reward, allowed=allowed)
    assert np.isfinite(one.match_reward).all()
    assert np.array_equal(one.allowed, allowed)


def test_a_zero_score_is_served_and_a_forbidden_pair_is_not() -> None:
    """scipy/scipy#13421: zero meant "no edge" to the user and "cheap edge" to the solver."""
    reward = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    common: dict[str, Any] = {"arrival_rate": [0.0, 0.0, 0.9], "duration": Deterministic(50)}
    run = Run(steps=2000, warm_up=0)
    one = loss_instance(reward, **common)
    assert not one.has_forbidden_pairs
    (trace,) = simulate_plans(one, [Greedy().plan(one)], run)
    assert trace.assigned[2].min() > 0  # both servers work for type 2, though it earns nothing
    assert trace.reward.sum() == 0.0

    masked = loss_instance(reward, allowed=[[1, 1], [1, 1], [0, 1]], **common)
    (trace,) = simulate_plans(masked, [Greedy().plan(masked)], run)
    assert trace.assigned[2, 0] == 0  # server 0 was free all the time
    assert trace.busy_steps[0] == 0
    assert trace.blocked[2] == trace.arrived[2] - trace.assigned[2, 1] > 0

    with pytest.raises(InputError, match=r"type 2 \(type-3\) has no permitted server"):
        loss_instance(reward, allowed=[[1, 1], [1, 1], [0, 0]], **common)


def test_a_million_in_place_of_infinity_is_refused() -> None:
    """gatagat/lap#19: a million for infinity made the result look wrong and ties arbitrary."""
    text = told(reward=[[1, -1e6], [-1000000, 2]])
    assert "-1e+06 at type 0, server 1 is negative (2 negative in all)" in text
    assert "never clipped silently" in text


def test_a_real_affinity_file_with_negative_scores_is_refused(
    write_instance: Write, data: Path
) -> None:
    """gatagat/lap#19, on ``midl2018/affinity.npz`` as it is: 2,380 negative entries."""
    file = data / "midl2018" / "affinity.npz"
    with np.load(file) as arrays:
        scores = arrays["scores"].T
    v, r = (int(i) for i in np.argwhere(scores < 0)[0])
    reference = f'{{file = "{real(file)}", array = "scores", transpose = true%s}}'
    share = f"type_share = {[1] * 118}\n"
    check = check_instance(write_instance(f"{share}match_reward = {reference % ''}"), 0.5)
    (problem,) = check.problems
    assert problem.field == "match_reward"
    assert f"type {v}, server {r} is negative (2380 negative in all)" in problem.value
    assert "`allowed`" in problem.remedy
    # cleaning the conflicts on purpose leaves the others, which are refused as well
    text = f"{share}match_reward = {reference % ', forbid = -1'}"
    (problem,) = check_instance(write_instance(text), 0.5).problems
    assert "(1918 negative in all)" in problem.value


def test_other_spellings_of_a_name_in_a_conflict_list_are_listed(write_instance: Write) -> None:
    """openreview/openreview#301: the own paper, since the conflict was under another address."""
    path = write_instance(
        'match_reward = {file = "s.csv"}\nallowed = {file = "conflicts.csv"}',
        s_csv="task,r1,r2\np1,1,2\np2,3,4\n",
        conflicts_csv="p1,r1 ,-1\np1,R1,-1\np1,r99,-1\np1,r2,-1\n",
    )
    (problem,) = check_instance(path).problems
    assert "'r1 ' (line 1 of conflicts.csv)" in problem.value
    assert "'R1' (line 2 of conflicts.csv)" in problem.value
    assert "'r99' (line 3 of conflicts.csv)" in problem.value
    assert "'r2'" not in problem.value
    assert problem.remedy == "'r1 ' may mean 'r1'; 'R1' may mean 'r1'"


def test_a_missing_column_is_named_with_the_columns_found(write_instance: Write) -> None:
    """openreview/openreview#302: the user saw only 'emails', the key of an inner lookup."""
    for reference in ('{file = "s.csv"}', '{file = "s.csv", server = "server"}'):
        path = write_instance(f"match_reward = {reference}", s_csv="task,score\na,1\nb,2\n")
        with pytest.raises(InputError) as caught:
            load_instance(path)
        told = str(caught.value)
        assert "s.csv has no column 'server' (columns found: 'task', 'score')" in told


@pytest.mark.parametrize(("V", "R", "k"), [(1, 1, 1), (50, 2, 2), (1, 400, 3)])
def test_types_and_servers_in_any_proportion(V: int, R: int, k: int) -> None:
    """google/or-tools#2597: three workers, four tasks: infeasible, as it wanted a square."""
    one = build(np.ones((V, R)), servers_per_task=k, duration=Deterministic(50))
    assert (one.n_types, one.n_servers, one.one_k) == (V, R, k)
    assert one.with_load(0.3).load == pytest.approx(0.3)


def test_single_precision_sums_to_one_within_a_tolerance() -> None:
    """numpy/numpy#6123: single-precision probabilities missed one by more than the tolerance."""
    third = np.full(3, 1 / 3, dtype=np.float32)
    assert float(third.astype(np.float64).sum()) > 1.0
    one = build(np.ones((3, 2)), arrival_rate=third)
    assert one.arrival_rate.sum() == pytest.approx(1.0, abs=1e-15)
    histogram = Empirical(np.array([1, 2, 3]), third)
    assert histogram.weight.sum() == pytest.approx(1.0, abs=1e-15)
    text = told(reward=np.ones((3, 2)), arrival_rate=[0.34, 0.34, 0.34])
    assert "sums to 1.02 per step" in text


def test_nan_never_passes_a_bound() -> None:
    """numpy/numpy#12545: NaN probabilities slipped through and gave a fixed choice."""
    assert "arrival_rate[1]: nan" in told(reward=np.ones((2, 2)), arrival_rate=[0.1, np.nan])
    with pytest.raises(InputError, match=r"duration\.weight\[0\]: nan"):
        Empirical(np.array([1, 2]), np.array([np.nan, 1.0]))
    with pytest.raises(InputError, match="load: nan"):
        build(np.ones((2, 2))).with_load(np.nan)


def test_zero_is_honored_as_zero(write_instance: Write) -> None:
    """BerriAI/litellm#12108: a cool-down of 0 seconds was falsy and became the default."""
    assert stream_key(0, 0) == (0, 0)
    assert stream_key(0, 0) != stream_key(1, 0)
    assert Run(steps=1, warm_up=0, seed=0).warm_up == 0
    one = build([[0, 0], [0, 0]], arrival_rate=[0, 0.1])
    assert not one.match_reward.any()
    assert one.arrival_rate[0] == 0
    path = write_instance(
        'match_reward = {file = "s.npz", index = 0, scale = 0}\narrival_rate = [0, 0.1]',
        s_npz={"S": np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])},
    )
    assert load_instance(path).match_reward.tolist() == [[0, 0], [0, 0]]
    path = write_instance(
        'match_reward = {file = "s.csv", task = 1, server = 0, value = 2, missing = 0}',
        s_csv="r1,a,5\nr1,b,6\nr2,b,7\n",
    )
    assert load_instance(path).match_reward.tolist() == [[5, 0], [6, 7]]
    with pytest.raises(InputError, match="load: 0;"):
        load_instance(path, 0)


# ------------------------------------------------------------ B. the fully conflicted input


def test_a_fully_conflicted_row_is_named_in_seconds() -> None:
    """openreview/openreview#370: 17 reviewers, 18 papers, and "running" for nine hours."""
    reward = np.random.default_rng(1).random((18, 17))
    reward[2] = 0.0  # an all-zero row is served, it only earns nothing
    assert build(reward).n_types == 18
    allowed = np.ones((18, 17), dtype=bool)
    allowed[4] = False
    text = told(reward=reward, allowed=allowed)
    assert "type 4 (type-5) has no permitted server" in text
    assert text.count("\n") == 0


# ----------------------------------------------------- C. servers per task, time, eligibility


@pytest.mark.parametrize("k", [5, 0, -1, 2.5, np.nan, "3", True, None])
def test_servers_per_task_that_could_never_be_had_are_refused(k: Any) -> None:
    """r-simmer/simmer#36: a request for more units than exist waited for ever."""
    assert "servers_per_task" in told(reward=np.ones((2, 3)), servers_per_task=k)
    assert "servers_per_task" in told(reward=np.ones((2, 3)), servers_per_task=[1, k])


def test_more_servers_per_task_than_there_are_name_both_numbers(write_instance: Write) -> None:
    """r-simmer/simmer#36, from a file."""
    text = str(check_instance(write_instance("servers_per_task = 5")).problems[0])
    assert "servers_per_task: 5; expected at most the number of servers, 3" in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('servers = ["a", "b", {name = "c", count = "inf"}]', "servers[2].count: 'inf'"),
        ('duration = {kind = "deterministic", steps = "3"}', "duration.steps: '3'"),
        ('duration = {kind = "geometric", mean = "3"}', "duration.mean: '3'"),
        ('duration = "3"', "duration: '3'"),
        ('arrival_rate = "0,1"', "arrival_rate: '0,1'"),
        ('arrival_rate = ["0,1", 0.1]', "arrival_rate[0]: '0,1'"),
        ('type_share = ["0,1", 0.1]', "type_share[0]: '0,1'"),
        ('servers_per_task = "inf"', "servers_per_task: 'inf'"),
        ("servers_per_task = inf", "servers_per_task: inf"),
        ('match_reward = [["inf", 1]]', "match_reward[0,0]: 'inf'"),
    ],
)
def test_numbers_given_as_text_are_refused_by_name(
    write_instance: Write, text: str, problem: str
) -> None:
    """CiwPython/Ciw#83: an infinite capacity was a string and failed in arithmetic."""
    told = "\n".join(map(str, check_instance(write_instance(text)).problems))
    assert problem in told


@pytest.mark.parametrize("steps", [0, -3])
def test_a_duration_of_zero_or_less_is_refused(write_instance: Write, steps: int) -> None:
    """mongodb/mongo-python-driver#1758: a measured duration came out below zero."""
    with pytest.raises(InputError, match=rf"duration\.steps: {steps}; .*at least 1"):
        Deterministic(steps)
    text = f'duration = {{kind = "deterministic", steps = {steps}}}'
    (problem,) = check_instance(write_instance(text)).problems
    assert (problem.field, problem.value) == ("duration.steps", str(steps))


@pytest.mark.parametrize(("column", "count"), [("service_s", 10_365), ("vru_s", 752)])
def test_a_real_trace_with_zero_and_negative_durations(
    write_instance: Write, data: Path, column: str, count: int
) -> None:
    """mongodb/mongo-python-driver#1758, on the calls of a bank: hang-ups, zeros, negative ones."""
    file = real(data / "anonymous_bank" / "calls_aug1999.csv")
    text = (
        'task_types = ["IN", "NE", "NW", "PE", "PS", "TT"]\n'
        f"match_reward = {[[1]] * 6}\narrival_rate = {[0.01] * 6}\n"
        f'duration = {{kind = "empirical", file = "{file}", task = "type", steps = "{column}"'
        ", per_step = 30%s}"
    )
    (problem,) = check_instance(write_instance(text % "")).problems
    assert f"{count} zero or negative durations" in problem.value
    assert "in line " in problem.value
    one = load_instance(write_instance(text % ', too_short = "one-step"'))
    assert all(int(duration.steps[0]) == 1 for duration in one.duration)  # type: ignore[union-attr]


def test_too_few_permitted_servers_are_told_per_type() -> None:
    """openreview/openreview-matcher#248: greedy ran out of permitted reviewers and gave up."""
    allowed = [[True, True, False, False], [True] * 4]
    one = build(np.ones((2, 4)), servers_per_task=2, allowed=allowed)
    assert one.has_forbidden_pairs
    run = Run(steps=5000, warm_up=0)
    (trace,) = simulate_plans(one, [Greedy().plan(one)], run)
    assert trace.assigned[0, 2:].tolist() == [0, 0]  # a masked server is never used
    assert 0 < trace.blocked[0] < trace.arrived[0]  # dropped while too few were free
    assert trace.assigned[1].sum() > 0  # and the next tasks are not affected
    allowed[0][1] = False
    text = told(reward=np.ones((2, 4)), servers_per_task=2, allowed=allowed)
    assert "type 0 (type-1) has only 1 permitted server" in text
    assert "at least 2" in text


# ------------------------------------------------------------- real files, as they are found


@pytest.mark.parametrize("name", ["aamas2015", "aamas2016", "preflib1", "preflib2", "preflib3"])
def test_real_bids_with_zero_as_conflict(write_instance: Write, data: Path, name: str) -> None:
    """Bids on four levels where 0 is a conflict: the mask is made of it in the instance file."""
    file = data / "aamas_bids" / f"{name}.npz"
    with np.load(file) as arrays:
        bids = arrays["bids_x100"]
    path = write_instance(
        f'match_reward = {{file = "{real(file)}", scale = 0.01}}\n'
        f'allowed = {{file = "{real(file)}", array = "bids_x100", forbid = 0}}\n'
        f"type_share = {[1] * len(bids)}\nservers_per_task = 3"
    )
    one = load_instance(path, 0.05)
    assert np.array_equal(one.allowed, bids != 0)
    assert np.array_equal(one.match_reward, bids * 0.01)


def test_real_samples_by_index(write_instance: Write, data: Path) -> None:
    """A cube of samples, one picked by index."""
    file = data / "iclr2018" / "sub_10x30.npz"
    with np.load(file) as arrays:
        want = arrays["S"][7]
    share = f"type_share = {[1] * 10}\n"
    reference = f'{share}match_reward = {{file = "{real(file)}"%s}}'
    one = load_instance(write_instance(reference % ", index = 7, normalize = true"), 0.1)
    assert np.array_equal(one.match_reward, want / want.max())
    (problem,) = check_instance(write_instance(reference % ""), 0.1).problems
    assert "index = 0 to 9" in problem.remedy


def test_a_real_csv_by_rows_and_columns(write_instance: Write, data: Path) -> None:
    """Its first column holds row numbers: neither read as scores nor guessed to be names."""
    file = data / "tmlr" / "similarity_10x60.csv"
    reference = f'match_reward = {{file = "{real(file)}"%s}}\n'
    (problem,) = check_instance(
        write_instance(reference % "" + f"type_share = {[1] * 10}"), 0.5
    ).problems
    assert 'write task = "paper_row"' in problem.remedy
    keys = ', task = "paper_row", rows = ["160", "0"], columns = [59, 0, 1]'
    one = load_instance(write_instance(reference % keys))
    assert one.task_types == ("160", "0")
    assert one.servers == ("R59", "R00", "R01")
    assert one.match_reward[1, 1:].tolist() == [0.092273, 0.103816]


def test_real_histograms_per_type(write_instance: Write, data: Path) -> None:
    """Shares and durations of the bank by name, in the order of the instance, not of the file."""
    folder = real(data / "anonymous_bank")
    durations = (
        f'duration = {{kind = "empirical", file = "{folder}/service_pmf_30s_cap60.csv", '
        'steps = "duration_30s", weight = "probability"%s}'
    )
    text = (
        'task_types = ["TT", "PS", "PE", "NW", "NE", "IN"]\n'
        f"match_reward = {[[1] * 31] * 6}\n"
        f'type_share = {{file = "{folder}/types.csv", task = "type", value = "calls"}}\n'
    )
    one = load_instance(write_instance(text + durations % ', task = "type"'), 0.1)
    want = [4.45, 6.1824, 10.3238, 4.3921, 8.4389, 10.454]
    assert one.mean_duration == pytest.approx(want, rel=1e-4)
    assert one.arrival_rate[1] / one.arrival_rate[0] == pytest.approx(27078 / 707, rel=1e-12)
    (problem,) = check_instance(write_instance(text + durations % ""), 0.1).problems
    assert "duration 1 in lines 2 and 62" in problem.value  # six histograms are not one


def test_real_pairs_in_a_long_table(write_instance: Write, data: Path) -> None:
    """Rows without an agent are no server without a name: refused."""
    file = real(data / "anonymous_bank" / "type_agent_service.csv")
    keys = 'task = "type", server = "agent", value = "count", missing = "forbid"'
    text = f'match_reward = {{file = "{file}", {keys}}}\narrival_rate = {[0.1] * 6}'
    (problem,) = check_instance(write_instance(text)).problems
    assert problem.field == "match_reward"
    assert "no name in " in problem.value
    assert "column 'agent'" in problem.value
