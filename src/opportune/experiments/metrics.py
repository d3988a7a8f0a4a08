"""Statistics of runs: means, intervals, paired differences. Pure functions of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Float = NDArray[np.float64]

LEVEL = 0.95
"""Coverage of every interval."""


def half_width(samples: Float) -> float:
    """Half width of the Student t interval of the mean of independent samples (n,).

    With one sample there is no interval: infinity.
    """
    n = len(samples)
    if n < 2:
        return float("inf")
    quantile = float(stdtrit(n - 1, (1 + LEVEL) / 2))
    return float(quantile * np.std(samples, ddof=1) / np.sqrt(n))


def standard_error(samples: Float) -> float:
    """Standard error of the mean of independent samples (n,); infinity for one."""
    n = len(samples)
    return float(np.std(samples, ddof=1) / np.sqrt(n)) if n > 1 else float("inf")


def percents(reward: Float, bound: Float) -> Float:
    """(n,) 100 reward / bound, 0 where the bound is 0."""
    return np.asarray(100.0 * np.divide(reward, bound, out=np.zeros_like(reward), where=bound > 0))
