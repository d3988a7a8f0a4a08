"""Durations: what is accepted, means, tails, and that dividing once is enough."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.model.duration import Deterministic, Empirical, Geometric, memoryless_mean
from opportune.model.files import load_instance

NOT_STEPS: list[Any] = [0, -3, 2.5, "3", math.nan, math.inf, True, None, 2**41, [3]]
NOT_MEANS: list[Any] = [0, 0.5, -1.0, "10", math.nan, math.inf, True, None, 3 + 0j]


@pytest.mark.parametrize("steps", NOT_STEPS)
def test_deterministic_takes_whole_steps_only(steps: Any) -> None:
    with pytest.raises(InputError, match=r"duration\.steps: .*at least 1"):
        Deterministic(steps)


@pytest.mark.parametrize("mean", NOT_MEANS)
def test_geometric_takes_a_mean_of_at_least_one(mean: Any) -> None:
    with pytest.raises(InputError, match=r"duration\.mean: .*at least 1"):
        Geometric(mean)


def test_numbers_of_numpy_are_the_same_durations() -> None:
    assert repr(Deterministic(np.int64(3))) == repr(Deterministic(3))
    assert repr(Geometric(np.float32(10))) == repr(Geometric(10)) == "Geometric(mean=10.0)"


@pytest.mark.parametrize(
    ("steps", "weight", "told"),
    [
        ([1, 0], [1, 1], r"duration\.steps\[1\]: 0.*1 of 2 entries"),
        ([1, -2], [1, 1], r"duration\.steps\[1\]: -2"),
        ([1, 2.5], [1, 1], r"duration\.steps\[1\]: 2\.5"),
        ([1, math.nan], [1, 1], r"duration\.steps\[1\]: nan"),
        ([1, math.inf], [1, 1], r"duration\.steps\[1\]: inf"),
        ([1, "2"], [1, 1], r"duration\.steps\[1\]: '2'"),
        ([1, 2], [1, math.nan], r"duration\.weight\[1\]: nan"),
        ([1, 2], [1, -1], r"duration\.weight\[1\]: -1"),
        ([1, 2], [math.inf, 1], r"duration\.weight\[0\]: inf"),
        ([1, 2], [0, 0], r"duration\.weight: all zero"),
        ([1, 2], [1], r"two lists of one length"),
        ([], [], r"two lists of one length"),
        (3, 1, r"two lists of one length"),
        ([[1], [2, 3]], [1, 1], r"duration\.steps: rows of 1 and of 2"),
        ([1, 2], ["0,5", 1], r"duration\.weight\[0\]: '0,5'"),
        ([True, 2], [1, 1], r"duration\.steps\[0\]: True"),
    ],
)
def test_a_histogram_is_refused_with_the_entry(steps: Any, weight: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Empirical(steps, weight)


def test_a_masked_weight_is_missing_not_its_hidden_value() -> None:
    weight = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(InputError, match=r"weight\[1\]: nan"):
        Empirical([1, 2], weight)  # type: ignore[arg-type]


def test_a_histogram_is_sorted_joined_and_divided() -> None:
    one = Empirical([5, 2, 5, 9], [1, 2, 1, 0])  # type: ignore[arg-type]
    assert one.steps.tolist() == [2, 5]
    assert one.weight.tolist() == [0.5, 0.5]
    assert one.mean == 3.5
    assert one == Empirical(np.array([2, 5]), np.array([0.5, 0.5], dtype=np.float32))
    assert hash(one) == hash(Empirical(one.steps, one.weight))
    assert not one.weight.flags.writeable


def test_huge_counts_do_not_overflow() -> None:
    one = Empirical([1, 2, 2], [1e308, 1e308, 1e308])  # type: ignore[arg-type]
    assert one.weight.tolist() == pytest.approx([1 / 3, 2 / 3], rel=1e-15)


@given(
    st.lists(
        st.floats(min_value=0, max_value=1e308, allow_subnormal=True), min_size=1, max_size=40
    ).filter(lambda weight: max(weight) > 0)
)
def test_dividing_the_weights_once_is_enough(weight: list[float]) -> None:
    """Written to a file and read again, a histogram is the same to the last bit."""
    once = Empirical(np.arange(1, len(weight) + 1), np.array(weight))
    twice = Empirical(once.steps, once.weight)
    assert once.weight.tobytes() == twice.weight.tobytes()
    assert once.mean == twice.mean
    assert math.fsum(once.weight) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    "duration",
    [Deterministic(3), Geometric(4), Geometric(1), Empirical(np.array([1, 4]), np.array([1, 3]))],
)
def test_the_mean_is_the_sum_of_the_tail(duration: Any) -> None:
    tail = duration.tail(np.arange(1, 500))
    assert tail[0] == 1.0
    assert np.all(np.diff(tail) <= 0)
    assert tail.sum() == pytest.approx(duration.mean, rel=1e-12)
    assert duration.tail(np.array([0, -5])).tolist() == [1.0, 1.0]


def test_memoryless_mean_needs_one_mean() -> None:
    assert memoryless_mean((Geometric(5), Geometric(5))) == 5.0
    assert memoryless_mean((Geometric(5), Geometric(6))) is None
    assert memoryless_mean((Deterministic(1), Geometric(1))) == 1.0
    assert memoryless_mean((Deterministic(2),)) is None


def test_an_inline_histogram_takes_no_keys_of_a_file(tmp_path: Path) -> None:
    """Keys that would be ignored are refused."""
    path = tmp_path / "instance.toml"
    path.write_text(
        "match_reward = [[1.0, 0.5]]\narrival_rate = [0.1]\nservers_per_task = 1\n"
        'duration = {kind = "empirical", steps = [30], weight = [1], per_step = 30}\n'
    )
    with pytest.raises(InputError, match="per_step"):
        load_instance(path)
