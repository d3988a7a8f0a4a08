"""What a pool loses when it is split into sub-pools: the function behind ``opportune split``.

A pool too hot for one owner is split into m sub-pools whose servers are re-dealt at random every
period (``kernels.split``). In the paper's partition a task takes n k servers of a dispatcher's
n copies of each, so the shares that a dispatcher sees settle as n grows; here a task takes k, as
in the service, and the paper's guarantee does not carry over. So the loss is measured: reward
beside that of one owner on the same tasks, and beside OCC-LP(<=), which bounds every policy, also
one that drops a task while servers of another sub-pool are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.experiments.comparison import make_plans
from opportune.experiments.metrics import half_width, percents
from opportune.experiments.prices import choose_prices
from opportune.experiments.runs import Job, Runs, run_grid
from opportune.experiments.settings import Progress, Settings
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.simulate.split import Split, check_split_plan

Float = NDArray[np.float64]

MAX_SPLITS = 1000
"""Most splits of one grid."""


@dataclass(frozen=True)
class SplitGrid:
    """Which splits are run: all combinations.

    Attributes:
        subpools: Numbers of sub-pools.
        redeal: Steps from one deal to the next; None deals once for the whole run.
        tries: Most sub-pools that a task asks.

    Raises:
        InputError: Naming what is wrong.
    """

    subpools: tuple[int, ...] = (1, 2, 4, 8)
    redeal: tuple[int | None, ...] = (1000,)
    tries: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for name in ("subpools", "redeal", "tries"):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise InputError(Problem(name, "none given", "at least one"))
            named = ["never" if one is None else str(one) for one in values]
            twice = sorted({one for one in named if named.count(one) > 1})
            if twice:
                raise InputError(Problem(name, shorten(", ".join(twice)), "every value once"))
        for one in self.tries:
            Split(10**6, None, one)
        if len(self.splits) > MAX_SPLITS:
            raise InputError(
                Problem("splits", f"{len(self.splits)} of them", f"at most {MAX_SPLITS:,}")
            )

    @property
    def splits(self) -> tuple[Split, ...]:
        """One owner first, whether it was asked for or not; it has nothing to deal or to ask."""
        found = [
            Split(m, redeal, min(tries, max(m, 1)))
            for m in self.subpools
            if m != 1
            for redeal in self.redeal
            for tries in self.tries
        ]
        return tuple(dict.fromkeys([Split(), *found]))


@dataclass(frozen=True)
class SplitRow:
    """One policy in one split.

    Attributes:
        policy: Policy id.
        split: Sub-pools, deals, tries.
        reward: Reward per step of the whole pool.
        percent_of_one_owner: 100 reward / reward of one owner.
        half_width: 95 % half width of it, paired by replication (by batch of a single one).
        percent_of_bound: 100 reward / OCC-LP(<=).
        blocking: Blocked / arrived.
    """

    policy: str
    split: Split
    reward: float
    percent_of_one_owner: float
    half_width: float
    percent_of_bound: float
    blocking: float


@dataclass(frozen=True, eq=False)
class Splitting:
    """The result of :func:`split_pool`; everything that made it is in it.

    Attributes:
        instance: The whole pool.
        grid: The splits.
        settings: Policies, steps, replications, seed.
        priced_at: What the prices are of.
        bound: OCC-LP(<=) per step.
        warm_up: Steps before the counted ones.
        rows: By policy, then by split.
        warnings: To be told.
    """

    instance: LossInstance
    grid: SplitGrid
    settings: Settings
    priced_at: str
    bound: float
    warm_up: int
    rows: tuple[SplitRow, ...]
    warnings: tuple[str, ...] = ()


def split_pool(
    instance: LossInstance,
    grid: SplitGrid | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Splitting:
    """Run policies in a pool that is split in several ways, all on the same tasks.

    Args:
        instance: The whole pool, at the load that its arrival rates give.
        grid: The splits.
        settings: Policies (LAG by default), steps, replications, seed, workers.
        progress: Called with the share of the runs done.

    Raises:
        InputError: If a sub-pool would be too small for a task, or a policy that was named
            cannot be followed by a sub-pool.
    """
    grid = SplitGrid() if grid is None else grid
    settings = Settings(("lag",)) if settings is None else settings
    for one in grid.splits:
        one.check(instance)
    prices, warnings = choose_prices(instance, settings.price_at, seed=settings.seed)
    made, skipped = make_plans(instance, settings, prices)
    plans, left_out = _followed(made, settings)
    jobs = [Job(instance, plans, one, f"{one.subpools} sub-pools") for one in grid.splits]
    all_runs = run_grid(jobs, settings, progress)
    bound = price(instance, AT_MOST).dual_value
    rows = [
        _row(plans[p], p, split, (runs, all_runs[0], bound))
        for p in range(len(plans))
        for split, runs in zip(grid.splits, all_runs, strict=True)
    ]
    return Splitting(
        instance=instance,
        grid=grid,
        settings=settings,
        priced_at=prices.priced_at,
        bound=bound,
        warm_up=all_runs[0].warm_up,
        rows=tuple(rows),
        warnings=(*warnings, *skipped, *left_out),
    )


def _followed(plans: Sequence[Plan], settings: Settings) -> tuple[list[Plan], list[str]]:
    """The plans that a sub-pool can follow, and why others are left out.

    Raises:
        InputError: If one of the others was asked for by name.
    """
    found, left_out = [], []
    for plan in plans:
        try:
            check_split_plan(plan)
        except InputError as error:
            if settings.by_name:
                raise
            left_out.append(f"{plan.policy} is left out: {error.problems[0].value}")
        else:
            found.append(plan)
    return found, left_out


def _row(plan: Plan, p: int, split: Split, made: tuple[Runs, Runs, float]) -> SplitRow:
    runs, alone, bound = made
    reward = float(runs.reward_per_step[:, p].mean())
    arrived = max(int(runs.arrived[:, p].sum()), 1)
    return SplitRow(
        policy=plan.policy,
        split=split,
        reward=reward,
        percent_of_one_owner=_percent(reward, float(alone.reward_per_step[:, p].mean())),
        half_width=0.0 if split.subpools == 1 else half_width(_shares(runs, alone, p)),
        percent_of_bound=_percent(reward, bound),
        blocking=float(runs.blocked[:, p].sum() / arrived),
    )


def _percent(reward: float, base: float) -> float:
    return float(percents(np.array([reward]), np.array([base]))[0])


def _shares(runs: Runs, alone: Runs, p: int) -> Float:
    """Independent values of percent_of_one_owner: by replication, or by batch of a single one."""
    if len(runs.reward) == 1:
        return percents(runs.reward[0, p], alone.reward[0, p])
    return percents(runs.reward_per_step[:, p], alone.reward_per_step[:, p])
