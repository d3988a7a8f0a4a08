"""Scores of a fit: shrinkage, intervals, models of contexts, types made of contexts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from opportune.errors import InputError
from opportune.learning.fit.features import Observations, fit_features, scaling_of
from opportune.learning.fit.outcomes import Seen, calibrate, fit_outcomes, held_out
from opportune.learning.fit.score_table import Cells, fit_table, shrink_to
from opportune.learning.fit.task_types import chosen_clusters, clustered

Float = NDArray[np.float64]


def table(
    rng: np.random.Generator, shape: tuple[int, int], own: float, n: int
) -> tuple[Float, Cells]:
    """True means (server + type effect + ``own`` for each pair) and n Bernoulli outcomes."""
    effects = 0.6 + rng.normal(0, 0.12, (shape[0], 1)) + rng.normal(0, 0.12, (1, shape[1]))
    truth = np.clip(effects + rng.normal(0, own, shape), 0.02, 0.98)
    cell = rng.integers(0, truth.size, n)
    outcome = (rng.random(n) < truth.ravel()[cell]).astype(float)
    return truth, Cells.of(cell // shape[1], cell % shape[1], outcome, shape, bounded=True)


@pytest.mark.parametrize("own", [0.0, 0.05, 0.15])
def test_intervals_of_a_table_cover_the_truth_and_shrinkage_helps(own: float) -> None:
    rng = np.random.default_rng(1)
    covered, ours, raw = [], [], []
    for _ in range(40):
        truth, cells = table(rng, (6, 20), own, 3000)
        found = fit_table(cells)
        covered.append(((found.low <= truth) & (truth <= found.high)).mean())
        ours.append(((found.mean - truth) ** 2).mean())
        raw.append(np.nanmean((found.raw - truth) ** 2))
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.mean(ours) < np.mean(raw)
    if own == 0.0:
        assert np.mean(ours) < 0.3 * np.mean(raw)


def test_continuous_outcomes_are_covered_too() -> None:
    rng = np.random.default_rng(2)
    covered = []
    for _ in range(40):
        truth = 5 + rng.normal(0, 1, (5, 1)) + rng.normal(0, 1, (1, 8)) + rng.normal(0, 0.3, (5, 8))
        cell = rng.integers(0, 40, 800)
        outcome = truth.ravel()[cell] + rng.normal(0, 2, 800)
        found = fit_table(Cells.of(cell // 8, cell % 8, outcome, (5, 8), bounded=False))
        covered.append(((found.low <= truth) & (truth <= found.high)).mean())
    assert 0.92 <= np.mean(covered) <= 0.98


def test_on_a_balanced_table_the_target_is_the_sum_of_margins() -> None:
    rng = np.random.default_rng(3)
    truth = np.clip(0.5 + rng.normal(0, 0.1, (4, 6)), 0.05, 0.95)
    count = np.full((4, 6), 4000.0)
    mean = rng.binomial(4000, truth) / 4000
    found = fit_table(Cells(count, mean, 0.25, 0.0, 1.0, bounded=True))
    margins = mean.mean(axis=1)[:, None] + mean.mean(axis=0)[None, :] - mean.mean()
    np.testing.assert_allclose(found.target, margins, atol=0.004)
    weight = 4000 / (4000 + found.strength)
    np.testing.assert_allclose(found.mean, weight * mean + (1 - weight) * found.target)


def test_a_server_that_only_got_easy_types_is_not_overrated() -> None:
    """Additive truth, server 1 saw almost only the easy type; margins alone would mislead."""
    rng = np.random.default_rng(4)
    truth = np.array([[0.9, 0.8], [0.4, 0.3]])
    task_type = rng.integers(0, 2, 8000)
    server = np.where(task_type == 0, rng.random(8000) < 0.9, rng.random(8000) < 0.05).astype(int)
    outcome = (rng.random(8000) < truth[task_type, server]).astype(float)
    found = fit_table(Cells.of(task_type, server, outcome, (2, 2), bounded=True))
    assert np.abs(found.target - truth).max() < 0.06
    assert outcome[server == 1].mean() > outcome[server == 0].mean() + 0.2


def test_a_pair_never_seen_gets_its_effects_and_a_wide_interval() -> None:
    rng = np.random.default_rng(5)
    truth, cells = table(rng, (4, 8), 0.03, 6000)
    count, mean = cells.count.copy(), cells.mean.copy()
    count[2, 3] = mean[2, 3] = 0.0
    found = fit_table(replace(cells, count=count, mean=mean))
    assert np.isnan(found.raw[2, 3])
    assert found.mean[2, 3] == found.target[2, 3]
    assert found.low[2, 3] < truth[2, 3] < found.high[2, 3]
    assert found.sd[2, 3] > np.delete(found.sd.ravel(), 2 * 8 + 3).max()


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_outcomes_that_are_all_alike(outcome: float) -> None:
    place = np.arange(500) % 2
    cells = Cells.of(np.zeros(500, np.int64), place, np.full(500, outcome), (1, 2), bounded=True)
    found = fit_table(cells)
    assert np.isfinite(found.mean).all()
    assert ((found.mean > 0) & (found.mean < 1)).all()
    assert (found.low <= outcome).all() and (found.high >= outcome).all()  # noqa: PT018
    assert found.sd.max() < 0.05


def test_one_outcome_gives_finite_numbers() -> None:
    cells = Cells.of(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1), (3, 5), bounded=True)
    found = fit_table(cells)
    for values in (found.mean, found.sd, found.low, found.high):
        assert np.isfinite(values).all()


def test_a_pair_seen_once_may_be_worth_anything_and_the_ends_say_so() -> None:
    """The lower end was 2.2e-308, where the quantiles of the beta come to the end of numbers."""
    seen = [(0, 0, 1), (0, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1), (0, 0, 0)]
    task, server, outcome = (np.array(column) for column in zip(*seen, strict=True))
    found = fit_table(Cells.of(task, server, outcome * 1.0, (2, 2), bounded=True))
    assert found.low[1].tolist() == [0.0, 0.0]
    assert found.high[1].tolist() == [1.0, 1.0]
    assert (found.low[0] > 1e-3).all()
    assert (found.high[0] < 1.0).all()


def test_the_width_falls_with_the_square_root_of_the_outcomes() -> None:
    widths = []
    for n in (1000, 4000):
        cells = Cells.of(
            np.zeros(n, np.int64), np.zeros(n, np.int64), np.arange(n) % 2.0, (1, 1), bounded=True
        )
        widths.append(float(fit_table(cells).sd[0, 0]))
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.02)


def test_a_wrong_prior_is_found_out_by_what_was_held_out() -> None:
    rng = np.random.default_rng(6)
    truth, cells = table(rng, (5, 10), 0.15, 20_000)
    flat = np.full(truth.shape, 0.5)
    near = shrink_to(cells, truth, np.full(truth.shape, 0.01), truth)
    far = shrink_to(cells, flat, np.full(truth.shape, 0.01), flat)
    assert near.strength > 20 * far.strength
    assert np.abs(far.mean - truth).mean() < 0.03


# ----------------------------------------------------------------------- models of contexts


def world(kind: str, n: int = 4000, seed: int = 7) -> tuple[Seen, Float]:
    """Outcomes of random servers: ``flat`` by server only, ``joint`` or ``server`` slopes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    weight = {
        "flat": np.zeros((4, 3)),
        "joint": np.tile([1.5, -1.0, 0.0], (4, 1)),
        "server": rng.normal(0, 1.5, (4, 3)),
    }[kind]
    z = x @ weight.T + np.array([-0.5, 0.0, 0.5, 1.0])
    chance = 1 / (1 + np.exp(-z))
    server = rng.integers(0, 4, n)
    outcome = (rng.random(n) < chance[np.arange(n), server]).astype(float)
    seen = Seen(np.arange(n), server, outcome, np.zeros(n, np.int64), x, (1, 4))
    return seen, chance


@pytest.mark.parametrize(
    ("kind", "model"), [("flat", "table"), ("joint", "joint"), ("server", "server")]
)
def test_the_model_is_chosen_by_held_out_loss(kind: str, model: str) -> None:
    seen, chance = world(kind)
    found = fit_outcomes(seen, "auto", 1)
    assert found.model == model
    assert set(found.losses) == {"table", "joint", "server"}
    np.testing.assert_allclose(found.table.mean[0], chance.mean(axis=0), atol=0.04)
    truth = chance.mean(axis=0)
    assert ((found.table.low[0] <= truth) & (truth <= found.table.high[0])).all()


def test_a_good_model_is_calibrated_and_a_bad_one_is_mended() -> None:
    seen, _ = world("server", 8000)
    found = fit_outcomes(seen, "server", 1)
    assert found.calibration is not None
    assert not found.recalibrated
    assert found.calibration.slope == pytest.approx(1.0, abs=4 * found.calibration.slope_error)
    rng = np.random.default_rng(8)
    chance = rng.random(5000)
    outcome = (rng.random(5000) < chance).astype(float)
    z = np.log(chance / (1 - chance))
    sure = 1 / (1 + np.exp(-(2 * z + 1)))
    off = calibrate(sure, outcome, bounded=True)
    assert off.off
    assert off.slope == pytest.approx(0.5, abs=0.05)
    assert off.shift == pytest.approx(-0.5, abs=0.15)


def test_what_is_held_out_is_not_seen() -> None:
    """Outcomes that are pure noise cannot be predicted: a leak would."""
    rng = np.random.default_rng(9)
    n = 600
    seen = Seen(
        np.arange(n),
        rng.integers(0, 60, n),
        rng.integers(0, 2, n).astype(float),
        np.zeros(n, np.int64),
        rng.normal(size=(n, 5)),
        (1, 60),
    )
    fold = rng.integers(0, 5, n)
    for model in ("table", "joint", "server"):
        predicted = held_out(seen, model, fold)  # type: ignore[arg-type]
        assert abs(stats.pearsonr(predicted, seen.outcome).statistic) < 0.15


def test_linear_outcomes_are_predicted_in_their_range() -> None:
    rng = np.random.default_rng(10)
    x = rng.normal(size=(3000, 2))
    server = rng.integers(0, 3, 3000)
    truth = 10 + x[:, 0] * 2 + server
    outcome = truth + rng.normal(0, 1, 3000)
    seen = Seen(np.arange(3000), server, outcome, (x[:, 1] > 0).astype(int), x, (2, 3))
    found = fit_outcomes(seen, "auto", 1)
    assert found.model == "joint"
    np.testing.assert_allclose(found.table.mean, [[10, 11, 12]] * 2, atol=0.2)
    assert found.features is not None
    far = found.features.predicted(np.array([[1e9, 0.0], [-1e9, 0.0]]), 0)
    assert far.tolist() == [outcome.max(), outcome.min()]


def test_a_server_with_few_outcomes_keeps_the_joint_prediction() -> None:
    seen, _ = world("joint")
    rare = np.where(np.arange(4000) < 3, 3, seen.server % 3)
    scaling = scaling_of(seen.context)  # type: ignore[arg-type]
    x = scaling.features(seen.context)  # type: ignore[arg-type]
    data = Observations(x, rare, seen.outcome, 4, bounded=True)
    own, joint = (fit_features(data, scaling, kind) for kind in ("server", "joint"))
    apart = [np.abs(own.predicted(x, r) - joint.predicted(x, r)).max() for r in range(4)]
    assert apart[3] < 0.65
    assert np.isfinite(own.predicted(x, 3)).all()


def test_features_have_norm_at_most_one_and_constant_columns_vanish() -> None:
    rng = np.random.default_rng(11)
    context = np.hstack([rng.normal(5, 3, (100, 2)), np.full((100, 1), 7.0)])
    scaling = scaling_of(context)
    norm = np.linalg.norm(scaling.features(context), axis=1)
    assert norm.max() == pytest.approx(1.0)
    assert np.abs(scaling.features(context)[:, 2]).max() == 0.0
    assert np.linalg.norm(scaling.features(1e6 * context), axis=1).max() <= 1.0 + 1e-12


# --------------------------------------------------------------------- types made of contexts


def blobs(n: int = 3000, seed: int = 12) -> tuple[Seen, NDArray[np.int64]]:
    """Four well separated kinds of tasks; each has a server of its own."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, n)
    context = np.array([[0, 0], [10, 0], [0, 10], [10, 10]])[kind] + rng.normal(size=(n, 2))
    server = rng.integers(0, 4, n)
    outcome = (rng.random(n) < np.where(server == kind, 0.9, 0.3)).astype(float)
    return Seen(np.arange(n), server, outcome, np.zeros(n, np.int64), context, (1, 4)), kind


def test_as_many_types_are_made_as_outcomes_tell_apart() -> None:
    seen, kind = blobs()
    found = chosen_clusters(seen.context, seen, 1)  # type: ignore[arg-type]
    assert len(found.center) == 4
    pairs = set(zip(found.task_type.tolist(), kind.tolist(), strict=True))
    assert len(pairs) == 4
    size = np.bincount(found.task_type)
    assert size.tolist() == sorted(size, reverse=True)


def test_one_type_where_outcomes_do_not_depend_on_the_context() -> None:
    seen, _ = blobs()
    luck = np.random.default_rng(13).integers(0, 2, len(seen.outcome)).astype(float)
    found = chosen_clusters(seen.context, replace(seen, outcome=luck), 1)  # type: ignore[arg-type]
    assert len(found.center) == 1


def test_clusters_are_the_same_with_the_same_seed() -> None:
    seen, _ = blobs()
    one, two = (clustered(seen.context, 6, 3) for _ in range(2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.task_type, two.task_type)
    np.testing.assert_array_equal(one.center, two.center)


def test_more_clusters_than_different_contexts() -> None:
    with pytest.raises(InputError, match="5 clusters of 2 different contexts"):
        clustered(np.array([[0.0], [0.0], [1.0]]), 5, 1)
