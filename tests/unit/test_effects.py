"""Shrinkage to effects that add up or multiply: the form is found, and it pays."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.learning.effects import marginal_likelihood, shrink_to_effects
from opportune.learning.shrinkage import shrink_table

Float = NDArray[np.float64]


def observed(rng: np.random.Generator, truth: Float, trials: Float) -> Float:
    return rng.binomial(trials.astype(int), truth).astype(float)


def rising(start: Fraction, n: int) -> Fraction:
    """start (start + 1) ... (start + n - 1)."""
    return start * rising(start + 1, n - 1) if n else Fraction(1)


def test_the_likelihood_is_that_of_an_urn() -> None:
    """Beta-binomial: draws from an urn of kappa balls to which each ball drawn brings another."""
    success, trials, center, strength = [0, 2, 5], [0, 3, 5], [0.5, 0.25, 0.75], 4.0
    exact = 0.0
    for s, n, m in zip(success, trials, center, strict=True):
        a, b = Fraction(strength) * Fraction(m), Fraction(strength) * (1 - Fraction(m))
        exact += log(rising(a, s) * rising(b, n - s) / rising(a + b, n))
    arrays = [np.array(one, dtype=float) for one in (success, trials, center)]
    assert marginal_likelihood(arrays[0], arrays[1], arrays[2], strength) == pytest.approx(exact)
    sure = [
        comb(4, s) * np.exp(marginal_likelihood(np.array([s]), np.array([4.0]), np.array([0.3]), 7))
        for s in range(5)
    ]
    assert sum(sure) == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["product", "sum"])
def test_the_form_that_made_the_scores_is_found(form: str) -> None:
    rng = np.random.default_rng(3)
    task_type, server = np.linspace(0, 1, 10)[:, None], np.linspace(0, 1, 30)
    truth = task_type * server if form == "product" else 0.1 + 0.4 * task_type + 0.4 * server
    trials = rng.poisson(6, truth.shape).astype(float)
    success = observed(rng, truth, trials)
    found, plain = shrink_to_effects(success, trials), shrink_table(success, trials)
    rows, columns = found.center[[2, 8]], found.center[:, [5, 25]]
    if form == "product":
        assert rows[1, 15:] / rows[0, 15:] == pytest.approx(rows[1, 20] / rows[0, 20], rel=1e-6)
        assert np.mean((found.mean - truth) ** 2) < 0.6 * np.mean((plain.mean - truth) ** 2)
    else:
        apart = columns[:, 1] - columns[:, 0]
        assert apart == pytest.approx(apart[0], abs=1e-6)
        assert np.mean((found.mean - truth) ** 2) < 1.3 * np.mean((plain.mean - truth) ** 2)


def test_a_server_that_served_one_type_only_is_not_taken_for_its_type() -> None:
    """Means of servers over whatever they served mix up the two; effects found together do not."""
    trials = np.full((2, 6), 60.0)
    trials[0, 5] = 0.0  # the last server got the hard type only
    truth = np.array([[0.8] * 6, [0.4] * 6])
    found, plain = shrink_to_effects(truth * trials, trials), shrink_table(truth * trials, trials)
    assert abs(found.mean[0, 5] - 0.8) < 0.05 < abs(plain.mean[0, 5] - 0.8)
    assert found.sd[0, 5] > found.sd[0, 0]


def test_nothing_seen_and_everything_alike_give_finite_numbers() -> None:
    none = shrink_to_effects(np.zeros((3, 4)), np.zeros((3, 4)))
    assert none.mean == pytest.approx(0.5)
    for outcome in (0.0, 1.0):
        one = shrink_to_effects(np.full((3, 4), outcome * 9), np.full((3, 4), 9.0))
        assert np.isfinite(one.sd).all()
        assert ((one.mean > 0) & (one.mean < 1)).all()
        assert np.abs(one.mean - outcome).max() < 0.1
