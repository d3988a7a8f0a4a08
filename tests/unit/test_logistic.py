"""The logistic fit is at its optimum, with and without the norm constraint, at every size."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from opportune.errors import InputError
from opportune.kernels.logistic import (
    DESIGN,
    DESIGN_INVERSE,
    FAILED,
    INFORMATION,
    PHI,
    THETA,
    Learner,
    departure_probability,
    departure_slope,
    log_loss,
    new_learner,
)
from opportune.kernels.logistic_fit import learn
from opportune.learning.estimator import LogisticEstimator, fit_logistic, fitting

Float = NDArray[np.float64]


def table(n: int, d: int, seed: int, size: float = 2.0) -> tuple[Float, Float]:
    """Features of length up to 1 and outcomes of a true weight of length ``size``."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x /= np.maximum(np.linalg.norm(x, axis=1), 1.0)[:, None]
    theta = rng.normal(size=d)
    theta *= size / np.linalg.norm(theta)
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ theta))).astype(np.float64)


def gradient(x: Float, y: Float, theta: Float, ridge: float) -> Float:
    """Of the regularized loss, from its definition."""
    return np.asarray(x.T @ (1.0 / (1.0 + np.exp(-x @ theta)) - y) + ridge * theta)


def loss(x: Float, y: Float, theta: Float, ridge: float) -> float:
    """The regularized loss, from its definition."""
    z = x @ theta
    return float(np.logaddexp(0, z).sum() - y @ z + ridge / 2 * theta @ theta)


@pytest.mark.parametrize("bound", [math.inf, 3.0, 1.0, 0.1])
@pytest.mark.parametrize("estimator", ["exact", "growth"])
def test_every_round_ends_at_the_optimum(estimator: str, bound: float) -> None:
    """Karush-Kuhn-Tucker: gradient + nu theta = 0, nu >= 0, nu = 0 inside the ball."""
    x, y = table(300, 6, seed=1, size=2.0)
    kept = LogisticEstimator(6, ridge=0.1, norm_bound=bound, estimator=estimator)
    binding = 0
    for i in range(300):
        kept.learn(x[i], y[i])
        if estimator == "growth" and i > 4 and (i + 1) % 50:
            continue
        if estimator == "growth":
            found = fit_logistic(x[: i + 1], y[: i + 1], 0.1, bound)
            assert kept.fit().theta == pytest.approx(found.theta, abs=0.25)
        else:
            found = kept.fit()
        slope = gradient(x[: i + 1], y[: i + 1], found.theta, 0.1)
        norm = np.linalg.norm(found.theta)
        assert found.multiplier >= 0
        assert found.converged
        assert np.abs(slope + found.multiplier * found.theta).max() < 1e-9
        assert norm <= bound * (1 + 1e-9)
        if found.multiplier > 0:
            assert norm == pytest.approx(bound, rel=1e-9)
            binding += 1
    assert binding == 0 if bound == math.inf else binding > 0


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(0, 60),
    d=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    ridge=st.sampled_from([1e-6, 0.1, 1.0, 50.0]),
    bound=st.sampled_from([math.inf, 5.0, 0.3]),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_the_fit_is_a_minimum_from_any_data(
    n: int, d: int, seed: int, ridge: float, bound: float, scale: float
) -> None:
    x, y = table(n, d, seed)
    x *= scale
    found = fit_logistic(x, y, ridge, bound)
    slope = gradient(x, y, found.theta, ridge) + found.multiplier * found.theta
    assert found.converged
    assert np.abs(slope).max(initial=0.0) <= 1e-9 * max(1.0, scale)
    assert np.linalg.norm(found.theta) <= bound * (1 + 1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(5):  # convex: no other point of the ball is better
        other = found.theta + rng.normal(size=d) * rng.choice([1e-3, 0.1, 1.0])
        norm = np.linalg.norm(other)
        other *= min(1.0, bound / norm) if norm > 0 else 1.0
        assert loss(x, y, other, ridge) >= loss(x, y, found.theta, ridge) - 1e-9


def test_it_is_what_a_general_optimizer_finds() -> None:
    x, y = table(500, 8, seed=4)

    def value(theta: Float) -> float:
        return loss(x, y, theta, 0.5)

    def slope(theta: Float) -> Float:
        return gradient(x, y, theta, 0.5)

    other = minimize(value, np.zeros(8), jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    assert fit_logistic(x, y, 0.5).theta == pytest.approx(other, abs=1e-6)
    ball = {"type": "ineq", "fun": lambda theta: 1.0 - theta @ theta}
    inside = minimize(
        value, np.zeros(8), jac=slope, method="SLSQP", constraints=[ball], options={"ftol": 1e-14}
    ).x
    assert fit_logistic(x, y, 0.5, 1.0).theta == pytest.approx(inside, abs=1e-5)


def test_the_covariance_is_the_inverse_of_the_observed_information() -> None:
    x, y = table(400, 5, seed=7)
    for bound in (math.inf, 0.5):
        found = fit_logistic(x, y, 0.1, bound)
        rate = found.probability(x)
        information = (x.T * (rate * (1 - rate))) @ x + 0.1 * np.eye(5)
        assert found.covariance == pytest.approx(np.linalg.inv(information), rel=1e-9)
    kept = LogisticEstimator(5, ridge=0.1, estimator="exact")
    for row, outcome in zip(x, y, strict=True):
        kept.learn(row, outcome)
    assert kept.fit().covariance == pytest.approx(fit_logistic(x, y, 0.1).covariance, rel=1e-9)


def one_block(d: int, n: int, ridge: float, start: float) -> Learner:
    """A learner of one block."""
    return new_learner(1, d, n, ridge, start)


@pytest.mark.parametrize("estimator", ["online", "growth"])
def test_inverses_stay_accurate_over_a_hundred_thousand_rounds(estimator: str) -> None:
    """Against the inverse of the very sums, from scratch."""
    n, d = 100_000, 6
    x, y = table(n, d, seed=2)
    x[:, 0] *= 1e-2  # a direction that is hardly ever seen
    rule, how = fitting(0.01, estimator=estimator)
    learner = one_block(d, n, 0.01, 0.5)
    for i in range(n):
        learner.vector[PHI, 0] = x[i]
        learn(learner, 0, y[i], how, (rule, True))
    direct = np.linalg.inv(0.5 * np.eye(d) + x.T @ x)
    assert learner.matrix[DESIGN, 0] == pytest.approx(0.5 * np.eye(d) + x.T @ x, rel=1e-10)
    assert np.abs(learner.matrix[DESIGN_INVERSE, 0] / direct - 1.0).max() < 1e-7
    for place in (DESIGN, INFORMATION):
        product = learner.matrix[place, 0] @ learner.matrix[place + 1, 0]
        assert np.abs(product - np.eye(d)).max() < 1e-9
    assert learner.number[FAILED] == 0


@pytest.mark.parametrize("n_blocks", [2, 5])
def test_blocks_are_fits_of_their_own_unless_the_norm_binds(n_blocks: int) -> None:
    """Interleaved outcomes of several blocks, in a pool whose segments move."""
    n, d = 400, 3
    x, y = table(n, d, seed=5)
    block = np.random.default_rng(6).integers(0, n_blocks, n)
    for estimator, tolerance in (("exact", 1e-8), ("growth", 2e-2)):
        rule, how = fitting(0.1, estimator=estimator)
        learner = new_learner(n_blocks, d, n, 0.1, 1.0)
        for i in range(n):
            learner.vector[PHI, 0] = x[i]
            learn(learner, int(block[i]), y[i], how, (rule, False))
        for b in range(n_blocks):
            alone = fit_logistic(x[block == b], y[block == b], 0.1)
            assert learner.vector[THETA, b] == pytest.approx(alone.theta, abs=tolerance)
    rule, how = fitting(0.1, norm_bound=1.0, estimator="exact")
    learner = new_learner(n_blocks, d, n, 0.1, 1.0)
    whole = np.zeros((n, n_blocks, d))
    for i in range(n):
        whole[i, block[i]] = x[i]
        learner.vector[PHI, 0] = x[i]
        learn(learner, int(block[i]), y[i], how, (rule, False))
    together = fit_logistic(whole.reshape(n, -1), y, 0.1, 1.0)
    assert together.multiplier > 0
    assert learner.vector[THETA].ravel() == pytest.approx(together.theta, abs=1e-8)


def test_a_proximal_step_is_the_minimum_that_it_says() -> None:
    """theta = argmin of the outcome's loss + 1/2 ||theta - old||^2 in the information's norm."""
    x, y = table(30, 4, seed=8)
    rule, how = fitting(0.2, estimator="online")
    learner = one_block(4, 40, 0.2, 1.0)
    for i in range(30):
        before, information = learner.vector[THETA, 0].copy(), learner.matrix[INFORMATION, 0].copy()
        learner.vector[PHI, 0] = x[i]
        learn(learner, 0, y[i], how, (rule, False))
        after = learner.vector[THETA, 0]
        rate = departure_probability(float(x[i] @ after))
        assert information @ (after - before) + (rate - y[i]) * x[i] == pytest.approx(0, abs=1e-9)
        added = information + departure_slope(float(x[i] @ after)) * np.outer(x[i], x[i])
        assert learner.matrix[INFORMATION, 0] == pytest.approx(added)


# --------------------------------------------------------------------------- field cases (D)


def test_separable_outcomes_have_a_finite_fit_with_probabilities_inside() -> None:
    """statsmodels/statsmodels#39."""
    x = np.tile([[-1.0], [1.0]], (250, 1))
    y = (x[:, 0] > 0).astype(float)
    for bound in (math.inf, 3.0):
        found = fit_logistic(x, y, 0.1, bound)
        assert found.converged
        assert np.isfinite(found.theta).all()
        assert np.linalg.norm(found.theta) <= bound * (1 + 1e-12)
        assert np.all((found.probability(x) > 0) & (found.probability(x) < 1))


def test_copied_and_constant_columns_change_no_prediction() -> None:
    """statsmodels/statsmodels#659: a copy shares the weight; the ridge then counts half."""
    x, y = table(300, 3, seed=9)
    plain = fit_logistic(x, y, 1e-6)
    twice = fit_logistic(np.hstack([x, x[:, :1]]), y, 1e-6)
    dead = fit_logistic(np.hstack([x, np.zeros((300, 1))]), y, 1e-6)
    assert twice.converged
    assert twice.logit(np.hstack([x, x[:, :1]])) == pytest.approx(plain.logit(x), abs=1e-4)
    assert dead.logit(np.hstack([x, np.zeros((300, 1))])) == pytest.approx(plain.logit(x))
    assert dead.theta[3] == 0


def test_failures_alone_give_a_finite_estimate() -> None:
    """david-cortes/contextualbandits#7."""
    x, _ = table(500, 4, seed=3)
    found = fit_logistic(np.hstack([np.ones((500, 1)), x]), np.zeros(500))
    assert found.converged
    assert np.isfinite(found.theta).all()
    assert np.all(found.probability(np.hstack([np.ones((500, 1)), x])) < 0.05)
    rare = np.zeros(10_000)
    rare[:46] = 1
    assert fit_logistic(np.ones((10_000, 1)), rare).probability([[1.0]]) == pytest.approx(
        46 / 10_000, rel=0.02
    )


@pytest.mark.parametrize("estimator", ["exact", "growth", "online"])
def test_widths_fall_like_one_over_n(estimator: str) -> None:
    """ray-project/ray#29543: equal observations, then phi' H^-1 phi ~ 1 / (mu'(z) n)."""
    phi = np.array([0.6, 0.8])
    kept = LogisticEstimator(2, estimator=estimator)
    squares = {}
    for n in range(1, 4001):
        kept.learn(phi, n % 2)
        if n in (1000, 2000, 4000):
            squares[n] = float(kept.fit().width(phi)) ** 2
            assert squares[n] * n == pytest.approx(4.0, rel=0.02)  # mu' = 1/4 at z = 0
    assert squares[1000] / squares[4000] == pytest.approx(4.0, rel=0.02)


def test_one_outcome_gives_finite_numbers_everywhere() -> None:
    """fidelity/mab2rec#17."""
    kept = LogisticEstimator(10)
    kept.learn(np.full(10, 0.3), 1)
    found = kept.fit()
    others = np.random.default_rng(1).normal(size=(5, 10))
    assert np.isfinite(found.logit(others) + found.width(others)).all()


@pytest.mark.parametrize("z", [-800.0, -40.0, 0.0, 40.0, 800.0])
def test_the_ends_of_the_link_do_not_overflow(z: float) -> None:
    """PlaytikaOSS/pybandits#126."""
    assert 0.0 <= departure_probability(z) <= 1.0
    assert departure_slope(z) >= 0.0
    assert math.isfinite(log_loss(z, 0.0))
    assert log_loss(z, 0.0) - log_loss(z, 1.0) == pytest.approx(z)
    found = fit_logistic([[z], [-z]], [0, 1])
    assert found.converged
    assert np.all((found.probability([[z]]) > 0) & (found.probability([[z]]) < 1))


@pytest.mark.parametrize("outcome", [0.7, -1, 2, math.nan, "1", None, math.inf])
def test_only_departures_are_learned_from(outcome: object) -> None:
    """david-cortes/contextualbandits#52 and #69: refused, and nothing has changed."""
    kept = LogisticEstimator(2)
    kept.learn([0.5, 0.1], True)
    before = kept.fit()
    with pytest.raises(InputError, match="0 or 1"):
        kept.learn([0.5, 0.1], outcome)
    after = kept.fit()
    assert np.array_equal(before.theta, after.theta)
    assert np.array_equal(before.covariance, after.covariance)
    assert kept.n_outcomes == 1


def test_bad_features_and_knobs_are_refused() -> None:
    kept = LogisticEstimator(2)
    for features in ([0.5], [0.5, math.nan], [0.5, math.inf], [[0.5, 0.1]]):
        with pytest.raises(InputError, match="features"):
            kept.learn(features, 1)
    with pytest.raises(InputError, match="ridge"):
        fit_logistic([[1.0]], [1], ridge=0.0)
    with pytest.raises(InputError, match="norm_bound"):
        fit_logistic([[1.0]], [1], norm_bound=math.nan)
    with pytest.raises(InputError, match="estimator"):
        LogisticEstimator(2, estimator="newton")
    with pytest.raises(InputError, match="growth"):
        LogisticEstimator(2, growth=1.0)
    with pytest.raises(InputError, match="dimension"):
        LogisticEstimator(0)
    with pytest.raises(InputError, match="outcomes"):
        fit_logistic([[1.0], [2.0]], [1])


def test_an_estimator_outgrows_its_room() -> None:
    x, y = table(200, 3, seed=12)
    small, large = LogisticEstimator(3, capacity=1), LogisticEstimator(3, capacity=500)
    for row, outcome in zip(x, y, strict=True):
        small.learn(row, outcome)
        large.learn(row, outcome)
    assert small.n_outcomes == 200
    assert np.array_equal(small.fit().theta, large.fit().theta)


@pytest.mark.parametrize("estimator", ["growth", "online"])
def test_online_steps_forget_nothing_at_the_sphere(estimator: str) -> None:
    """A bound that binds all the time: the direction is still that of the exact estimate."""
    x, y = table(2000, 4, seed=15, size=1.0)
    bound = 0.02
    kept = LogisticEstimator(4, norm_bound=bound, estimator=estimator)
    agreements = []
    for i in range(2000):
        kept.learn(x[i], y[i])
        if i % 37 == 36:
            exact = fit_logistic(x[: i + 1], y[: i + 1], norm_bound=bound).theta
            theta = kept.fit().theta
            assert np.linalg.norm(theta) <= bound * (1 + 1e-9)
            agreements.append(theta @ exact / bound**2)
    assert min(agreements[5:]) > 0.99


def test_real_separable_and_constant_columns(data: Path) -> None:
    """wine: class 0 against the rest, columns from 0.1 to 1,700; digits: constant pixels."""
    for name, d in (("wine", 13), ("digits", 64)):
        table = np.loadtxt(data / "full_feedback" / f"{name}.csv", delimiter=",", skiprows=1)
        y = (table[:, 0] == 0).astype(float)
        for x in (table[:, 1:], table[:, 1:] / np.abs(table[:, 1:]).max()):
            found = fit_logistic(x, y)
            assert found.theta.shape == (d,)
            assert found.stationarity < 1e-6
            assert np.isfinite(found.theta).all()
            assert np.all((found.probability(x) > 0) & (found.probability(x) < 1))
            constant = np.ptp(x, axis=0) == 0
            assert np.abs(found.theta[constant & (x[0] == 0)]).max(initial=0.0) == 0
            ball = fit_logistic(x, y, norm_bound=0.5)
            assert np.linalg.norm(ball.theta) <= 0.5 * (1 + 1e-9)
            assert ball.stationarity < 1e-5
