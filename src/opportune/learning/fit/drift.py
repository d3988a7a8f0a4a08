"""Does something change over the log? A test on partial sums, the same for all we estimate.

Implements: the CUSUM test for a change of level (Ploberger and Kraemer 1992, quoted): under a
constant level, max_m |sum_{i<=m} (x_i - mean x)| / (sigma sqrt n) tends in law to the largest
absolute value of a Brownian bridge, whose tail is Kolmogorov's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import kolmogorov

Float = NDArray[np.float64]

SMALL = 0.01
"""A drift is told when its probability under no change, times the number of tests, is below."""

LEAST = 8
"""Fewest values for a test."""


@dataclass(frozen=True)
class Drift:
    """A test of one series.

    Attributes:
        what: What was tested.
        n: How many values.
        p_value: Probability of so large a deviation if nothing changed.
        place: Where along the log the deviation is largest, from 0 to 1.
        before: Mean up to there.
        after: Mean from there on.
    """

    what: str
    n: int
    p_value: float
    place: float
    before: float
    after: float


def drift_test(what: str, values: Float, level: Float | None = None) -> Drift | None:
    """The test for a series in order of time; None if it is too short or constant.

    Args:
        what: Name of the series.
        values: (n,) the series, minus whatever explains it (type, server).
        level: (n,) the same in units for a reader, for ``before`` and ``after``; values if None.
    """
    n = len(values)
    if n < LEAST:
        return None
    centered = values - values.mean()
    spread = float(np.sqrt(np.mean(centered**2)))
    if not spread > 1e-12 * (1.0 + abs(float(values.mean()))):
        return None
    path = np.cumsum(centered)[:-1]
    m = int(np.argmax(np.abs(path)))
    statistic = float(abs(path[m])) / (spread * np.sqrt(n))
    shown = values if level is None else level
    return Drift(
        what,
        n,
        float(kolmogorov(statistic)),
        (m + 1) / n,
        float(shown[: m + 1].mean()),
        float(shown[m + 1 :].mean()),
    )


def noticed(tests: Sequence[Drift]) -> list[Drift]:
    """Tests that remain small after Holm's correction for their number, smallest first."""
    found = []
    for i, one in enumerate(sorted(tests, key=lambda test: test.p_value)):
        if one.p_value * (len(tests) - i) >= SMALL:
            break
        found.append(one)
    return found
