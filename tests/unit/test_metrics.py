"""Intervals and percentages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from opportune.experiments.metrics import half_width, percents


@pytest.mark.parametrize(
    ("samples", "quantile"), [([1.0, 3.0], 12.7062), ([1.0, 2.0, 6.0], 4.3027), ([0.0] * 5, 2.7764)]
)
def test_the_half_width_is_students(samples: list[float], quantile: float) -> None:
    """Quantiles of the t table at 97.5 % for 1, 2 and 4 degrees of freedom."""
    n, mean = len(samples), sum(samples) / len(samples)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in samples) / (n - 1))
    want = quantile * deviation / math.sqrt(n)
    assert half_width(np.array(samples)) == pytest.approx(want, rel=1e-4)


def test_it_covers_the_mean_in_95_of_100_cases() -> None:
    """10,000 samples of 5: the share covered within 5 standard errors of .95."""
    rng = np.random.default_rng(101)
    draws = rng.normal(2.0, 3.0, (10_000, 5))
    covered = np.mean([abs(row.mean() - 2.0) <= half_width(row) for row in draws])
    assert abs(covered - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 10_000)
    assert half_width(draws[0]) == pytest.approx(
        t.ppf(0.975, 4) * draws[0].std(ddof=1) / math.sqrt(5)
    )


def test_one_sample_has_no_interval() -> None:
    assert half_width(np.array([3.0])) == math.inf
    assert half_width(np.array([])) == math.inf


def test_percent_of_nothing_is_zero() -> None:
    got = percents(np.array([1.0, 2.0, 0.0, 5.0]), np.array([2.0, 0.0, 0.0, 4.0]))
    assert got.tolist() == [50.0, 0.0, 0.0, 125.0]
