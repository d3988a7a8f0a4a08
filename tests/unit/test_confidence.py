"""Confidence radii: their closed forms, and that the truth stays inside."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.kernels.logistic import (
    DESIGN,
    INFORMATION,
    LOSSES,
    PHI,
    THETA,
    departure_probability,
    new_learner,
)
from opportune.kernels.logistic_fit import learn
from opportune.kernels.queue import Radius
from opportune.learning.confidence import (
    constant_radius,
    ecolog_radius,
    ofuglb_radius,
    ofuglb_ridge,
    paper_radius,
    radius_after,
    rising_radius,
)
from opportune.learning.estimator import fitting

Float = NDArray[np.float64]

DELTA = 0.05


def test_the_papers_radius_is_its_formula() -> None:
    d, kappa, ridge, bound, delta = 7, 12.0, 0.5, 2.0, 1e-3
    for share, tight in ((0.25, True), (0.5, False)):
        radius = paper_radius((d, kappa, ridge, bound), delta, tight=tight)
        for n in (0, 1, 10, 10**6):
            inside = share * d * math.log(1 + n / (kappa * ridge * d)) + 0.5 * math.log(1 / delta)
            expected = kappa * math.sqrt(inside) + bound * math.sqrt(kappa * ridge)
            assert radius_after(radius, n) == pytest.approx(expected, rel=1e-14)
    scaled = paper_radius((d, kappa, ridge, bound), delta, scale=0.1)
    whole = paper_radius((d, kappa, ridge, bound), delta)
    assert radius_after(scaled, 99) == pytest.approx(0.1 * radius_after(whole, 99))


def test_the_other_radii_are_their_formulas() -> None:
    d, bound, delta = 5, 1.5, 0.01
    for n in (0, 1, 2, 1000):
        losses = (1 + bound / 2) * (n - 1)
        b = math.log(1 / delta) + d * math.log(max(math.e, 2 * math.e * bound * losses / d))
        expected = math.sqrt(2 * (1 + bound) * (1 + b))
        assert radius_after(ofuglb_radius(d, bound, delta), n) == pytest.approx(expected)
        gamma = math.sqrt(2.0) / 2
        gamma += 2 / math.sqrt(2.0) * math.log(2 * math.sqrt(1 + n / 8.0) / delta)
        expected = math.sqrt(2 * 2.0 * bound**2 + (1 + bound) ** 2 * gamma + 3.0)
        assert radius_after(ecolog_radius(2.0, bound, delta), n, 3.0) == pytest.approx(expected)
        assert radius_after(constant_radius(0.5), n) == 0.5
        assert radius_after(rising_radius(0.5), n) == pytest.approx(
            0.5 * math.sqrt(math.log(math.e + n))
        )
    assert radius_after(constant_radius(0), 5) == 0.0


def largest_ratio(
    kind: str, setting: tuple[int, float], runs: int, rounds: int
) -> tuple[float, int]:
    """Largest ||theta_hat - theta*||_A / radius over runs and rounds, and runs that exceed 1."""
    d, size = setting
    rng = np.random.default_rng(17)
    kappa = 2 + math.exp(size) + math.exp(-size)
    worst, misses = 0.0, 0
    for _ in range(runs):
        truth = rng.normal(size=d)
        truth *= size / np.linalg.norm(truth)
        if kind in ("paper", "paper loose"):
            ridge, start, name, by_design = 1.0, kappa, "exact", True
            radius = paper_radius((d, kappa, ridge, size), DELTA, tight=kind == "paper")
        elif kind == "ofuglb":
            ridge, start, name, by_design = ofuglb_ridge(size), 1.0, "exact", False
            radius = ofuglb_radius(d, size, DELTA)
        else:
            ridge, start, name, by_design = 1.0, 1.0, "ecolog", False
            radius = ecolog_radius(ridge, size, DELTA)
        top = run_ratio((ridge, start, name, by_design), truth, radius, rng, rounds)
        worst = max(worst, top)
        misses += top > 1
    return worst, misses


def run_ratio(
    kind: tuple[float, float, str, bool],
    truth: Float,
    radius: Radius,
    rng: np.random.Generator,
    rounds: int,
) -> float:
    """Largest ratio of error to radius in one run."""
    ridge, start, name, by_design = kind
    d = len(truth)
    rule, how = fitting(ridge, float(np.linalg.norm(truth)), name)
    learner = new_learner(1, d, rounds, ridge, start)
    worst = 0.0
    for n in range(1, rounds + 1):
        phi = rng.normal(size=d)
        phi /= np.linalg.norm(phi)
        learner.vector[PHI, 0] = phi
        outcome = float(rng.random() < departure_probability(float(phi @ truth)))
        learn(learner, 0, outcome, how, (rule, by_design))
        error = learner.vector[THETA, 0] - truth
        matrix = learner.matrix[DESIGN if by_design else INFORMATION, 0]
        losses = float(learner.number[LOSSES])
        worst = max(worst, math.sqrt(error @ matrix @ error) / radius_after(radius, n, losses))
    return worst


@pytest.mark.parametrize("kind", ["paper", "paper loose", "ofuglb", "ecolog"])
@pytest.mark.parametrize("setting", [(3, 2.0), (2, 0.3)])
def test_the_truth_stays_inside_the_radius(kind: str, setting: tuple[int, float]) -> None:
    """40 runs of 400 rounds at delta = 0.05, every round looked at: at most 2 may leave."""
    worst, misses = largest_ratio(kind, setting, runs=40, rounds=400)
    assert misses <= 2
    assert worst > 0.03  # and the radius is not simply enormous


def test_the_tight_radius_is_tight_where_the_norm_is_small() -> None:
    """CQB 2.3: the largest ratio was 0.96 at d = 2, S = 0.3 and 0.51 at d = 3, S = 2."""
    assert 0.6 < largest_ratio("paper", (2, 0.3), 40, 400)[0] <= 1.0
    assert 0.25 < largest_ratio("paper", (3, 2.0), 40, 400)[0] < 0.8


def test_knobs_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="delta"):
        paper_radius((2, 5.0, 1.0, 1.0), 0.0)
    with pytest.raises(InputError, match="curvature"):
        paper_radius((2, 3.0, 1.0, 1.0), 0.1)
    with pytest.raises(InputError, match="ridge"):
        paper_radius((2, 5.0, 0.0, 1.0), 0.1)
    with pytest.raises(InputError, match="scale"):
        paper_radius((2, 5.0, 1.0, 1.0), 0.1, scale=-1.0)
    with pytest.raises(InputError, match="deviations"):
        constant_radius(math.nan)
    with pytest.raises(InputError, match="norm_bound"):
        ofuglb_radius(2, 0.0, 0.1)
