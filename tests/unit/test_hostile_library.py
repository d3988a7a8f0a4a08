"""The library handed what is none of its things: told by field and value, and no memory lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opportune
from opportune.cli import run
from opportune.errors import InputError
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.policies.slots import slot_owner, with_slots

SCORES = [[0.9, 0.7, 0.1], [0.2, 0.8, 0.5]]


@pytest.mark.parametrize("capacity", [10**9, [10**6, 1, 1]])
def test_a_router_of_too_many_slots(capacity: Any) -> None:
    """It took memory until the machine ended the process."""
    with pytest.raises(InputError, match=r"capacity: \d+ slots; expected at most 1000000 slots"):
        opportune.Router(SCORES, capacity=capacity)


@pytest.mark.parametrize("policy", [3, b"lag"])
def test_a_policy_that_is_no_name(policy: Any) -> None:
    with pytest.raises(InputError, match=r"policy: .*expected one of"):
        opportune.Router(SCORES, policy=policy)


def test_slots_are_numbered_by_server() -> None:
    one = loss_instance(SCORES, [0.1, 0.1], Geometric(3), servers=("a", "b", "c"))
    owner = slot_owner([2, 1, 3])
    assert with_slots(one, owner).servers == ("a/1", "a/2", "b/1", "c/1", "c/2", "c/3")
    assert np.array_equal(owner, [0, 0, 1, 2, 2, 2])


@pytest.mark.parametrize("instance", ["priority-v1", SCORES, None, np.ones((2, 2))])
def test_what_is_no_instance(instance: Any) -> None:
    """`compare("priority-v1")` said that a text has no arrival rate."""
    settings = opportune.Settings(steps=100, replications=1)
    with pytest.raises(InputError, match=r"instance: a .*; expected an instance"):
        opportune.compare(instance, settings)
    with pytest.raises(InputError, match="Load it: load_instance"):
        opportune.price(instance)


def test_a_folder_to_keep_runs_in_may_be_text(tmp_path: Path) -> None:
    settings = opportune.Settings(
        steps=100,
        replications=2,
        policies=("lag",),
        keep=str(tmp_path / "kept"),  # type: ignore[arg-type]
    )
    opportune.compare(loss_instance(SCORES, [0.1, 0.1], Geometric(3)), settings)
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_seed_that_is_not_used_is_checked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.toml"
    opportune.save_instance(loss_instance(SCORES, [0.1, 0.1], Geometric(3)), path)
    assert run(["plan", str(path), "--seed", "-1"]) == 1
    assert "error: seed: -1; expected a whole number from 0" in capsys.readouterr().err
