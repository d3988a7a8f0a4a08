"""The demand of a program: blocking, one or by type, or at most."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.pricing.demand import AT_MOST, FULL, Demand

INSTANCE = loss_instance(np.ones((3, 4)), [0.1, 0.1, 0.1], Geometric(2), [1, 2, 3])


@pytest.mark.parametrize("blocking", [-0.1, 1.1, float("nan"), (0.1, -0.2), (0.1, float("nan"))])
def test_blocking_is_a_probability(blocking: float | tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"blocking: .*a probability from 0 to 1"):
        Demand(blocking)


def test_blocking_zero_and_one_are_probabilities() -> None:
    assert Demand(0.0) == FULL
    assert Demand(1.0).servers_per_arrival(INSTANCE).tolist() == [0.0, 0.0, 0.0]


def test_servers_that_an_arrival_takes_on_average() -> None:
    assert FULL.servers_per_arrival(INSTANCE).tolist() == [1.0, 2.0, 3.0]
    assert AT_MOST.servers_per_arrival(INSTANCE).tolist() == [1.0, 2.0, 3.0]
    assert Demand(0.25).servers_per_arrival(INSTANCE).tolist() == [0.75, 1.5, 2.25]
    by_type = Demand((0.0, 0.5, 1.0))
    assert by_type.by_type(INSTANCE).tolist() == [0.0, 0.5, 1.0]
    assert by_type.servers_per_arrival(INSTANCE).tolist() == [1.0, 1.0, 0.0]


def test_what_it_is_called() -> None:
    assert [FULL.name, Demand(0.3).name, AT_MOST.name] == ["occ-lp", "occ-lp", "occ-lp-at-most"]


def test_it_is_a_value() -> None:
    assert Demand((0.1, 0.2)) == Demand((0.1, 0.2)) != Demand(0.1)
    with pytest.raises(FrozenInstanceError):
        FULL.blocking = 0.1  # type: ignore[misc]
