"""Which prices a run goes by, and the blocking it meets: zero, at blocking, or at most.

Above the last feasible load OCC-LP(0) has no solution. Then prices come from OCC-LP(B) with
the exact or a pilot B, with forbidden pairs from OCC-LP(<=), and the result says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opportune.errors import OverloadError
from opportune.experiments.metrics import half_width
from opportune.experiments.runs import Runs, run_replications
from opportune.experiments.settings import Settings
from opportune.model.loss import LossInstance
from opportune.model.schedule_entry import Duty, day_of
from opportune.policies.base import Plan
from opportune.policies.loss.random import Random
from opportune.pricing.blocking import erlang_b, exact_blocking, least_blocking
from opportune.pricing.demand import AT_MOST, Demand
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop
from opportune.simulate.day import simulate_day

PILOT = Settings(policies=("random",), steps=200_000, replications=5)
"""The run that estimates B where no chain gives it."""


@dataclass(frozen=True)
class Blocking:
    """The share of tasks dropped.

    Attributes:
        value: B, pooled over types.
        method: ``exact`` or ``simulated``.
        half_width: 95 % over replications; 0 if exact.
        erlang_b: Erlang-B(floor(R/k)) as a reference, None if k differs per type.
        by_type: (V,) B per type; differs between types if k does or pairs are forbidden.
        note: Where LAG Lemma 3.1 (one B for all types and policies) does not apply, and why.
    """

    value: float
    method: str
    half_width: float
    erlang_b: float | None
    by_type: tuple[float, ...]
    note: str = ""


def blocking_of(instance: LossInstance, plan: Plan | None = None, seed: int = 1) -> Blocking:
    """B exactly where the headcount is a chain, otherwise by a pilot run of ``plan``.

    Args:
        instance: The instance.
        plan: Whose blocking, where it depends on the policy (forbidden pairs); default Random.
        seed: Seed of the pilot.
    """
    exact = exact_blocking(instance)
    if exact is not None:
        by_type = (exact,) * instance.n_types
        return Blocking(exact, "exact", 0.0, erlang_b(instance), by_type)
    plan = Random().plan(instance) if plan is None else plan
    if instance.is_part_time:
        return _blocking_of_days(instance, plan, seed)
    settings = Settings(("random",), PILOT.steps, PILOT.replications, seed)
    return simulated_blocking(instance, run_replications(instance, [plan], settings))


def _blocking_of_days(instance: LossInstance, plan: Plan, seed: int) -> Blocking:
    """B where servers take breaks: on days of one period (``day.breaks_from_share``)."""
    day = day_of(instance, None, Duty(instance.on_duty, None))
    days = max(1, PILOT.steps // day.steps)
    runs = [simulate_day(day, [[plan]], days, (seed, i))[0] for i in range(PILOT.replications)]
    arrived = np.sum([run.arrived.sum(axis=0) for run in runs], axis=0)
    blocked = np.sum([run.blocked.sum(axis=0) for run in runs], axis=0)
    each = [run.blocked.sum() / max(int(run.arrived.sum()), 1) for run in runs]
    spread = half_width(np.array(each))
    by_type = np.divide(blocked, arrived, out=np.zeros(len(arrived)), where=arrived > 0)
    return Blocking(
        float(blocked.sum() / max(int(arrived.sum()), 1)),
        "simulated",
        spread if np.isfinite(spread) else 0.0,
        erlang_b(instance),
        tuple(float(b) for b in by_type),
        "servers take breaks: blocking depends on the policy, and the bound holds but for the "
        "tasks that they finish after they left",
    )


def simulated_blocking(instance: LossInstance, runs: Runs, plan: int = 0) -> Blocking:
    """B of one plan of finished runs: blocked / arrived pooled over all replications."""
    arrived = runs.arrived[:, plan].sum(axis=0)
    blocked = runs.blocked[:, plan].sum(axis=0)
    pooled = float(blocked.sum() / max(int(arrived.sum()), 1))
    spread = half_width(runs.blocking[:, plan])
    if instance.one_k is not None and has_one_headcount(instance):
        by_type = np.full(instance.n_types, pooled)
    else:
        by_type = np.divide(blocked, arrived, out=np.zeros(len(arrived)), where=arrived > 0)
    return Blocking(
        pooled,
        "simulated",
        spread if np.isfinite(spread) else 0.0,
        erlang_b(instance),
        tuple(float(b) for b in by_type),
        _no_lemma(instance),
    )


def _no_lemma(instance: LossInstance) -> str:
    """Why there is not one B for all types and policies; empty if there is."""
    if instance.server_duration is not None:
        return "durations depend on the server: blocking depends on the policy"
    if instance.has_forbidden_pairs:
        return "forbidden pairs: blocking depends on the type and on the policy"
    if instance.one_k is None:
        return "servers per task differ: one headcount for all policies, but B depends on the type"
    return ""


def has_one_headcount(instance: LossInstance) -> bool:
    """Whether LAG Lemma 3.1 holds: one path of busy servers for all policies, so one B."""
    return not (
        instance.has_forbidden_pairs
        or instance.is_part_time
        or instance.server_duration is not None
    )


def demand_at(instance: LossInstance, blocking: Blocking) -> Demand:
    """The demand of the bound: OCC-LP(B), or OCC-LP(<=) where no one B holds for all."""
    if not has_one_headcount(instance):
        return AT_MOST
    if instance.one_k is None:
        return Demand(_feasible_by_type(instance, blocking.by_type))
    value = blocking.value
    return Demand(least_blocking(instance, value) if blocking.method == "simulated" else value)


def _feasible_by_type(instance: LossInstance, by_type: tuple[float, ...]) -> tuple[float, ...]:
    """B_v raised by one factor on 1 - B_v, if need be, to where OCC-LP(B) is feasible."""
    served = instance.servers_per_task * (1.0 - np.asarray(by_type))
    busy = float((instance.arrival_rate * instance.mean_duration) @ served)
    needed = float(served.max()) + busy
    factor = instance.n_servers / needed if needed > instance.n_servers else 1.0
    return tuple(float(b) for b in 1.0 - factor * (1.0 - np.asarray(by_type)))


def choose_prices(
    instance: LossInstance,
    price_at: str | None = None,
    strict: bool = False,
    seed: int = 1,
    stop: Stop | None = None,
) -> tuple[Relaxation, tuple[str, ...]]:
    """The prices to go by, and warnings to print.

    Args:
        instance: The instance.
        price_at: ``"blocking"`` prices at B on purpose.
        strict: Raise under overload instead of falling back (``opportune plan``).
        seed: Seed of a pilot run, if one is needed.
        stop: When the solve ends; by default at a gap of 1e-9.

    Raises:
        OverloadError: With ``strict``, where not every task can be served (but R = k is legal).
    """
    if price_at is None:
        try:
            relaxation = price(instance, stop=stop)
            return relaxation, relaxation.notices
        except OverloadError as overload:
            only_choice = instance.n_servers == int(instance.servers_per_task.max())
            if strict and not (only_choice and not instance.has_forbidden_pairs):
                raise
            warning = f"overload: {overload}"
    else:
        warning = "priced at blocking as asked"
    if not has_one_headcount(instance):
        relaxation = price(instance, AT_MOST, stop=stop)
        return relaxation, (f"{warning}; prices come from OCC-LP(<=)", *relaxation.notices)
    blocking = blocking_of(instance, seed=seed)
    relaxation = price(instance, demand_at(instance, blocking), stop=stop)
    told = f"{warning}; prices come from OCC-LP(B) with B = {blocking.value:.4g} {blocking.method}"
    return relaxation, (told, *relaxation.notices)
