"""The last feasible load and just above it, with forbidden pairs, several k, very rare types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import OverloadError
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing.feasibility import max_load
from opportune.pricing.occupancy import price
from tests.instances import Shape, random_instance


@pytest.mark.parametrize(
    "shape",
    [Shape(forbidden=True), Shape(forbidden=True, per_type=True), Shape(per_type=True)],
    ids=["forbidden", "forbidden, several k", "several k"],
)
def test_the_gap_at_the_limit(shape: Shape) -> None:
    rng = np.random.default_rng(5)
    tried = 0
    while tried < 12:
        made = random_instance(rng, shape)
        limit = max_load(made)
        factor = limit / made.load
        if not limit > 0.02 or not made.arrival_rate.sum() * factor < 1.0:
            continue
        tried += 1
        found = price(made.with_load(limit))
        assert found.gap <= 2e-7
        assert found.residuals.worst <= 2e-6
        with pytest.raises(OverloadError):
            price(made.with_load(limit * (1 + 1e-5)))


def rare(seed: int, shape: tuple[int, int], k: int) -> LossInstance:
    """A third of the types at a rate of about 1e-9 of the others'."""
    rng = np.random.default_rng(seed)
    rate = rng.random(shape[0]) + 0.2
    rate[rng.random(shape[0]) < 0.3] = 1e-9
    allowed = rng.random(shape) < 0.4
    allowed[:, : k + 1] = True
    made = loss_instance(
        rng.random(shape), rate * 1e-4 / rate.sum(), Geometric(6000), k, allowed=allowed
    )
    return made.with_load(max_load(made))


@pytest.mark.parametrize("shape", [(5, 12), (60, 90)], ids=["full LP", "gears"])
@pytest.mark.parametrize("k", [1, 2])
def test_overload_with_rare_types_is_overload(shape: tuple[int, int], k: int) -> None:
    for seed in range(2):
        at = rare(seed, shape, k)
        for above in (1e-6, 1e-3, 0.3):
            with pytest.raises(OverloadError, match=r"needs|limit|above"):
                price(replace(at, arrival_rate=at.arrival_rate * (1 + above)))
        assert price(at.with_load(at.load * 0.9)).gap <= 1e-9
