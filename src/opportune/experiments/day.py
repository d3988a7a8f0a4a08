"""Plans over a day: one per period against one for the mean day, and against other policies.

All rows see the same tasks of the same days, so differences are paired, day by day. Days of a
replication follow each other, the first one is not counted; tasks that run over the end of a
day tie two days together, which intervals over days neglect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, whole_problems
from opportune.experiments.metrics import half_width
from opportune.experiments.settings import Progress, repeated_problems
from opportune.model.day import Day
from opportune.policies.base import Plan, loss_policy
from opportune.pricing.day import DayPrices, price_day
from opportune.pricing.search import Stop
from opportune.simulate.day import DayTrace, simulate_day

Float = NDArray[np.float64]

BY_PERIOD, MEAN_DAY, ALL_DAY = "by period", "mean day", "all day"
"""What the plans of a row are made for: each period, one mean day, or the same either way."""

USUAL = ("lag", "greedy")


@dataclass(frozen=True)
class DaySettings:
    """How days are run.

    Attributes:
        policies: Policy ids; the first one is the one that differences are taken to.
        days: Counted days per replication.
        replications: Independent runs.
        seed: Seed of all streams.

    Raises:
        InputError: Naming the setting that is wrong.
    """

    policies: tuple[str, ...] = USUAL
    days: int = 20
    replications: int = 5
    seed: int = 1

    def __post_init__(self) -> None:
        problems = whole_problems(
            (
                ("days", self.days, 1, 10**6),
                ("replications", self.replications, 1, 10**5),
                ("seed", self.seed, 0, 2**64 - 1),
            )
        )
        problems += repeated_problems(self.policies)
        if not self.policies:
            problems.append(Problem("policies", "none", "at least one policy"))
        if problems:
            raise InputError(problems)
        for one in self.policies:
            loss_policy(one)


@dataclass(frozen=True, eq=False)
class DayRow:
    """What one way to plan the day earns.

    Attributes:
        policy: Policy id.
        plans: ``by period``, ``mean day``, or ``all day`` where both are the same.
        reward: Reward per day.
        half_width: 95 % half width of it over days.
        blocking: Blocked / arrived.
        difference: Reward per day minus that of the first row.
        difference_half_width: 95 % half width of it, paired by day.
        reward_by_period: (P,) reward per day.
        blocking_by_period: (P,) blocked / arrived, 0 without arrivals.
    """

    policy: str
    plans: str
    reward: float
    half_width: float
    blocking: float
    difference: float
    difference_half_width: float
    reward_by_period: Float
    blocking_by_period: Float

    @property
    def name(self) -> str:
        """What tables call the row: ``lag``, ``lag (mean day)``."""
        return f"{self.policy} ({self.plans})" if self.plans == MEAN_DAY else self.policy


@dataclass(frozen=True, eq=False)
class DayComparison:
    """The result of :func:`compare_day`."""

    day: Day
    settings: DaySettings
    prices: DayPrices
    rows: tuple[DayRow, ...]

    def row(self, name: str) -> DayRow:
        """The row of a name such as ``lag`` or ``lag (mean day)``.

        Raises:
            InputError: If there is none.
        """
        for one in self.rows:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.rows)
        raise InputError(Problem("policy", repr(name), f"one of the rows: {known}"))


def compare_day(
    day: Day,
    settings: DaySettings | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> DayComparison:
    """Price the day, plan it per period and for its mean, and run all on the same days.

    A policy whose plans are the same in every period has one row.

    Args:
        day: Rates and shifts.
        settings: Policies, days, replications, seed; defaults as documented.
        progress: Called with the share of the work done.
        stop: When each solve ends.

    Raises:
        InputError: If a policy cannot be used on this day.
        SolverError: If an LP cannot be solved.
    """
    settings = DaySettings() if settings is None else settings
    prices = price_day(day, stop)
    named: list[tuple[str, str]] = []
    plans: list[list[Plan]] = []
    for one in settings.policies:
        mean, own = _plans(day, one, prices)
        changes = any(plan.digest != mean.digest for plan in own)
        named.append((one, BY_PERIOD if changes else ALL_DAY))
        plans.append(own)
        if changes:
            named.append((one, MEAN_DAY))
            plans.append([mean] * day.n_periods)
    runs = []
    for replication in range(settings.replications):

        def part(share: float, done: int = replication) -> None:
            if progress is not None:
                text = f"replication {done + 1} of {settings.replications}"
                progress((done + share) / settings.replications, text)

        runs.append(simulate_day(day, plans, settings.days, (settings.seed, replication), part))
    return DayComparison(day, settings, prices, _rows(named, runs))


def _plans(day: Day, policy_id: str, prices: DayPrices) -> tuple[Plan, list[Plan]]:
    """A policy's plan for the mean day, and one per period."""
    policy = loss_policy(policy_id)
    mean = policy.plan(day.mean_day, prices.mean)
    own = []
    for p in range(day.n_periods):
        known = prices.periods[p]
        own.append(mean if known is None else policy.plan(known.instance, known))
    return mean, own


def _rows(named: list[tuple[str, str]], runs: list[list[DayTrace]]) -> tuple[DayRow, ...]:
    """One row for each way to plan, differences to the first."""
    by_day = [np.concatenate([run[i].reward_by_day for run in runs]) for i in range(len(named))]
    n_days = len(by_day[0])
    rows = []
    for i, (policy, plans) in enumerate(named):
        arrived = np.sum([run[i].arrived.sum(axis=1) for run in runs], axis=0)
        blocked = np.sum([run[i].blocked.sum(axis=1) for run in runs], axis=0)
        apart = by_day[i] - by_day[0]
        rows.append(
            DayRow(
                policy=policy,
                plans=plans,
                reward=float(by_day[i].mean()),
                half_width=half_width(by_day[i]),
                blocking=float(blocked.sum() / max(int(arrived.sum()), 1)),
                difference=float(apart.mean()),
                difference_half_width=half_width(apart) if i > 0 else 0.0,
                reward_by_period=np.sum([run[i].reward for run in runs], axis=0) / n_days,
                blocking_by_period=blocked / np.maximum(arrived, 1),
            )
        )
    return tuple(rows)
