"""Compare policies on one instance: reward, share of the certified bound, what is left to gain.

All policies of a replication see the same stream, so differences are paired. Definitions:
``percent_of_bound`` = 100 reward / bound; the bound is OCC-LP(B) with B exact where the chain
is exact and otherwise pooled over all replications, OCC-LP(<=) with forbidden pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.experiments.bounds import Bound, bound_at, further_bounds
from opportune.experiments.metrics import half_width, percents
from opportune.experiments.prices import (
    Blocking,
    blocking_of,
    choose_prices,
    simulated_blocking,
)
from opportune.experiments.runs import Job, Runs, run_grid
from opportune.experiments.settings import Progress, Settings, row_of
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, check_plan, loss_policy
from opportune.pricing import certificate
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.relaxation import Relaxation

Float = NDArray[np.float64]


@dataclass(frozen=True)
class PolicyResult:
    """One row of a comparison.

    Attributes:
        policy: Policy id.
        reward: Reward per step, summed over the servers of a task.
        percent_of_bound: 100 reward / bound.
        half_width: 95 % half width of it, over replications, or over batches of a single one.
        blocking: Blocked / arrived of this policy.
        left_to_gain: Points of percent_of_bound up to the tightest bound: at most this much
            can a work-conserving policy gain on this one (0 where noise lifts it above).
        difference: Percent of bound minus that of LAG (the first policy if LAG is not run).
        difference_half_width: 95 % half width of it, paired by replication.
        note: What a reader should know of the policy, for example "heuristic".
    """

    policy: str
    reward: float
    percent_of_bound: float
    half_width: float
    blocking: float
    left_to_gain: float
    difference: float
    difference_half_width: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`compare`; everything that made it is in it."""

    instance: LossInstance
    settings: Settings
    priced_at: str
    prices: Relaxation
    bound: Bound
    bounds: tuple[Bound, ...]
    blocking: Blocking
    policies: tuple[PolicyResult, ...]
    runs: Runs
    warnings: tuple[str, ...] = ()

    def row(self, policy: str) -> PolicyResult:
        """The row of a policy id.

        Raises:
            InputError: If that policy was not run.
        """
        return row_of(self.policies, policy)


def compare(
    instance: LossInstance, settings: Settings | None = None, progress: Progress | None = None
) -> Comparison:
    """Run policies on the same streams and set their reward against the certified bound.

    Args:
        instance: The instance, at the load that its arrival rates give.
        settings: Policies, steps, replications, seed, workers; defaults as documented.
        progress: Called with the share of the work done.

    Raises:
        InputError: If a policy that was named cannot be used on this instance.
        SolverError: If an LP cannot be solved.
    """
    return compare_all([instance], settings, progress)[0]


def compare_all(
    instances: Sequence[LossInstance],
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Compare policies on several instances, as a sweep over loads does; in their order.

    All replications are spread over the workers together. Arguments and errors as for
    :func:`compare`; every instance is the same as if it were compared alone.
    """
    settings = Settings() if settings is None else settings
    tell: Progress = progress if progress is not None else lambda share, text: None
    several = len(instances) > 1
    made: list[tuple[Job, Relaxation, tuple[str, ...]]] = []
    for instance in instances:
        label = f"load {instance.load:.4g}" if several else ""
        if several:
            tell(0.0, f"prices at {label}")
        prices, warnings = choose_prices(instance, settings.price_at, seed=settings.seed)
        plans, skipped = make_plans(instance, settings, prices)
        made.append((Job(instance, plans, label=label), prices, warnings + skipped))
    all_runs = run_grid([job for job, _, _ in made], settings, progress)
    return [
        _concluded(job, runs, settings, (prices, warnings))
        for (job, prices, warnings), runs in zip(made, all_runs, strict=True)
    ]


def _concluded(
    job: Job, runs: Runs, settings: Settings, priced: tuple[Relaxation, tuple[str, ...]]
) -> Comparison:
    """Bounds, intervals and differences of finished runs."""
    instance, (prices, warnings) = job.instance, priced
    blocking = (
        blocking_of(instance)
        if exact_blocking(instance) is not None
        else simulated_blocking(instance, runs)
    )
    bound, relaxation = bound_at(instance, blocking)
    bounds = (bound, *further_bounds(instance, settings.bounds == "all", settings.seed))
    made = (relaxation.demand, bounds, relaxation, blocking)
    return Comparison(
        instance=instance,
        settings=settings,
        priced_at=prices.priced_at,
        prices=prices,
        bound=bound,
        bounds=bounds,
        blocking=blocking,
        policies=_rows(instance, list(job.plans), runs, made),
        runs=runs,
        warnings=(*warnings, *_nothing_seen(instance, runs)),
    )


def _nothing_seen(instance: LossInstance, runs: Runs) -> tuple[str, ...]:
    """A warning where tasks should arrive, and none did."""
    if runs.arrived.any() or not instance.arrival_rate.any():
        return ()
    rate = float(instance.arrival_rate.sum())
    return (
        f"no task arrived in the counted steps ({rate:.3g} per step): rewards of 0 say nothing; "
        "raise --steps",
    )


def make_plans(
    instance: LossInstance, settings: Settings, prices: Relaxation
) -> tuple[list[Plan], tuple[str, ...]]:
    """The plans to run, and why a policy that was not asked for by name is left out.

    Raises:
        InputError: If a policy named in the settings cannot be used on this instance.
    """
    plans, skipped = [], []
    for one in settings.policy_ids:
        try:
            plan = loss_policy(one).plan(instance, prices)
        except InputError as error:
            if settings.by_name or any(problem.field != "policy" for problem in error.problems):
                raise
            skipped.append(f"{one} is left out: {error.problems[0].value}")
        else:
            check_plan(plan, instance)
            plans.append(plan)
    return plans, tuple(skipped)


def _rows(
    instance: LossInstance,
    plans: list[Plan],
    runs: Runs,
    made: tuple[Demand, tuple[Bound, ...], Relaxation, Blocking],
) -> tuple[PolicyResult, ...]:
    demand, bounds, relaxation, blocking = made
    bound = bounds[0]
    tightest = min(one.value for one in bounds)
    samples = _percent_samples(instance, runs, demand, (bound, relaxation, blocking))
    ids = [plan.policy for plan in plans]
    base = ids.index("lag") if "lag" in ids else 0
    mean_reward = runs.reward_per_step.mean(axis=0)
    center = percents(mean_reward, np.full(len(mean_reward), bound.value))
    arrived = np.maximum(runs.arrived.sum(axis=(0, 2)), 1)
    blocked = runs.blocked.sum(axis=(0, 2)) / arrived
    rows = []
    for p, plan in enumerate(plans):
        paired = samples[:, p] - samples[:, base]
        rows.append(
            PolicyResult(
                policy=plan.policy,
                reward=float(mean_reward[p]),
                percent_of_bound=float(center[p]),
                half_width=half_width(samples[:, p]),
                blocking=float(blocked[p]),
                left_to_gain=_left(float(mean_reward[p]), tightest, bound.value),
                difference=float(center[p] - center[base]),
                difference_half_width=half_width(paired),
                note=plan.note,
            )
        )
    return tuple(rows)


def _left(reward: float, tightest: float, bound: float) -> float:
    """Points of percent_of_bound between a reward and the tightest bound, at least 0."""
    return max(0.0, 100.0 * (tightest - reward) / bound) if bound > 0 else 0.0


def _percent_samples(
    instance: LossInstance,
    runs: Runs,
    demand: Demand,
    made: tuple[Bound, Relaxation, Blocking],
) -> Float:
    """(samples, p) independent values of percent_of_bound: replications, or batches of one.

    Each replication has its own B_i where B is simulated; its bound is the closed-form dual
    value at the pooled prices, valid for every B_i.
    """
    bound, relaxation, blocking = made
    n = runs.reward.shape[0]
    if n == 1:
        per_batch = runs.reward[0].T / (runs.steps / runs.reward.shape[2])
        return percents(per_batch, np.full_like(per_batch, bound.value))
    values = np.full(n, bound.value)
    if not demand.at_most and blocking.method == "simulated":
        for i in range(n):
            own = _own_demand(instance, runs, i)
            values[i] = certificate.dual_value(instance, own, relaxation.demand_price)
    reward = runs.reward_per_step
    return percents(reward, np.broadcast_to(values[:, None], reward.shape))


def _own_demand(instance: LossInstance, runs: Runs, replication: int) -> Demand:
    arrived, blocked = runs.arrived[replication, 0], runs.blocked[replication, 0]
    if instance.one_k is not None:
        return Demand(float(blocked.sum() / max(int(arrived.sum()), 1)))
    by_type = np.divide(blocked, arrived, out=np.zeros(len(arrived)), where=arrived > 0)
    return Demand(tuple(float(b) for b in by_type))
