"""What is written is read back as the same instance, to the last bit."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from opportune.errors import InputError
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.files import load_instance
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.saving import INLINE_CELLS, save_instance

NAMES = st.text(min_size=1, max_size=8).filter(lambda t: t == t.strip() and t.isprintable())


@st.composite
def durations(draw: st.DrawFn) -> Duration:
    """Any duration."""
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return Deterministic(draw(st.integers(1, 2**40)))
    if kind == 1:
        return Geometric(draw(st.floats(1, 1e6)))
    steps = draw(st.lists(st.integers(1, 2**40), min_size=1, max_size=40, unique=True))
    weight = draw(arrays(np.float64, len(steps), elements=st.floats(1e-300, 1e300)))
    return Empirical(np.array(steps), weight)


@st.composite
def instances(draw: st.DrawFn) -> LossInstance:
    """Any small instance."""
    n_types, n_servers = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    shape = (n_types, n_servers)
    allowed = draw(arrays(np.bool_, shape))
    allowed[:, 0] = True
    rates = draw(arrays(np.float64, n_types, elements=st.floats(0, 1)))
    options: dict[str, Any] = {"allowed": allowed, "name": draw(NAMES)}
    if draw(st.booleans()):
        options["task_types"] = draw(
            st.lists(NAMES, min_size=n_types, max_size=n_types, unique=True)
        )
        options["servers"] = draw(
            st.lists(NAMES, min_size=n_servers, max_size=n_servers, unique=True)
        )
    return loss_instance(
        draw(arrays(np.float64, shape, elements=st.floats(0, 1e100))),
        rates / max(1.0, rates.sum() * (1 + 1e-12)),
        draw(st.lists(durations(), min_size=n_types, max_size=n_types)),
        [draw(st.integers(1, int(row.sum()))) for row in allowed],
        **options,
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(instance=instances())
def test_any_instance_survives_a_round_trip(instance: LossInstance, tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    save_instance(instance, path)
    again = load_instance(path)
    assert again.digest == instance.digest
    assert (again.name, again.task_types, again.servers) == (
        instance.name,
        instance.task_types,
        instance.servers,
    )
    assert not (tmp_path / "one.npz").exists()


@pytest.mark.parametrize("stem", ["big", "~odd name", "Zoë"])
def test_a_big_matrix_goes_to_an_npz_file_beside_it(tmp_path: Path, stem: str) -> None:
    shape = (INLINE_CELLS // 20, 21)
    random = np.random.default_rng(1)
    one = loss_instance(
        random.random(shape),
        np.full(shape[0], 0.01),
        Geometric(3),
        2,
        allowed=random.random(shape) < 0.8,
    )
    path = tmp_path / f"{stem}.toml"
    save_instance(one, path)
    assert load_instance(path) == one
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{stem}.npz", f"{stem}.toml"]
    first = (tmp_path / f"{stem}.npz").read_bytes()
    save_instance(load_instance(path), path)
    assert (tmp_path / f"{stem}.npz").read_bytes() == first


def test_durations_that_are_all_equal_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    save_instance(loss_instance(np.ones((3, 2)), [0.1] * 3, Geometric(3)), path)
    assert tomllib.loads(path.read_text(encoding="utf-8"))["duration"] == {
        "kind": "geometric",
        "mean": 3.0,
    }


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    one = loss_instance([[1.0]], [0.1], Geometric(3))
    with pytest.raises(InputError, match=r"path ending in \.toml"):
        save_instance(one, tmp_path / "one.json")
    (tmp_path / "nowhere").write_text("a file, no folder")
    with pytest.raises(InputError, match="a place that can be written"):
        save_instance(one, tmp_path / "nowhere" / "one.toml")
