"""Shrinkage of a table of successes to effects of servers and types, added or multiplied.

Implements: ours. p_vm has a Beta prior with strength kappa and mean mu + a_v + b_m, or mu a_v b_m:
whichever, with its kappa, makes the outcomes more likely (the beta-binomial marginal likelihood,
where each pair's p_vm is integrated out). So a table of which scores are skill times difficulty is
told from one of which they are skill plus ease, and neither is chosen where it explains nothing.

Effects are found one after another, pair means weighed with n (kappa + 1) / (n + kappa), the trials
that a pair of so many is worth to an effect, and held at none by ``PSEUDO`` trials.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from opportune.learning.shrinkage import INSIDE, PSEUDO, STRONGEST, WEAKEST, ShrunkTable

Float = NDArray[np.float64]

STRENGTHS = np.geomspace(WEAKEST, STRONGEST, 24)
"""Strengths that are tried."""

FIRST, ROUNDS, SWEEPS = 10.0, 3, 10
"""The strength that effects begin with; rounds of effects and strength; sweeps of a round."""


def shrink_to_effects(success: Float, trials: Float) -> ShrunkTable:
    """Posterior means and deviations, shrunk to the better of a sum and a product of effects.

    A server or type that was never seen has no effect; that it may have one widens its deviation,
    as in ``shrinkage.shrink_table``.

    Args:
        success: (V, M) successes, or sums of outcomes from 0 to 1.
        trials: (V, M) how often each pair was seen.
    """
    fits = [_fitted(success, trials, product) for product in (False, True)]
    _, center, unsure, strength = max(fits, key=lambda fit: fit[0])
    weight = trials + strength
    mean = (success + strength * center) / weight
    variance = mean * (1.0 - mean) / (weight + 1.0) + (strength / weight) ** 2 * unsure
    return ShrunkTable(mean, np.sqrt(variance), center, strength)


def marginal_likelihood(success: Float, trials: Float, center: Float, strength: float) -> float:
    """Log probability of the outcomes of all pairs, up to a constant.

    sum over pairs of ln B(s + kappa m, n - s + kappa (1 - m)) - ln B(kappa m, kappa (1 - m)).
    """
    a, b = strength * center, strength * (1.0 - center)
    return float((betaln(success + a, trials - success + b) - betaln(a, b)).sum())


def _fitted(success: Float, trials: Float, product: bool) -> tuple[float, Float, Float, float]:
    """Likelihood, prior means, their variance, and strength of one way to join the effects."""
    strength, likely, center, weight = FIRST, 0.0, trials, trials
    for _ in range(ROUNDS):
        weight = trials * (strength + 1.0) / (trials + strength)
        center = _effects(success, trials, weight, product)
        tried = [marginal_likelihood(success, trials, center, one) for one in STRENGTHS]
        place = int(np.argmax(tried))
        strength, likely = float(STRENGTHS[place]), tried[place]
    seen = 1.0 / (weight.sum(axis=0) + PSEUDO) + 1.0 / (weight.sum(axis=1)[:, None] + PSEUDO)
    return likely, center, center * (1.0 - center) * seen, strength


def _effects(success: Float, trials: Float, weight: Float, product: bool) -> Float:
    """(V, M) prior means: mu + a_v + b_m, or mu a_v b_m."""
    overall = (float(success.sum()) + 1.0) / (float(trials.sum()) + 2.0)
    mean = np.divide(success, trials, out=np.zeros_like(success), where=trials > 0)
    by_server, by_type = weight.sum(axis=0), weight.sum(axis=1)[:, None]
    if not product:
        task_type, server = np.zeros((len(success), 1)), np.zeros(success.shape[1])
        for _ in range(SWEEPS):
            apart = weight * (mean - overall)
            server = (apart - weight * task_type).sum(axis=0) / (by_server + PSEUDO)
            task_type = (apart - weight * server).sum(axis=1)[:, None] / (by_type + PSEUDO)
        return np.clip(overall + task_type + server, INSIDE, 1.0 - INSIDE)
    task_type, server, share = np.ones((len(success), 1)), np.ones(success.shape[1]), mean / overall
    for _ in range(SWEEPS):
        server = ((weight * share).sum(axis=0) + PSEUDO) / (
            (weight * task_type).sum(axis=0) + PSEUDO
        )
        task_type = ((weight * share).sum(axis=1)[:, None] + PSEUDO) / (
            (weight * server).sum(axis=1)[:, None] + PSEUDO
        )
    return np.clip(overall * task_type * server, INSIDE, 1.0 - INSIDE)
