"""How fast tasks come and how long they take, from a stream that is still running (ours).

Implements: ``learned.md`` 1.3. Rates with one pseudo-arrival per type; mean durations as time in
service, that of running services included, over services ended (the estimate of maximum likelihood
for memoryless durations under censoring), with one pseudo-service of the mean of all types; load
capped below what a linear program that serves every task can bear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance

Float = NDArray[np.float64]
Int = NDArray[np.int64]

CAP = 0.97
"""Share of the largest feasible load 1 - k/R up to which a load is believed."""


@dataclass(frozen=True, eq=False)
class Pace:
    """What has been counted so far.

    Attributes:
        elapsed: Steps since the beginning.
        arrived: (V,) tasks that arrived.
        ended: (V,) services that ended.
        in_service: (V,) steps in service, of ended and running services together.
    """

    elapsed: int
    arrived: Int
    ended: Int
    in_service: Int


def arrival_rates(pace: Pace) -> Float:
    """(V,) lambda_v = (arrived + 1) / (elapsed + 1), all scaled alike to at most one per step."""
    rate = (pace.arrived + 1.0) / (pace.elapsed + 1.0)
    return np.asarray(rate / max(1.0, float(rate.sum())))


def mean_durations(pace: Pace) -> Float:
    """(V,) mean steps in service, at least 1."""
    overall = (float(pace.in_service.sum()) + 1.0) / (float(pace.ended.sum()) + 1.0)
    return np.maximum((pace.in_service + overall) / (pace.ended + 1.0), 1.0)


def capped(instance: LossInstance) -> LossInstance:
    """The instance with all rates scaled so that its load is at most .97 (1 - k/R)."""
    k = int(instance.servers_per_task.max())
    most = CAP * (1.0 - k / instance.n_servers)
    if instance.load <= most or not most > 0:
        return instance
    rate = instance.arrival_rate * (most / instance.load)
    return replace(instance, arrival_rate=rate)


def estimated(instance: LossInstance, pace: Pace) -> LossInstance:
    """The instance with the rates and mean durations that the counts tell instead of its own."""
    duration = tuple(Geometric(float(mean)) for mean in mean_durations(pace))
    return replace(instance, arrival_rate=arrival_rates(pace), duration=duration)
