"""Settings: what is refused, all at once, and that zero is a seed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.settings import Settings
from opportune.policies.base import loss_policies_by_id


def test_the_defaults_are_the_documented_ones() -> None:
    """``lag.md`` section 6: 200,000 steps, 5 replications, seed 1."""
    one = Settings()
    assert (one.steps, one.replications, one.seed, one.workers) == (200_000, 5, 1, 1)
    assert (one.backend, one.price_at, one.policies) == ("threads", None, ())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"steps": 0}, "steps: 0; expected a whole number from 1"),
        ({"steps": 2.0}, "steps: 2.0"),
        ({"steps": None}, "steps: None"),
        ({"replications": 0}, "replications: 0"),
        ({"replications": 100_001}, "replications: 100001"),
        ({"replications": True}, "replications: True"),
        ({"seed": -1}, "seed: -1; expected a whole number from 0"),
        ({"seed": 2**64}, f"seed: {2**64}"),
        ({"seed": "1"}, "seed: '1'"),
        ({"workers": 0}, "workers: 0"),
        ({"workers": 1025}, "workers: 1025"),
        ({"backend": "dask"}, "backend: 'dask'"),
        ({"price_at": "zero"}, "price_at: 'zero'; expected blocking"),
        ({"policies": ("lag", "greedy", "lag")}, "policies: lag; expected every policy once"),
        ({"policies": ("nonsense",)}, "policy: 'nonsense'"),
    ],
)
def test_a_wrong_setting_is_named(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        Settings(**changed)
    assert told in str(caught.value)


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Settings(steps=0, replications=0, seed=-1, workers=0, backend="x", price_at="y")
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["steps", "replications", "seed", "workers", "backend", "price_at"]


def test_the_ends_of_the_ranges_are_fine() -> None:
    Settings(steps=1, replications=1, seed=0, workers=1024)
    Settings(steps=10**15, replications=100_000, seed=2**64 - 1, price_at="blocking")
    Settings(steps=np.int64(5), seed=np.uint64(7))  # type: ignore[arg-type]


def test_no_names_mean_the_usual_policies() -> None:
    usual = [one for one, p in loss_policies_by_id().items() if getattr(p, "usual", True)]
    assert Settings().policy_ids == tuple(usual)
    assert {"lag", "greedy", "random"} <= set(usual)
    assert "optimal" not in usual
    assert Settings(policies=("all",)).policy_ids == tuple(loss_policies_by_id())
    assert Settings(policies=("random", "lag")).policy_ids == ("random", "lag")


def test_settings_are_a_value() -> None:
    assert Settings(seed=3) == Settings(seed=3)
    with pytest.raises(FrozenInstanceError):
        Settings().seed = 2  # type: ignore[misc]
