"""Prices over a day: one program per period, each started from the prices of the one before.

In a period, constraint (3) of OCC-LP is phi_r + sum_v E[D_v] u_vr = a_r, a_r the share of the
period that server r is on duty. Where not every task can be served, prices come from OCC-LP(B)
with B of Erlang's formula (with forbidden pairs or several k from OCC-LP(<=)). The values are
those of long periods, not bounds on the day: tasks run on into the next period, and servers
finish their task after their shift (ours).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from opportune.errors import OverloadError
from opportune.model.day import Day
from opportune.model.loss import LossInstance
from opportune.pricing.blocking import erlang_b, least_blocking
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop
from opportune.pricing.warm import replan

MOST_BLOCKING = 0.999
"""Blocking at which an overloaded period is priced, at most."""


@dataclass(frozen=True, eq=False)
class DayPrices:
    """Prices of every period, and of the mean day.

    Attributes:
        day: What was priced.
        periods: Of each period, None where nothing can happen (nobody on duty, no arrivals).
        mean: Of the mean day: what one plan for the whole day goes by.
        seconds: Time that the periods took.
    """

    day: Day
    periods: tuple[Relaxation | None, ...]
    mean: Relaxation
    seconds: float

    def of_period(self, p: int) -> Relaxation:
        """Prices to plan period p by: its own, or the mean day's where it has none."""
        own = self.periods[p]
        return self.mean if own is None else own


def price_day(day: Day, stop: Stop | None = None) -> DayPrices:
    """Price every period, warm-started from the one before, and the mean day.

    Raises:
        SolverError: If a solver ends without an optimal solution.
    """
    mean = _price(day.mean_day, None, stop)
    began = time.perf_counter()
    periods: list[Relaxation | None] = []
    previous = mean
    for p in range(day.n_periods):
        if day.is_idle(p):
            periods.append(None)
            continue
        previous = _price(day.period(p), previous, stop)
        periods.append(previous)
    return DayPrices(day, tuple(periods), mean, time.perf_counter() - began)


def _price(instance: LossInstance, previous: Relaxation | None, stop: Stop | None) -> Relaxation:
    """At zero blocking where every task can be served, else at the demand that there is."""
    for demand in (FULL, None):
        asked = overloaded_demand(instance) if demand is None else demand
        try:
            if previous is None:
                return price(instance, asked, stop=stop)
            return replan(previous, instance, asked, stop)
        except OverloadError:
            if demand is None:
                raise
    raise AssertionError("one of the two demands is feasible")


def overloaded_demand(instance: LossInstance) -> Demand:
    """Equality with Erlang's B where one B holds for all, at most otherwise."""
    lost = erlang_b(instance)
    if lost is None or instance.has_forbidden_pairs:
        return AT_MOST
    blocking = least_blocking(instance, lost)
    return Demand(blocking) if blocking < MOST_BLOCKING else AT_MOST
