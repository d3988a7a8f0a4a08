"""The instances that are measured: made by a rule, so that they are the same everywhere."""

from __future__ import annotations

import numpy as np

from opportune.model.duration import Empirical
from opportune.model.loss import LossInstance, loss_instance

SEED = 2018
LOAD = 0.7
K = 3
MEDIAN_DAYS = 40
"""Of a review. The logarithm of the days is normal with deviation 0.35, on 14 to 120 days."""


def review_instance(n_types: int, n_servers: int) -> LossInstance:
    """Peer review at load 0.7: k = 3, scores uniform on [0, 1], durations as a histogram.

    A step is a day for up to 30 servers and a whole fraction of a day for more, so that at
    most one task arrives per step.

    Args:
        n_types: V, equally frequent.
        n_servers: R.
    """
    steps_per_day = max(1, n_servers // 30)
    days = np.arange(14, 121)
    weight = np.exp(-((np.log(days / MEDIAN_DAYS) / 0.35) ** 2) / 2) / days
    scores = np.random.default_rng(SEED).random((n_types, n_servers))
    return loss_instance(
        scores,
        np.full(n_types, 1e-3 / n_types),
        Empirical(days * steps_per_day, weight),
        servers_per_task=K,
        name=f"review-{n_types}x{n_servers}",
    ).with_load(LOAD)
