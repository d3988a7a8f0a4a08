"""The estimators of a fit against textbooks, peers and known truths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from opportune.errors import InputError
from opportune.learning.fit.arrivals import poisson_interval, rate_interval, shrunk_profile
from opportune.learning.fit.drift import drift_test, noticed
from opportune.learning.fit.regression import fit_linear, fit_logistic
from opportune.learning.fit.services import (
    fit_services,
    fit_type,
    observed,
    rank_statistic,
    thinned,
)
from opportune.learning.fit.survival import geometric_mean, kaplan_meier, memoryless_test
from opportune.model.duration import Deterministic, Empirical, Geometric

# ------------------------------------------------------------------------------- durations

REMISSION = (6, 6, 6, 7, 10, 13, 16, 22, 23), (6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)
"""Weeks in remission under 6-MP, ended and censored (Freireich and others 1963)."""

SURVIVAL = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
"""Their Kaplan-Meier estimate as printed in textbooks (Cox and Oakes 1984, table 4.1)."""


def remission() -> tuple[np.ndarray, np.ndarray]:
    steps = np.array(REMISSION[0] + REMISSION[1])
    return steps, np.arange(len(steps)) < len(REMISSION[0])


def test_kaplan_meier_is_the_textbooks() -> None:
    found = kaplan_meier(*remission())
    survival = 1.0 - np.cumsum(found.mass)
    assert dict(zip(found.steps.tolist(), survival.round(3).tolist(), strict=True)) == SURVIVAL
    assert found.beyond == pytest.approx(survival[-1])
    assert found.last == 35
    area = sum(
        s * (b - a)
        for s, a, b in zip([1.0, *survival], [0, *found.steps], [*found.steps, 35], strict=True)
    )
    assert found.mean == pytest.approx(area)


def test_kaplan_meier_without_censoring_is_the_histogram() -> None:
    steps = np.random.default_rng(1).integers(1, 30, 500)
    found = kaplan_meier(steps, np.ones(500, dtype=np.bool_))
    at, count = np.unique(steps, return_counts=True)
    np.testing.assert_array_equal(found.steps, at)
    np.testing.assert_allclose(found.mass, count / 500, atol=1e-12)
    assert found.mean == pytest.approx(steps.mean())
    assert found.error == pytest.approx(steps.std(ddof=1) / np.sqrt(500))
    assert found.beyond == 0.0


def test_the_memoryless_mean_has_the_largest_likelihood() -> None:
    steps, complete = remission()

    def minus_log_likelihood(mean: float) -> float:
        stay = np.log1p(-1.0 / mean)
        ended, running = steps[complete], steps[~complete]
        return -float(((ended - 1) * stay - np.log(mean)).sum() + (running * stay).sum())

    peer = optimize.minimize_scalar(
        minus_log_likelihood, bounds=(1.001, 1000), method="bounded", options={"xatol": 1e-9}
    )
    mean, low, high = geometric_mean(steps, complete)
    assert mean == pytest.approx(peer.x, rel=1e-6)
    exact = stats.binomtest(int(complete.sum()), int(steps.sum())).proportion_ci(method="exact")
    assert (1 / high, 1 / low) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("mean", [1.3, 5.0, 40.0])
def test_the_test_of_the_memoryless_law_keeps_its_size(mean: float) -> None:
    rng = np.random.default_rng(3)
    small = 0
    for _ in range(400):
        steps, limit = rng.geometric(1 / mean, 200), rng.geometric(0.5 / mean, 200)
        complete = steps <= limit
        seen = np.where(complete, steps, limit - 1)
        keep = complete | (seen >= 1)
        small += memoryless_test(seen[keep], complete[keep]) < 0.05
    assert small <= stats.binom.ppf(0.9999, 400, 0.07)


def test_laws_are_told_apart() -> None:
    rng = np.random.default_rng(5)
    whole = np.ones(300, dtype=np.bool_)
    assert fit_type(np.full(300, 7), whole).law == Deterministic(7)
    assert isinstance(fit_type(rng.geometric(0.1, 300), whole).law, Geometric)
    assert isinstance(fit_type(rng.integers(1, 20, 300), whole).law, Empirical)
    assert isinstance(fit_type(np.full(300, 2), whole).law, Deterministic)


def test_intervals_of_means_cover_them() -> None:
    """95 % intervals of three laws, a third of the services censored."""
    rng = np.random.default_rng(7)
    laws = {
        "geometric": (lambda n: rng.geometric(0.1, n), 10.0),
        "uniform": (lambda n: rng.integers(1, 20, n), 10.0),
        "two points": (lambda n: rng.choice([2, 12], n), 7.0),
    }
    for name, (draw, mean) in laws.items():
        covered = 0
        for _ in range(200):
            steps, limit = draw(250), rng.geometric(0.04, 250)
            complete = steps <= limit
            seen = np.where(complete, steps, limit - 1)
            keep = complete | (seen >= 1)
            one = fit_type(seen[keep], complete[keep])
            covered += one.low <= mean <= one.high
        assert covered >= stats.binom.ppf(0.001, 200, 0.93), name


def test_what_was_not_seen_to_end_gets_a_point_beyond() -> None:
    steps, complete = np.array([2] * 40 + [3] * 40 + [9] * 20), np.array([True] * 80 + [False] * 20)
    one = fit_type(steps, complete)
    assert one.beyond == pytest.approx(0.2)
    mean = 380 / 80
    assert isinstance(one.law, Empirical)
    assert one.law.steps.tolist() == [2, 3, 9 + int(np.ceil(mean))]
    np.testing.assert_allclose(one.law.weight, [0.4, 0.4, 0.2])


def test_a_long_histogram_keeps_its_mean() -> None:
    points = np.arange(1, 2000)
    weight = 1.0 / points**1.2
    short, mass = thinned(points, weight)
    whole, part = Empirical(points, weight), Empirical(short, mass)
    assert len(part.steps) <= 200
    assert part.mean == pytest.approx(whole.mean, rel=1e-12)
    grid = np.arange(1, 2000)
    assert np.abs(part.tail(grid) - whole.tail(grid)).max() < 0.02


def test_a_type_with_few_services_borrows_from_all() -> None:
    rng = np.random.default_rng(2)
    sizes = (500, 500, 500, 4)
    task_type = np.repeat(np.arange(4), sizes)
    steps = np.concatenate(
        [rng.integers(1, 2 * mean, n) for n, mean in zip(sizes, (10, 11, 12, 30), strict=True)]
    )
    server = np.zeros(len(steps), dtype=np.int64)
    data = observed(task_type, server, steps.astype(float), np.ones(len(steps), np.bool_), 1.0)
    found = fit_services(data, 5, 1)
    own = steps[task_type == 3].mean()
    pooled = steps.mean()
    assert min(own, pooled) < found.types[3].mean < max(own, pooled)
    assert found.types[3].weight < 0.5 < found.types[0].weight
    assert found.types[4].mean == pytest.approx(pooled)  # never seen
    assert found.types[4].weight == 0.0


@pytest.mark.parametrize(("types", "n", "spread"), [(30, 8, 0.2), (5, 10, 0.3), (10, 100, 0.05)])
def test_intervals_of_types_that_borrow_cover_their_means(
    types: int, n: int, spread: float
) -> None:
    rng = np.random.default_rng(11)
    covered, ours, raw = [], [], []
    for _ in range(100):
        mean = 10 * np.exp(rng.normal(0, spread, types))
        task_type = np.repeat(np.arange(types), n)
        steps = rng.geometric(1 / mean[task_type])
        whole = np.ones(len(steps), dtype=np.bool_)
        data = observed(task_type, np.zeros_like(task_type), steps.astype(float), whole, 1.0)
        found = fit_services(data, types, 1).types
        covered += [one.low <= m <= one.high for one, m in zip(found, mean, strict=True)]
        ours += [(one.mean - m) ** 2 for one, m in zip(found, mean, strict=True)]
        raw += ((np.bincount(task_type, weights=steps) / n - mean) ** 2).tolist()
    assert np.mean(covered) >= 0.9
    assert np.mean(ours) < np.mean(raw)


def test_two_types_with_services_enough_keep_their_means() -> None:
    rng = np.random.default_rng(12)
    task_type = np.repeat([0, 1], 300)
    steps = rng.geometric(np.where(task_type == 0, 1 / 9, 1 / 8))
    whole = np.ones(600, dtype=np.bool_)
    data = observed(task_type, np.zeros_like(task_type), steps.astype(float), whole, 1.0)
    for v, one in enumerate(fit_services(data, 2, 1).types):
        assert one.weight == 1.0
        assert one.mean == pytest.approx(steps[task_type == v].mean())


def test_censored_pieces_shorter_than_a_step_teach_nothing() -> None:
    data = observed(
        np.zeros(4, np.int64),
        np.zeros(4, np.int64),
        np.array([0.0, 0.4, 2.5, np.nan]),
        np.array([True, False, False, True]),
        1.0,
    )
    assert data.steps.tolist() == [1, 2]
    assert data.complete.tolist() == [True, False]


def test_no_service_that_ended_is_an_error() -> None:
    nothing = observed(
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([3.0]), np.array([False]), 1.0
    )
    with pytest.raises(InputError, match="no service that ended"):
        fit_services(nothing, 1, 1)


def test_servers_that_differ_are_noticed() -> None:
    rng = np.random.default_rng(4)
    task_type, server = rng.integers(0, 2, 20_000), rng.integers(0, 3, 20_000)
    alike = rng.geometric(0.05 * (1 + task_type))
    differ = rng.geometric(0.05 * (1 + task_type) / (1 + 0.5 * (server == 2)))
    whole = np.ones(20_000, dtype=np.bool_)
    for steps, expected in ((alike, False), (differ, True)):
        data = observed(task_type, server, steps.astype(float), whole, 1.0)
        found = fit_services(data, 2, 3)
        assert found.servers_differ is expected
    assert found.by_server is not None
    slow = found.by_server.mean[:, 2] / found.by_server.mean[:, :2].mean(axis=1)
    np.testing.assert_allclose(slow, 1.5, atol=0.1)


def test_the_rank_statistic_is_kruskal_and_wallis() -> None:
    rng = np.random.default_rng(6)
    groups = [rng.integers(1, 9, n) for n in (5, 17, 60)]
    assert rank_statistic(groups) == pytest.approx(stats.kruskal(*groups).statistic)


# -------------------------------------------------------------------------------- arrivals


def test_intervals_of_counts_are_the_exact_ones() -> None:
    low, high = rate_interval(np.array([0, 7, 100]), 100.0)
    for i, count in enumerate((0, 7, 100)):
        exact = stats.binomtest(count, 100).proportion_ci(method="exact")
        assert (low[i], high[i]) == pytest.approx((exact.low, exact.high))
    below, above = poisson_interval(np.array([0, 10]))
    assert below == pytest.approx([0.0, stats.chi2.ppf(0.025, 20) / 2])
    assert above == pytest.approx([stats.chi2.ppf(0.975, 2) / 2, stats.chi2.ppf(0.975, 22) / 2])


def test_a_profile_that_types_share_is_shrunk_to_one_curve() -> None:
    rng = np.random.default_rng(8)
    curve = 1.0 + 0.8 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    rate = np.array([400.0, 30.0, 3.0])
    exposure = np.full(24, 1 / 24)
    count = rng.poisson(curve[:, None] * rate[None, :] / 4)
    raw, shrunk, strength = shrunk_profile(count, exposure)
    truth = np.repeat((curve / curve.mean())[:, None], 3, axis=1)
    assert strength > 20
    assert np.abs(shrunk - truth)[:, 2].mean() < 0.2 * np.abs(raw - truth)[:, 2].mean()
    np.testing.assert_allclose((shrunk * exposure[:, None]).sum(axis=0), 1.0)


def test_types_with_days_of_their_own_keep_them() -> None:
    count = np.array([[500, 0], [0, 500], [500, 500], [0, 0]])
    raw, shrunk, strength = shrunk_profile(count, np.full(4, 0.25))
    assert strength < 5
    np.testing.assert_allclose(shrunk, raw, atol=0.05)
    assert (shrunk[3] == 0).all()  # closed


# ------------------------------------------------------------------------------- regression


def problem(n: int = 400, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) / np.sqrt(d)
    z = x @ rng.normal(size=d) * 2 - 0.5
    return x, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(float), rng.normal(size=n) / 3


@pytest.mark.parametrize("ridge", [0.1, 1.0])
@pytest.mark.parametrize("shares", [False, True])
def test_the_logistic_fit_is_the_optimum(ridge: float, shares: bool) -> None:
    x, y, offset = problem()
    if shares:
        y = 0.25 + y / 2

    def loss(theta: np.ndarray) -> float:
        z = x @ theta + offset
        return float((np.logaddexp(0, z) - y * z).sum() + ridge / 2 * theta @ theta)

    peer = optimize.minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    ours = fit_logistic(x, y, ridge, offset)
    assert ours.converged
    np.testing.assert_allclose(ours.weight, peer.x, atol=1e-5)
    assert loss(ours.weight) <= loss(peer.x) + 1e-9
    p = 1 / (1 + np.exp(-(x @ ours.weight + offset)))
    information = x.T @ ((p * (1 - p))[:, None] * x) + ridge * np.eye(5)
    np.testing.assert_allclose(ours.covariance @ information, np.eye(5), atol=1e-9)


def test_separated_and_collinear_data_have_a_finite_fit() -> None:
    x = np.repeat([-1.0, 1.0], 250)[:, None]
    y = (x[:, 0] > 0).astype(float)
    one = fit_logistic(x, y, 0.1)
    assert one.converged
    assert 1 < one.weight[0] < 20
    doubled = fit_logistic(np.hstack([x, x, np.ones_like(x)]), y, 0.1)
    assert doubled.converged
    assert doubled.weight[0] == pytest.approx(doubled.weight[1])
    p = 1 / (1 + np.exp(-(x[:, 0] * doubled.weight[:2].sum() + doubled.weight[2])))
    assert ((p > 0) & (p < 1)).all()


def test_far_features_overflow_nothing() -> None:
    x = np.array([[800.0], [-800.0], [800.0]])
    found = fit_logistic(x, np.array([0.0, 1.0, 1.0]), 0.1)
    assert np.isfinite(found.weight).all()
    assert np.isfinite(found.covariance).all()


def test_all_failures_and_a_single_outcome_are_finite() -> None:
    for y in (np.zeros(500), np.ones(1)):
        found = fit_logistic(np.ones((len(y), 1)), y, 0.1)
        assert found.converged
        assert np.isfinite(found.weight).all()


def test_the_linear_fit_is_ridge_regression() -> None:
    x, _, y = problem()
    found = fit_linear(x, y, 0.5)
    stacked = np.vstack([x, np.sqrt(0.5) * np.eye(5)])
    peer = np.linalg.lstsq(stacked, np.concatenate([y, np.zeros(5)]), rcond=None)[0]
    np.testing.assert_allclose(found.weight, peer, atol=1e-10)


# ------------------------------------------------------------------------------------ drift


def test_the_test_of_drift_keeps_its_size_and_finds_a_change() -> None:
    rng = np.random.default_rng(9)
    small = [drift_test("x", rng.random(300) < 0.3, None) for _ in range(300)]
    assert sum(one is not None and one.p_value < 0.05 for one in small) <= 27
    values = (rng.random(2000) < np.where(np.arange(2000) < 700, 0.6, 0.45)).astype(float)
    found = drift_test("x", values)
    assert found is not None
    assert found.p_value < 1e-4
    assert found.place == pytest.approx(0.35, abs=0.1)
    assert found.before > found.after


def test_many_tests_are_corrected_for_their_number() -> None:
    rng = np.random.default_rng(10)
    tests = [drift_test(f"{i}", rng.normal(size=200)) for i in range(200)]
    assert noticed([one for one in tests if one is not None]) == []


def test_constant_or_short_series_are_not_tested() -> None:
    assert drift_test("x", np.ones(100)) is None
    assert drift_test("x", np.arange(7.0)) is None
