"""The function behind ``opportune scale``: rows, intervals, workers, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.errors import InputError, OverloadError
from opportune.experiments import scale as scaling
from opportune.experiments.scale import ScaleSettings, Scaling, scale
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import loss_instance
from tests.instances import Shape, random_instance


def table(result: Scaling) -> NDArray[np.float64]:
    return np.array(
        [[row.n, row.m, row.percent_of_bound, row.half_width, row.blocking] for row in result.rows]
    )


def test_scale_comes_closer_to_the_bound() -> None:
    """Specialist at .8: an independent run had 92.5, 95.1, 97.0, 98.2, 98.7 (lag.md section 5)."""
    instance = catalog_instance("specialist-v1", 0.8)
    told: list[tuple[float, str]] = []
    settings = ScaleSettings(n=(1, 4, 16, 64, 256), replications=10, workers=2)
    result = scale(instance, settings, lambda share, text: told.append((share, text)))
    rows = table(result)
    assert rows[:, 1].tolist() == [1, 2, 4, 8, 16]
    assert [row.steps for row in result.rows] == [100_000, 50_000, 25_000, 12_500, 6250]
    assert rows[:, 2] == pytest.approx([92.5, 95.1, 97.0, 98.2, 98.7], abs=0.8)
    assert np.all((rows[:, 3] > 0) & (rows[:, 3] < 1.5))
    assert np.all(np.diff(rows[:, 4]) < 0)
    assert rows[0, 4] == pytest.approx(0.1330, abs=0.003)
    assert told[-1][0] == 1.0
    assert len(told) == 50
    assert told[0][1] == "n = 1, m = 1"


def test_the_same_bits_for_any_number_of_workers() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    settings = ScaleSettings(n=(1, 16, 100), steps=800, replications=3, seed=7)
    one = table(scale(instance, settings))
    assert np.array_equal(one, table(scale(instance, replace(settings, workers=2))))
    assert not np.array_equal(one, table(scale(instance, replace(settings, seed=8))))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_ends_the_runs(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []
    run_scaled = scaling.run_scaled

    def counted(*words: Any) -> Any:
        began.append(words)
        return run_scaled(*words)

    monkeypatch.setattr(scaling, "run_scaled", counted)

    def interrupt(share: float, text: str) -> None:
        raise KeyboardInterrupt

    settings = ScaleSettings(n=(1,) * 50, steps=100_000, workers=workers)
    with pytest.raises(KeyboardInterrupt):
        scale(catalog_instance("lowrank-v1", 0.7), settings, interrupt)
    assert 0 < len(began) < 50


def test_one_replication_has_an_interval_from_batches() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    (row,) = scale(instance, ScaleSettings(n=(16,), steps=4000, replications=1)).rows
    assert 0.05 < row.half_width < 5.0
    assert row.percent_of_bound == pytest.approx(100 * row.reward / row.bound)


@pytest.mark.parametrize("kind", ["forbidden", "per_type"])
def test_forbidden_pairs_and_k_per_type_are_scaled_too(kind: str) -> None:
    rng = np.random.default_rng(4)
    shape = Shape(forbidden=kind == "forbidden", per_type=kind == "per_type", servers=6)
    instance = random_instance(rng, shape, load=0.8)
    (small, large) = scale(instance, ScaleSettings(n=(1, 400), steps=3000, start="empty")).rows
    assert 0.0 < small.percent_of_bound <= 100 + 2 * small.half_width
    assert 90.0 < large.percent_of_bound <= 100 + 2 * large.half_width
    assert large.blocking < small.blocking


def test_overload_has_no_fluid_limit() -> None:
    with pytest.raises(OverloadError, match=r"above 1 - k/R = 0\.8"):
        scale(catalog_instance("specialist-v1", 0.9), ScaleSettings(n=(1,)))


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"n": ()}, ["n"]),
        ({"n": (4, 16), "m": (2,)}, ["m"]),
        ({"start": "full", "replications": 0}, ["replications", "start"]),
        ({"n": (0,)}, ["n"]),
        ({"n": (4,), "m": (0,)}, ["m"]),
        ({"steps": 0}, ["steps"]),
        ({"seed": -1, "workers": 1.5}, ["seed", "workers"]),
    ],
)
def test_bad_settings_are_refused(options: dict[str, object], fields: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        ScaleSettings(**options)  # type: ignore[arg-type]
    assert [problem.field for problem in caught.value.problems] == fields


def test_durations_without_end_are_refused() -> None:
    instance = loss_instance([[1.0] * 3], [1e-9], Geometric(1e9))
    with pytest.raises(InputError, match="Lengthen the step"):
        scale(instance, ScaleSettings(n=(1,), replications=1))


def test_without_arrivals_all_numbers_are_zero() -> None:
    instance = loss_instance([[1.0, 0.5]], [0.0], Deterministic(3))
    (row,) = scale(instance, ScaleSettings(n=(4,), replications=2)).rows
    assert (row.percent_of_bound, row.half_width, row.blocking) == (0.0, 0.0, 0.0)


def test_the_papers_scales_are_the_default() -> None:
    assert ScaleSettings().n == (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
    assert ScaleSettings().replications == 3
