"""How near a fitted instance is to the load at which not every task can be served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opportune.learning.fit.cautions import AWAY, on_duty_load
from opportune.learning.fit.instance import Fit
from opportune.pricing.feasibility import max_load

NEAR = 0.9
"""A load above this share of the largest feasible one is told."""


def limit_cautions(fit: Fit) -> Fit:
    """The fit with cautions about its load: over the whole log, and in the day's busiest period."""
    instance = fit.instance
    if int(instance.servers_per_task.max()) == instance.n_servers or not instance.load > 0:
        return fit
    limit = max_load(instance)
    told = []
    if instance.load > limit:
        told.append(
            f"the load {instance.load:.3g} is above {limit:.3g}, the largest at which every task "
            "can be served: prices need --price-at blocking"
        )
    elif instance.load > NEAR * limit:
        told.append(
            f"the load {instance.load:.3g} is near {limit:.3g}, the largest at which every task "
            "can be served"
        )
    multiplier = fit.arrivals.multiplier
    if multiplier is not None and not told:
        work = instance.arrival_rate * instance.servers_per_task * instance.mean_duration
        loads = (multiplier * work).sum(axis=1) / work.sum() * instance.load
        worst = int(np.argmax(loads))
        if loads[worst] > NEAR * limit:
            told.append(
                f"in period {worst + 1} of {len(loads)} of the day the load is "
                f"{loads[worst]:.3g}; {limit:.3g} is the largest at which every task can be served"
            )
    return replace(fit, cautions=(*told, *_duty_cautions(fit), *fit.cautions))


def _duty_cautions(fit: Fit) -> list[str]:
    """The load of the servers that were seen at work, where that is less than always."""
    if fit.presence is None or not float(fit.presence.mean()) < AWAY:
        return []
    load = on_duty_load(fit)
    if not load > NEAR:
        return []
    return [
        f"counted by the time that servers were seen at work, the load is {load:.3g}: near or "
        "above what they can do"
    ]
