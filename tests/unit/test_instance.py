"""LossInstance: what is refused and how it is told, rates, loads, digests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.model.checks import number_problem, plain_array
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.loss import LossInstance, loss_instance, loss_problems

REWARD = [[1.0, 2.0, 0.5], [0.0, 3.0, 1.0]]


def build(**changed: Any) -> LossInstance:
    """A good instance with some arguments changed."""
    good: dict[str, Any] = {
        "match_reward": REWARD,
        "arrival_rate": [0.1, 0.2],
        "duration": Geometric(4),
    }
    return loss_instance(**{**good, **changed})


def refused(**changed: Any) -> list[str]:
    """The problems of a changed instance, as text."""
    with pytest.raises(InputError) as caught:
        build(**changed)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_instance_has_defaults_and_read_only_arrays() -> None:
    one = build()
    assert one.task_types == ("type-1", "type-2")
    assert one.servers == ("server-1", "server-2", "server-3")
    assert one.one_k == 1
    assert not one.has_forbidden_pairs
    assert one.load == pytest.approx((0.1 + 0.2) * 4 / 3)
    assert one.memoryless_mean == 4.0
    with pytest.raises(ValueError, match="read-only"):
        one.match_reward[0, 0] = 5.0


@pytest.mark.parametrize(
    ("reward", "told"),
    [
        (5.0, "shape ()"),
        ([1.0, 2.0], "shape (2,)"),
        ([], "shape (0,)"),
        ([[]], "shape (1, 0)"),
        (np.zeros((2, 2, 2)), "shape (2, 2, 2)"),
        ([[1, 2], [3]], "rows of 1 and of 2 numbers"),
        ([[1, "inf"]], "match_reward[0,1]: 'inf'"),
        ([[1, None]], "match_reward[0,1]: None"),
        ([[1, True]], "match_reward[0,1]: True"),
        (np.array([[True, False]]), "match_reward[0,0]: True"),
        ([[1, 2j]], "match_reward[0,1]: 2j"),
        (np.array([[1, None]], dtype=object), "match_reward[0,1]: None"),
        ({"a": 1}, "match_reward: {'a': 1}"),
        ("scores", "match_reward: 'scores'"),
    ],
)
def test_a_reward_that_is_no_matrix_of_numbers(reward: Any, told: str) -> None:
    (problem,) = refused(match_reward=reward)
    assert told in problem


def test_a_matrix_built_directly_is_checked_as_well() -> None:
    """Ragged rows do not escape as NumPy's own error."""
    with pytest.raises(InputError, match="rows of 1 and of 2"):
        LossInstance(
            arrival_rate=[0.1],  # type: ignore[arg-type]
            match_reward=[[1, 2], [3]],  # type: ignore[arg-type]
            allowed=[[True]],  # type: ignore[arg-type]
            duration=(Geometric(2),),
            servers_per_task=[1],  # type: ignore[arg-type]
            task_types=("a",),
            servers=("r",),
        )


def test_arrays_of_other_kinds_are_the_same_instance() -> None:
    want = build()
    assert build(match_reward=np.array(REWARD, dtype=np.float32)) == want
    assert build(match_reward=np.array(REWARD, dtype=object)) == want
    assert build(match_reward=np.array(REWARD, dtype=np.longdouble)) == want
    assert build(match_reward=[np.array(row) for row in REWARD]) == want
    assert build(servers_per_task=np.int8(1)) == want
    assert build(servers_per_task=[1.0, 1.0]) == want
    assert build(allowed=[[1, 1, 1], [1, 1, 1]]) == want
    assert build(duration=[Geometric(4.0), Geometric(np.float64(4))]) == want
    transposed = build(match_reward=np.array(REWARD, order="F"), allowed=np.ones((2, 3), order="F"))
    assert transposed == want
    assert transposed.match_reward.flags.c_contiguous  # what kernels are compiled for
    assert transposed.allowed.flags.c_contiguous
    assert build(match_reward=-np.array(REWARD) * -1.0) == want  # -0.0 where 0.0 was


def test_a_masked_reward_is_missing() -> None:
    masked = np.ma.masked_array(REWARD, mask=[[False] * 3, [False, True, False]])
    assert "missing (NaN) at type 1, server 1 (1 missing in all)" in refused(match_reward=masked)[0]


@pytest.mark.parametrize("mask", [np.bool_, np.int64, np.float64])
def test_a_forbidden_score_is_never_read(mask: type) -> None:
    allowed = np.array([[1, 0, 1], [1, 1, 1]], dtype=mask)
    one = build(match_reward=[[1, np.nan, 0.5], [0, 3, 1]], allowed=allowed)
    assert one.match_reward[0, 1] == 0.0
    assert one == build(match_reward=[[1, -np.inf, 0.5], [0, 3, 1]], allowed=allowed)
    assert one.has_forbidden_pairs


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        ([[True, True], [True, True]], "allowed: shape (2, 2); expected the shape of match_reward"),
        ([[1, 2, 1], [1, 1, 1]], "entries such as 2"),
        ([[1, math.nan, 1], [1, 1, 1]], "entries such as nan"),
        ([[-1, 0, 1], [1, 1, 1]], "constraints file"),
        ([["true", True, True], [True, True, True]], "entries such as 'true'"),
        ([[True, True, True], [True]], "allowed: shape (2,)"),
    ],
)
def test_allowed_is_true_or_false(allowed: Any, told: str) -> None:
    assert told in refused(allowed=allowed)[0]


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        ([0.1, math.nan], "arrival_rate[1]: nan"),
        ([0.1, -0.1], "arrival_rate[1]: -0.1"),
        ([0.1, 1.5], "arrival_rate[1]: 1.5; expected a probability per step"),
        ([0.6, 0.6], "sums to 1.2 per step"),
        ([0.6, 0.6], "Shorten the step by a factor of 1.2"),
        ([0.1], "1 rates; expected one per row of match_reward, 2"),
        (0.1, "shape ()"),
        ([["0,1", 0.1]], "arrival_rate[0,0]: '0,1'"),
        ("0,1", "arrival_rate: '0,1'"),
    ],
)
def test_rates_are_probabilities_for_each_type(rate: Any, told: str) -> None:
    assert told in refused(arrival_rate=rate)[0]


def test_rates_that_sum_to_a_little_more_than_one_are_divided() -> None:
    one = build(arrival_rate=np.array([0.5, 0.5000005]))
    assert one.arrival_rate.sum() == pytest.approx(1.0, abs=1e-15)
    assert build(arrival_rate=one.arrival_rate) == one


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda rates: sum(rates) > 0))
def test_dividing_the_rates_once_is_enough(rates: list[float]) -> None:
    """Built of its own arrays, an instance is the same to the last bit."""
    rate = np.array(rates) / sum(rates)
    once = loss_instance(np.ones((len(rate), 1)), rate, Geometric(2))
    again = loss_instance(once.match_reward, once.arrival_rate, Geometric(2))
    assert again.arrival_rate.tobytes() == once.arrival_rate.tobytes()


@pytest.mark.parametrize(
    ("duration", "told"),
    [
        ("3", "duration: '3'; expected Deterministic, Geometric or Empirical"),
        (3, "duration: 3"),
        (None, "duration: None"),
        ([Geometric(2), 5], "duration[1]: 5"),
        ([Geometric(2)] * 3, "duration: 3 given; expected one per task type, 2"),
        ([], "duration: 0 given"),
    ],
)
def test_durations_are_one_or_one_per_type(duration: Any, told: str) -> None:
    assert told in refused(duration=duration)[0]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], "task_types: 1 names; expected 2"),
        ([], "task_types: 0 names"),
        ("ab", "task_types: 'ab'; expected a list of 2 names"),
        (["a", 1], "task_types[1]: 1; expected text"),
        (["a", "a"], "task_types: a; expected every name once"),
        (["a", "a "], "task_types[1]: 'a '"),
        (["a", ""], "task_types[1]: ''"),
        (["a", "b\nc"], "task_types[1]: 'b\\nc'; expected printable characters"),
        (5, "task_types: 5"),
    ],
)
def test_names_are_distinct_text_without_blanks_around(names: Any, told: str) -> None:
    assert told in refused(task_types=names)[0]


def test_names_of_any_language_are_fine() -> None:
    assert build(servers=["Zoë", "太郎", "r 1"]).servers == ("Zoë", "太郎", "r 1")


def test_all_problems_are_told_at_once() -> None:
    problems = refused(
        match_reward=[[1, -1], [2, 3]],
        arrival_rate=[0.7, 0.7],
        duration=[Geometric(2), "3"],
        servers_per_task=3,
        task_types=["a", "a"],
        servers=["x"],
    )
    fields = {problem.split(":")[0] for problem in problems}
    assert fields == {
        "match_reward",
        "arrival_rate",
        "duration[1]",
        "servers_per_task",
        "task_types",
        "servers",
    }


def test_what_is_not_known_yet_is_not_checked() -> None:
    assert loss_problems({}) == []
    (problem,) = loss_problems({"arrival_rate": [2.0]})
    assert problem.field == "arrival_rate[0]"


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InputError, match="options: mask"):
        build(mask=[[True]])


@pytest.mark.parametrize("load", [0, -1, math.nan, math.inf, "0.7", True, None])
def test_a_load_is_a_number_above_zero(load: Any) -> None:
    with pytest.raises(InputError, match=r"load: .*a number above 0"):
        build().with_load(load)


def test_with_load_multiplies_all_rates_by_one_factor() -> None:
    one = build(servers_per_task=[1, 2], duration=[Deterministic(2), Geometric(5)])
    scaled = one.with_load(0.6)
    assert scaled.load == pytest.approx(0.6, rel=1e-15)
    ratio = scaled.arrival_rate / one.arrival_rate
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-15)


def test_a_load_that_needs_more_than_one_arrival_a_step_is_refused() -> None:
    with pytest.raises(InputError, match=r"load: 2 needs 1\.5 arrivals .*by a factor of 1\.5"):
        build().with_load(2)
    with pytest.raises(InputError, match="all zero"):
        build(arrival_rate=[0, 0]).with_load(0.5)


def test_the_digest_sees_every_part() -> None:
    one = build()
    changed = [
        build(match_reward=[[1.0, 2.0, 0.5], [0.0, 3.0, 1.0000001]]),
        build(arrival_rate=[0.1, 0.20000001]),
        build(duration=Geometric(4.0000001)),
        build(duration=Deterministic(4)),
        build(duration=Empirical(np.array([4]), np.array([1.0]))),
        build(servers_per_task=2),
        build(allowed=[[True, True, True], [False, True, True]]),
        build(task_types=["a", "b"]),
        build(servers=["a", "b", "c"]),
    ]
    assert len({one.digest, *(other.digest for other in changed)}) == 10
    assert build(name="another") == one
    assert hash(build(name="another")) == hash(one)


def test_equal_histograms_in_other_places_are_other_instances() -> None:
    """The digest keeps apart where one histogram ends and the next begins."""
    short, long = Empirical(np.array([1]), np.array([1.0])), Geometric(1)
    assert build(duration=[short, long]) != build(duration=[long, short])


def test_plain_array_never_raises() -> None:
    odd: list[Any] = [
        None,
        object(),
        [[1], [2, 3]],
        [np.zeros(2), np.zeros((2, 2))],
        {1: 2},
        10**400,
    ]
    for values in odd:
        plain_array(values)
        assert number_problem("x", values) is None or number_problem("x", values).field  # type: ignore[union-attr]
    assert number_problem("x", [10**400]) is not None
