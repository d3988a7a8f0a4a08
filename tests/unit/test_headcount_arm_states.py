"""States of a group of equal servers are counted without being made."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.pricing.bounds import bounds_for
from opportune.pricing.headcount_arms import MANY, _locals, count_locals


@pytest.mark.parametrize("copies", [1, 2, 5, 7])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_counts_are_those_of_all_combinations(copies: int, k: int) -> None:
    ranges = [range(copies + 1)] * k
    wanted = [
        tasks
        for tasks in itertools.product(*ranges)
        if np.dot(tasks, np.arange(1, k + 1)) <= copies
    ]
    assert list(map(tuple, _locals(copies, k).tolist())) == wanted
    assert count_locals(copies, k) == len(wanted)


@pytest.mark.parametrize(("copies", "k"), [(40, 20), (300, 299), (5000, 4999)])
def test_many_equal_servers_for_a_task(copies: int, k: int) -> None:
    """`plan` of 30 equal servers, 10 for a task, went on for ever: all combinations were made."""
    assert count_locals(copies, k) > 10**5
    assert count_locals(5000, 4999) > MANY
    one = loss_instance([[0.5] * 40], [0.01], Geometric(5), 20)
    assert bounds_for(one)
