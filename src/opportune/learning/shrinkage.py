"""Empirical-Bayes shrinkage of a table of successes to a server effect and a type effect.

Implements: ``learned.md`` 1, "EB" (ours): p_vm has a Beta prior with mean
m_vm = clip(server mean + type mean - overall mean) and a strength kappa in pseudo-trials that all
pairs share, found by moments. With n_vm trials and s_vm successes
E (s - n m)^2 / n = m (1 - m) (1 + (n - 1) / (kappa + 1)), so kappa follows from the sum over pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

INSIDE = 0.01
"""Prior means stay this far from 0 and 1: an effect that was never seen to fail may yet do so."""

PSEUDO = 2.0
"""Pseudo-trials of the overall mean that the mean of a server or type is shrunk with."""

WEAKEST, STRONGEST = 1.0, 200.0
"""Least and largest strength: one pseudo-trial keeps a width even where all pairs differ."""


@dataclass(frozen=True, eq=False)
class ShrunkTable:
    """Posterior of a table of success probabilities.

    Attributes:
        mean: (V, M) posterior mean.
        sd: (V, M) posterior standard deviation.
        center: (V, M) prior mean.
        strength: Pseudo-trials that the prior weighs.
    """

    mean: Float
    sd: Float
    center: Float
    strength: float


def shrink_table(success: Float, trials: Float) -> ShrunkTable:
    """Posterior means and deviations, shrunk to server mean + type mean - overall mean.

    Means of servers and types are shrunk themselves, to the overall mean, so a server that was
    never seen counts as an average one; that it need not be one widens its deviation:
    sd^2 = posterior variance given m + (kappa / (n + kappa))^2 var(m).

    Args:
        success: (V, M) successes, or sums of outcomes from 0 to 1.
        trials: (V, M) how often each pair was seen.
    """
    overall = (float(success.sum()) + 1.0) / (float(trials.sum()) + 2.0)
    n_server, n_type = trials.sum(axis=0), trials.sum(axis=1)[:, None]
    server = (success.sum(axis=0) + PSEUDO * overall) / (n_server + PSEUDO)
    task_type = (success.sum(axis=1)[:, None] + PSEUDO * overall) / (n_type + PSEUDO)
    center = np.clip(server + task_type - overall, INSIDE, 1.0 - INSIDE)
    strength = _strength(success, trials, center)
    weight = trials + strength
    mean = (success + strength * center) / weight
    unsure = center * (1.0 - center) * (1.0 / (n_server + PSEUDO) + 1.0 / (n_type + PSEUDO))
    variance = mean * (1.0 - mean) / (weight + 1.0) + (strength / weight) ** 2 * unsure
    return ShrunkTable(mean, np.sqrt(variance), center, strength)


def anchored(
    table: ShrunkTable, trials: Float, prior: Float, strength: Float
) -> tuple[Float, Float]:
    """Posterior mean and deviation where a prior counts as so many trials more, pair by pair.

    mean' = ((n + kappa) mean + w p) / (n + kappa + w); what the table is unsure of for another
    reason than chance (``shrink_table``) shrinks by the square of (n + kappa) / (n + kappa + w).
    Implements: ours. Without strength it is the table.

    Args:
        table: Posterior without the prior.
        trials: (V, M) n, as it was made from.
        prior: (V, M) p, in [0, 1].
        strength: (V, M) w, at least 0.
    """
    own = trials + table.strength
    weight = own + strength
    chance = table.mean * (1.0 - table.mean) / (own + 1.0)
    unsure = np.maximum(table.sd**2 - chance, 0.0) * (own / weight) ** 2
    mean = (own * table.mean + strength * prior) / weight
    return mean, np.sqrt(mean * (1.0 - mean) / (weight + 1.0) + unsure)


def _strength(success: Float, trials: Float, center: Float) -> float:
    """kappa by moments, within its limits; the largest where pairs differ by chance only."""
    seen = trials > 0
    spread = center[seen] * (1.0 - center[seen])
    apart = (success[seen] - trials[seen] * center[seen]) ** 2 / trials[seen]
    scale = float((spread * (trials[seen] - 1.0)).sum())
    if not scale > 0:
        return 2.0
    share = float((apart - spread).sum()) / scale  # 1 / (kappa + 1)
    return float(np.clip(1.0 / max(share, 1e-9) - 1.0, WEAKEST, STRONGEST))
