"""Estimates of a table of success probabilities, each pair by itself: Beta(1, 1) posteriors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from opportune.policies.beliefs import Beliefs

Float = NDArray[np.float64]


def posterior_mean(beliefs: Beliefs) -> Float:
    """(V, M) (1 + successes) / (2 + trials)."""
    return np.asarray((beliefs.success + 1.0) / (beliefs.trials + 2.0))


def upper_quantile(beliefs: Beliefs) -> Float:
    """(V, M) posterior quantile at 1 - 1 / (tasks so far), at least the median.

    Bayes-UCB (Kaufmann, Cappe, Garivier 2012) with horizon exponent 0.
    """
    level = 1.0 - 1.0 / max(beliefs.n_tasks, 2)
    a, b = _posterior(beliefs)
    return np.asarray(betaincinv(a, b, level))


def posterior_draw(beliefs: Beliefs) -> Float:
    """(V, M) one draw of every pair (Thompson 1933)."""
    return np.asarray(beliefs.draws.beta(*_posterior(beliefs)))


def _posterior(beliefs: Beliefs) -> tuple[Float, Float]:
    failures = np.maximum(beliefs.trials - beliefs.success, 0.0)
    return beliefs.success + 1.0, failures + 1.0
