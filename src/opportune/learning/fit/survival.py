"""Durations of which some were not seen to their end: Kaplan-Meier, and the memoryless law.

A censored duration of c steps is one that lasted longer than c steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtrc

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

TAIL = 0.025
"""Each side outside a 95 % interval."""

AGE_BINS = 10
"""Ages between which the hazard is compared in the test of the memoryless law."""

LEAST_EXPECTED = 5.0
"""Fewest ends expected in a bin of that test."""


@dataclass(frozen=True, eq=False)
class Survival:
    """The product-limit estimate of a law of durations.

    Attributes:
        steps: (n,) durations at which a service ended.
        mass: (n,) probability of each.
        beyond: Probability left beyond the longest duration seen; 0 if that one ended.
        last: The longest duration seen, ended or not.
        mean: Mean, restricted to ``last``.
        error: Its standard error.
    """

    steps: Int
    mass: Float
    beyond: float
    last: int
    mean: float
    error: float


def kaplan_meier(steps: Int, complete: Bool) -> Survival:
    """The law of durations, some of them censored.

    Implements: Kaplan and Meier (1958), quoted: S(t) = prod_{i: t_i <= t} (1 - d_i / n_i), with d_i
    ends among n_i at risk at t_i; a service censored at t_i is still at risk there. The mean is
    the area under S up to the longest duration; its variance sum_i A_i^2 d_i / (n_i (n_i - d_i)),
    A_i the area beyond t_i (theirs, section 6.2).

    Args:
        steps: (n,) durations in steps, at least 1 (a censored one: steps survived).
        complete: (n,) whether it ended; at least one must have.
    """
    at, d = np.unique(steps[complete], return_counts=True)
    n = len(steps) - np.searchsorted(np.sort(steps), at, side="left")
    survival = np.cumprod(1.0 - d / n)
    before = np.concatenate([[1.0], survival[:-1]])
    last = int(steps.max())
    edges = np.concatenate([[0], at, [last]])
    areas = np.concatenate([[1.0], survival]) * np.diff(edges)
    beyond = np.cumsum(areas[::-1])[::-1][1:]  # A_i
    open_ = n > d
    terms = beyond[open_] ** 2 * d[open_] / (n[open_] * (n[open_] - d[open_]))
    ended = int(complete.sum())
    unbiased = ended / (ended - 1) if ended > 1 else np.inf
    error = float(np.sqrt(terms.sum() * unbiased)) if ended > 1 else float("inf")
    left = float(survival[-1]) if last > at[-1] or n[-1] > d[-1] else 0.0
    return Survival(at, before - survival, left, last, float(areas.sum()), error)


def geometric_mean(steps: Int, complete: Bool) -> tuple[float, float, float]:
    """Mean of the memoryless law with the largest likelihood, and its 95 % interval.

    Implements: E ends in N server steps at risk: the end probability is E / N, its exact interval
    Clopper and Pearson's (1934), quoted.
    """
    ends, trials = int(complete.sum()), int(steps.sum())
    low = betaincinv(ends, trials - ends + 1, TAIL) if ends else 0.0
    high = betaincinv(ends + 1, trials - ends, 1 - TAIL) if ends < trials else 1.0
    mean = trials / ends if ends else float("inf")
    return mean, 1.0 / float(high), 1.0 / float(low) if low > 0 else float("inf")


def memoryless_test(steps: Int, complete: Bool) -> float:
    """Probability of so uneven a hazard if the law is memoryless; 1 if there is too little.

    Pearson's statistic of ends by age, against the same end probability at every age: bins
    between quantiles of the fitted memoryless law. Censoring needs no extra care, as only steps at
    risk are counted.
    """
    p = float(complete.sum() / steps.sum())
    if p >= 1.0:
        return 1.0
    shares = np.arange(1, AGE_BINS) / AGE_BINS
    quantiles = np.ceil(np.log1p(-shares) / np.log1p(-p))
    edges = np.unique(np.concatenate([[0.0], quantiles, [max(steps.max(), quantiles[-1] + 1)]]))
    ends = np.histogram(steps[complete], bins=edges + 0.5)[0].astype(np.float64)
    at_edge = np.minimum(steps[:, None], edges[None, :]).sum(axis=0)
    risk = np.diff(at_edge).astype(np.float64)
    keep = (risk * p >= LEAST_EXPECTED) & (risk * (1 - p) > 0)
    if keep.sum() < 2:
        return 1.0
    statistic = float(((ends - risk * p)[keep] ** 2 / (risk * p * (1 - p))[keep]).sum())
    return float(chdtrc(int(keep.sum()) - 1, statistic))
