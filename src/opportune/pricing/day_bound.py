"""A certified bound on the reward of a day: every server alone, paying for each task (ours).

Let a policy pay l_v(t) >= 0 for every server that it gives to a task of type v in step t. It pays
at most sum_t sum_v k_v lambda_v(t) l_v(t) on average, whatever it does. What is left is to bound
the reward after payment, server by server: no server does better than one that may take or leave
every task that comes while it is on duty and free. With V_r(t) the most that server r, free at
step t, can expect from there on,

    V_r(t) = V_r(t+1) + sum_v lambda_v(t) max(0, s_vr - l_v(t) - Q_vr(t))    on duty, allowed pairs
    V_r(t) = V_r(t+1)                                                        off duty
    Q_vr(t) = V_r(t+1) - E V_r(t+1+D_v) = sum_{j >= 1} P(D_v >= j) (V_r(t+j) - V_r(t+j+1))

and V_r = 0 after the last step. So a day earns at most, on average,

    sum_r V_r(0) + sum_t sum_v k_v lambda_v(t) l_v(t)

under any policy that does not know what is to come: it may know all rates and shifts and change its
plan at any time. Any l >= 0 gives a bound, so nothing hangs on how they were found. Here they are
the demand prices of OCC-LP(<=) of each period. It holds as well for servers that are still busy
from the day before (V_r falls in t), and for tasks that run over the end (a task is paid at once).

With one period that lasts, V_r(t) - V_r(t+1) is the capacity price q_r and the bound per step is
the dual value of OCC-LP. Where P(D >= j) is cut off below ``NEGLIGIBLE``, Q is too small and the
bound a little larger than it need be.

Implements: Lagrange bound of the demand constraints of the day's program; per-server dynamic
program (ours).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.axes import Quantity
from opportune.model.day import Day
from opportune.model.duration import Duration, Geometric
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop
from opportune.pricing.warm import replan

Float = NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Probability of a longer task below which a histogram of durations is cut off."""


@dataclass(frozen=True, eq=False)
class DayBound:
    """What a day can earn at most, on average.

    Attributes:
        value: The certified bound on the mean reward of the first ``steps`` steps of the day.
        steps: How many steps it is about.
        demand_price: The payments that prove it.
        by_period: Value of each period's own program, its steps times its bound per step: what
            the periods would earn at most if each lasted for ever. Their sum bounds no day.
    """

    value: Annotated[float, Quantity("B", "", "reward", "certified bound on a day's mean reward")]
    steps: Annotated[int, Quantity("T", "", "steps", "steps that the bound is about")]
    demand_price: Annotated[
        Float, Quantity("l_pv", "P,V", "reward", "payment per server and task by period")
    ]
    by_period: Annotated[
        Float, Quantity("b_p", "P", "reward", "value of each period's program by itself")
    ]


def bound_day(day: Day, steps: int | None = None, stop: Stop | None = None) -> DayBound:
    """A certified bound on the mean reward of a day, or of its beginning.

    Args:
        day: Rates and shifts; durations by task type.
        steps: Steps from the start of the day; None for all of it.
        stop: When pricing of each period ends.

    Raises:
        InputError: If durations depend on the server, or ``steps`` is not within the day.
        SolverError: If a solver ends without an optimal solution.
    """
    demand_price = np.zeros((day.n_periods, day.base.n_types))
    by_period = np.zeros(day.n_periods)
    previous: Relaxation | None = None
    for p in range(day.n_periods):
        if day.is_idle(p):
            continue
        instance = day.period(p)
        if previous is None:
            previous = price(instance, AT_MOST, stop=stop)
        else:
            previous = replan(previous, instance, AT_MOST, stop)
        demand_price[p] = np.maximum(previous.demand_price, 0.0)
        by_period[p] = previous.dual_value * day.period_steps
    until = day.steps if steps is None else steps
    return DayBound(day_dual_value(day, demand_price, until), until, demand_price, by_period)


def day_dual_value(day: Day, demand_price: Float, steps: int) -> float:
    """The bound that payments prove.

    Args:
        day: Rates and shifts; durations by task type.
        demand_price: (P, V) payment per server and task, at least 0.
        steps: Steps from the start of the day that the bound is about.

    Raises:
        InputError: If a payment is negative, durations depend on the server, or ``steps`` is not
            within the day.
    """
    base = day.base
    if base.server_duration is not None:
        told, expected = "durations depend on the server", "durations by task type"
        raise InputError(Problem("duration", told, expected))
    if not 1 <= steps <= day.steps:
        raise InputError(Problem("steps", str(steps), f"1 to {day.steps}, the steps of the day"))
    expected = f"({day.n_periods}, {base.n_types}) finite numbers, at least 0"
    if (
        demand_price.shape != (day.n_periods, base.n_types)
        or not (np.isfinite(demand_price) & (demand_price >= 0)).all()
    ):
        raise InputError(Problem("demand_price", "other values", expected))
    rate = base.arrival_rate * day.multiplier
    margin = base.match_reward - demand_price[:, :, None]  # (P, V, R)
    margin = np.where(base.allowed, margin, -np.inf)
    on_duty = _on_duty(day)
    cost = _Cost(base.duration, base.n_servers, steps)
    total = 0.0
    for t in range(steps - 1, -1, -1):
        p = t // day.period_steps
        gain = rate[p] @ np.maximum(margin[p] - cost.value, 0.0)
        gain *= on_duty[t]
        cost.step_back(t, gain)
        total += float(gain.sum()) + float(rate[p] * base.servers_per_task @ demand_price[p])
    return total


class _Cost:
    """Q_vr(t): what a server's time is worth that a task takes; from the last step backwards."""

    def __init__(self, laws: tuple[Duration, ...], n_servers: int, steps: int) -> None:
        self._stay = np.array(
            [1.0 - 1.0 / law.mean if isinstance(law, Geometric) else 0.0 for law in laws]
        )
        self._listed = [v for v, law in enumerate(laws) if not isinstance(law, Geometric)]
        tails = [laws[v].tail(np.arange(1, steps + 1)) for v in self._listed]
        longest = max((int((tail > NEGLIGIBLE).sum()) for tail in tails), default=0)
        self._tail = np.array([tail[:longest] for tail in tails]).reshape(len(tails), longest)
        self._gain = np.zeros((steps + longest, n_servers))
        self.value = np.zeros((len(laws), n_servers))

    def step_back(self, t: int, gain: Float) -> None:
        """From Q(t) to Q(t - 1), given V(t) - V(t+1)."""
        self._gain[t] = gain
        self.value = gain + self._stay[:, None] * self.value  # P(D >= j) falls by one factor
        if self._listed:
            self.value[self._listed] = self._tail @ self._gain[t : t + self._tail.shape[1]]


def _on_duty(day: Day) -> NDArray[np.bool_]:
    """(T, R) whether a server takes tasks in a step."""
    there = np.ones((day.steps, day.base.n_servers), dtype=np.bool_)
    for server, first, end in day.off_duty:
        there[first:end, server] = False
    return there
