"""How many tasks per step the oracle can serve: known before any run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.contexts import PROBE, departure_rates, draw_uniform_contexts
from opportune.model.contexts import ContextPool, SignedContexts
from opportune.model.queue import QueueInstance, pool_rates
from opportune.model.queue_pool import pool_capacity
from opportune.model.streams import stream_key

PROBES = 2000
"""Contexts drawn to estimate a capacity that has no closed form."""


@dataclass(frozen=True)
class Capacity:
    """What the oracle can serve.

    Attributes:
        tasks_per_step: Largest arrival rate that it can keep up with, one server at a time:
            1 / mean number of tries of a task.
        mean_best_rate: Mean over the contexts of the best success rate.
        least_best_rate: The smallest of them; its excess over the arrival rate is the slack.
    """

    tasks_per_step: float
    mean_best_rate: float
    least_best_rate: float


def queue_capacity(instance: QueueInstance) -> Capacity:
    """The capacity of an instance: exact, or from drawn contexts where entries are uniform.

    Formula (ours): with success rate p a task takes 1 / p tries on average, so c tasks per step
    with c E[1 / max_a p(x, a)] = 1.
    """
    law = instance.contexts
    if isinstance(law, ContextPool):
        best = pool_rates(instance).max(axis=1)
        return Capacity(pool_capacity(instance), float(best.mean()), float(best.min()))
    rate = _rates(instance)
    best = rate.max(axis=1)
    return Capacity(float(1.0 / (1.0 / best).mean()), float(best.mean()), float(best.min()))


def mean_rates(instance: QueueInstance) -> NDArray[np.float64]:
    """(K,) mean success rate of every server over the contexts; of recorded outcomes as seen."""
    law = instance.contexts
    if isinstance(law, ContextPool) and law.outcome is not None:
        return np.asarray(law.outcome.mean(axis=0))
    return np.asarray(_rates(instance).mean(axis=0))


def _rates(instance: QueueInstance) -> NDArray[np.float64]:
    law, weight = instance.contexts, instance.true_weight
    d = weight.shape[1]
    if isinstance(law, SignedContexts):
        features = np.array(law.sign)[None, :, None] * np.eye(d)[:, None, :]
        rate = np.empty((d, instance.n_servers))
        departure_rates(np.ascontiguousarray(features), weight, rate)
        return rate
    if isinstance(law, ContextPool):
        return pool_rates(instance)
    features = np.empty((PROBES, instance.feature_rows, d))
    rate = np.empty((PROBES, instance.n_servers))
    limits = (law.least_logit, law.largest_logit, 1.0 / np.sqrt(d))
    draw_uniform_contexts(stream_key(0, 0), PROBE, weight, limits, (features, rate))
    return rate
