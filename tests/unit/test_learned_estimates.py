"""What learners believe: shrunk tables, regressions, rates and durations of a running stream."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import beta

from opportune.learning.pace import Pace, arrival_rates, capped, estimated, mean_durations
from opportune.learning.regression import RIDGE, ScoreModel
from opportune.learning.shrinkage import STRONGEST, WEAKEST, shrink_table
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance


def drawn(p: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    trials = np.full(p.shape, float(n))
    return np.random.default_rng(seed).binomial(n, p).astype(float), trials


# ---------------------------------------------------------------------------- shrunk tables


def test_an_additive_table_is_believed_to_be_additive() -> None:
    p = 0.3 + 0.3 * np.linspace(0, 1, 40)[:, None] + 0.3 * np.linspace(0, 1, 40)
    success, trials = drawn(p, 10, 1)
    table = shrink_table(success, trials)
    plain = (success + 1) / (trials + 2)
    assert table.strength > 30
    assert np.sqrt(np.mean((table.mean - p) ** 2)) < 0.5 * np.sqrt(np.mean((plain - p) ** 2))


def test_a_table_of_interactions_is_left_alone() -> None:
    p = np.random.default_rng(2).integers(0, 2, (10, 10)) * 0.9 + 0.05
    success, trials = drawn(p, 40, 3)
    table = shrink_table(success, trials)
    assert table.strength < 2
    assert np.max(np.abs(table.mean - success / trials)) < 0.05


def test_the_strength_of_a_beta_table_is_found() -> None:
    rng = np.random.default_rng(4)
    for strength in (5.0, 20.0):
        p = rng.beta(0.5 * strength, 0.5 * strength, (60, 60))
        found = shrink_table(*drawn(p, 30, 5)).strength
        assert 0.7 * strength < found < 1.4 * strength


def test_means_and_deviations_are_those_of_the_posterior_where_effects_are_sure() -> None:
    p = np.random.default_rng(6).uniform(0.2, 0.8, (40, 40))
    success, trials = drawn(p, 200, 7)
    table = shrink_table(success, trials)
    a = success + table.strength * table.center
    law = beta(a, trials + table.strength - a)
    np.testing.assert_allclose(table.mean, law.mean())
    np.testing.assert_allclose(table.sd, law.std(), rtol=0.01)


def test_a_newcomer_counts_as_average_and_as_unsure() -> None:
    """Its 1 sd must reach beyond well-known servers, or it would never be tried."""
    success, trials = drawn(np.full((2, 9), 0.75), 200, 8)
    success[:, 8], trials[:, 8] = 0.0, 0.0
    table = shrink_table(success, trials)
    assert np.all(np.abs(table.mean[:, 8] - 0.75) < 0.05)
    assert np.all(table.mean[:, 8] + table.sd[:, 8] > 0.9)
    assert np.all(table.sd[:, :8] < 0.04)


@pytest.mark.parametrize(("outcome", "n"), [(0.0, 500), (1.0, 500), (0.0, 0), (1.0, 1)])
def test_extreme_tables_are_finite(outcome: float, n: int) -> None:
    """All failures, all successes, nothing seen, one observation: cases.md D."""
    trials = np.full((3, 4), float(n))
    table = shrink_table(outcome * trials, trials)
    assert np.all((table.mean > 0) & (table.mean < 1))
    assert np.all((table.sd > 0) & np.isfinite(table.sd))
    assert WEAKEST <= table.strength <= STRONGEST


def test_widths_fall_like_one_over_the_root_of_n() -> None:
    sd = [shrink_table(*drawn(np.full((2, 2), 0.4), n, 9)).sd[0, 0] for n in (100, 10_000)]
    assert 8 < sd[0] / sd[1] < 13


# ------------------------------------------------------------------------------ regression


def test_the_regression_is_the_penalized_optimum_with_its_information() -> None:
    rng = np.random.default_rng(10)
    x = rng.normal(size=(150, 3)) / 3
    column = rng.integers(0, 2, 150)
    y = rng.integers(0, 5, 150) / 4.0
    model = ScoreModel(3, 3, 150)
    model.learn(x[:70], column[:70], y[:70])
    model.learn(x[70:], column[70:], y[70:])
    for m in range(3):
        own, outcome = x[column == m], y[column == m]

        def loss(theta: np.ndarray, own: np.ndarray = own, y: np.ndarray = outcome) -> float:
            z = own @ theta
            return float((np.logaddexp(0, z) - y * z).sum() + RIDGE / 2 * theta @ theta)

        best = minimize(loss, np.zeros(3), tol=1e-12).x
        np.testing.assert_allclose(model.theta[m], best, atol=1e-4)
        rate = 1 / (1 + np.exp(-own @ best))
        information = (own.T * (rate * (1 - rate))) @ own + RIDGE * np.eye(3)
        sd = np.sqrt(np.einsum("cp,pq,cq->c", x, np.linalg.inv(information), x))
        expected = 1 / (1 + np.exp(-(x @ best + 0.5 * sd)))
        np.testing.assert_allclose(model.score(x, 0.5)[:, m], expected, atol=1e-4)


def test_separated_and_copied_columns_have_a_finite_optimum() -> None:
    x = np.array([[-1.0, -1.0, 1.0], [1.0, 1.0, 1.0]] * 250) / np.sqrt(3)
    model = ScoreModel(1, 3, 500)
    model.learn(x, np.zeros(500, dtype=np.int64), (x[:, 0] > 0).astype(float))
    score = model.score(x)[:, 0]
    assert np.all((score > 0) & (score < 1))
    assert score[1] > 0.95
    assert score[0] < 0.05
    assert model.theta[0, 0] == pytest.approx(model.theta[0, 1])


def test_an_empty_context_learns_by_its_intercept() -> None:
    rng = np.random.default_rng(11)
    x = np.tile([0.0, 1.0], (500, 1))
    column = np.arange(500) % 2
    model = ScoreModel(2, 2, 500)
    model.learn(x, column, (rng.random(500) < np.where(column == 1, 0.8, 0.2)).astype(float))
    np.testing.assert_allclose(model.score(x[:1])[0], [0.2, 0.8], atol=0.08)


# --------------------------------------------------------------------- rates and durations


def test_rates_have_one_pseudo_arrival_a_type_and_at_most_one_a_step() -> None:
    nothing = np.zeros(3, dtype=np.int64)
    np.testing.assert_allclose(arrival_rates(Pace(0, nothing, nothing, nothing)), 1 / 3)
    pace = Pace(999, np.array([99, 49, 0]), nothing, nothing)
    np.testing.assert_allclose(arrival_rates(pace), [0.1, 0.05, 0.001])


def test_durations_count_the_time_of_services_under_way() -> None:
    rng = np.random.default_rng(12)
    start, steps = rng.integers(0, 1000, 5000), rng.geometric(1 / 300, 5000)
    ended = start + steps <= 1000
    served = np.minimum(steps, 1000 - start)
    pace = Pace(1000, np.array([5000]), np.array([ended.sum()]), np.array([served.sum()]))
    assert mean_durations(pace)[0] == pytest.approx(300, rel=0.05)
    assert steps[ended].mean() < 220  # what leaving them out would say


def test_nothing_seen_gives_an_instance_that_can_be_priced() -> None:
    instance = loss_instance(np.zeros((2, 5)), [0.1, 0.2], Geometric(30), 2)
    nothing = np.zeros(2, dtype=np.int64)
    guess = capped(estimated(instance, Pace(0, nothing, nothing, nothing)))
    assert guess.load == pytest.approx(min(0.97 * (1 - 2 / 5), 2 / 5))
    heavy = Pace(100, np.array([50, 40]), np.array([2, 2]), np.array([900, 900]))
    assert capped(estimated(instance, heavy)).load == pytest.approx(0.97 * (1 - 2 / 5))
