"""Price again after something changed, starting from the prices that held before.

Rates, rewards, durations, servers and types may all have changed; what has the same name is
taken to be the same. The optimal prices move little when the instance does, so the dual starts
at a low temperature and few pairs are in doubt from the beginning (``pricing.dual``). The result
does not depend on the start, but for prices that are not unique.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.model.loss import LossInstance
from opportune.pricing import certificate
from opportune.pricing.demand import Demand
from opportune.pricing.occupancy import marginal_price, price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop

Float = NDArray[np.float64]


def replan(
    previous: Relaxation,
    instance: LossInstance,
    demand: Demand | None = None,
    stop: Stop | None = None,
) -> Relaxation:
    """Prices of a changed instance.

    Args:
        previous: Prices of the instance as it was.
        instance: The instance as it is.
        demand: By default the same as before. A blocking by type must fit the types that are.
        stop: When to end; by default at a gap of 1e-9, and an interrupt is an interrupt.

    Raises:
        OverloadError: With remedies, if every task must be served and cannot be.
        SolverError: If the solver ends without an optimal solution.
    """
    demand = previous.demand if demand is None else demand
    return price(instance, demand, stop=stop, start=carried_prices(previous, instance, demand))


def carried_prices(previous: Relaxation, instance: LossInstance, demand: Demand) -> Float:
    """(V,) prices to start from: the old ones by name, for new types what fits beside them.

    A new type's price is the one at which the servers that it favors, at the prices of their
    time and in the share of time in which they were free, would be just enough for it.
    """
    before = previous.instance
    old = dict(zip(before.task_types, previous.demand_price, strict=True))
    prices = np.array([old.get(name, np.nan) for name in instance.task_types])
    new = np.flatnonzero(np.isnan(prices))
    if len(new) == 0:
        return prices
    free_before = dict(zip(before.servers, previous.free_fraction, strict=True))
    usual = float(previous.free_fraction.mean())
    free = np.array([free_before.get(name, usual) for name in instance.servers])
    out_of_reach = float(instance.match_reward.max()) + 1.0
    capacity = certificate.capacity_price(
        instance, np.where(np.isnan(prices), out_of_reach, prices)
    )
    for v in new:
        prices[v] = marginal_price(instance, demand, int(v), capacity, free)
    return prices
