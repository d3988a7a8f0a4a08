"""What the study measures: exact cells, solver times, other durations, auto beside LAG."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opportune.experiments.comparison import compare
from opportune.experiments.papers.headcount import reference
from opportune.experiments.prices import choose_prices, demand_at, simulated_blocking
from opportune.experiments.runs import run_replications
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.evaluation import exact_value
from opportune.pricing.exact import optimum
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.headcount_chain import headcount_chain
from opportune.pricing.headcount_groups import group_prices
from opportune.pricing.headcount_pathwise import Effort, pathwise_bound
from opportune.pricing.occupancy import price

Row = dict[str, Any]

EVALUATED = ("headcount-group", "headcount", "lag", "lag-cheapest", "greedy")
"""Policies evaluated exactly in the cells."""

RANDOM_MEAN = 172.0
"""Mean duration of the instances with random scores, in steps."""


@dataclass(frozen=True)
class Extent:
    """How much is run.

    Attributes:
        loads: Of auto beside LAG.
        steps: Counted steps of each replication there.
        replications: Replications there.
        pathwise: Cells of the pathwise bound.
        effort: Of the pathwise bound.
        large: Whether to solve the pools of 300 servers.
    """

    loads: tuple[float, ...]
    steps: int
    replications: int
    pathwise: tuple[tuple[str, float], ...]
    effort: Effort
    large: bool


FULL = Extent(
    loads=tuple(round(0.1 * i, 1) for i in range(1, 10)),
    steps=400_000,
    replications=6,
    pathwise=tuple(reference.pathwise()),
    effort=Effort(),
    large=True,
)
QUICK = Extent(
    loads=(0.4, 0.8),
    steps=50_000,
    replications=4,
    pathwise=(("unfriendly-v1", 0.7),),
    effort=Effort(training_steps=50_000, steps=50_000, paths=6, iterations=30),
    large=False,
)


def exact_cells(name: str, load: float) -> list[Row]:
    """Optimum, bounds and policies of one cell, in percent of OCC-LP(B), by exact evaluation."""
    instance = catalog_instance(name, load)
    whole = _occupancy(instance)
    values = {
        "exact": optimum(instance).value,
        "hc-lp": headcount_prices(instance).bound,
        "hc-group-lp": group_prices(instance).bound,
    }
    prices, _ = choose_prices(instance)
    for one in EVALUATED:
        plan = loss_policy(one).plan(instance, prices)
        tables = plan.tables if plan.counts is None else plan.counts
        values[one] = exact_value(instance, tables).value
    known = reference.cells()
    rows: list[Row] = []
    for quantity, value in values.items():
        percent = 100.0 * value / whole
        expected = known.get((name, load, quantity))
        rows.append(
            {
                "instance": name,
                "load": load,
                "quantity": quantity,
                "percent": percent,
                "reference": expected,
                "difference": None if expected is None else percent - expected,
                "lag_paper": known.get((name, load, "lag-paper")) if quantity == "lag" else None,
            }
        )
    return rows


def solver_row(label: str, instance: LossInstance, tolerance: float) -> Row:
    """One solve of HC-LP: size, certified bound, gap, iterations, seconds."""
    found = headcount_prices(instance, tolerance)
    near = headcount_chain(instance, keep=min(max(tolerance / 10, 1e-10), 1e-6))
    return {
        "instance": label,
        "types": found.merged.n_classes,
        "servers": instance.n_servers,
        "different_servers": found.merged.n_groups,
        "k": found.chain.k,
        "headcounts": found.chain.size + 1,
        "kept": len(near.law),
        "percent": 100.0 * found.bound / _occupancy(instance),
        "gap_asked": tolerance,
        "gap": found.gap,
        "iterations": found.iterations,
        "seconds": round(found.seconds, 3),
    }


def solver_instances(large: bool) -> list[tuple[str, LossInstance, float]]:
    """What the solver is timed on: label, instance, relative gap asked."""
    found = [
        (f"{name} memoryless, load {load:g}", memoryless(catalog_instance(name, load)), 1e-8)
        for name in ("unfriendly-v1", "lowrank-v1")
        for load in (0.4, 0.7)
    ]
    sizes = [(60, 3, RANDOM_MEAN)]
    if large:  # k = 1: twice the mean, so that at most one task arrives in a step
        sizes += [(300, 3, RANDOM_MEAN), (300, 1, 2 * RANDOM_MEAN)]
    for servers, k, mean in sizes:
        scores = np.random.default_rng(0).random((10, servers))
        instance = loss_instance(scores, [1e-4] * 10, Geometric(mean), k).with_load(0.6)
        found.append((f"random scores R={servers} k={k}, load 0.6", instance, 1e-6))
    return found


def memoryless(instance: LossInstance) -> LossInstance:
    """The instance with geometric durations of the same mean for all types."""
    mean = float(instance.mean_duration[0])
    return replace(instance, duration=(Geometric(mean),) * instance.n_types)


def pathwise_row(name: str, load: float, extent: Extent, seed: int) -> Row:
    """The pathwise bound of one cell, in percent of OCC-LP(B) at a simulated B."""
    instance = catalog_instance(name, load)
    plan = loss_policy("random").plan(instance)
    settings = Settings(("random",), steps=20 * extent.steps, replications=5, seed=seed)
    blocking = simulated_blocking(instance, run_replications(instance, [plan], settings))
    whole = price(instance, demand_at(instance, blocking)).dual_value
    made = pathwise_bound(instance, seed, extent.effort)
    percent, error = reference.pathwise()[name, load]
    return {
        "instance": name,
        "load": load,
        "blocking": blocking.value,
        "bound": 100.0 * made.value / whole,
        "mean": 100.0 * made.mean / whole,
        "standard_error": 100.0 * made.standard_error / whole,
        "reference": percent,
        "reference_error": error,
        "label": "statistical",
    }


def auto_row(name: str, load: float, extent: Extent, seed: int) -> Row:
    """Auto minus LAG in percent of the bound, paired by replication."""
    settings = Settings(
        ("lag", "auto"), steps=extent.steps, replications=extent.replications, seed=seed
    )
    made = compare(catalog_instance(name, load), settings)
    row, lag = made.row("auto"), made.row("lag")
    return {
        "instance": name,
        "load": load,
        "lag": lag.percent_of_bound,
        "auto": row.percent_of_bound,
        "difference": row.difference,
        "half_width": row.difference_half_width,
        "choice": row.note.partition(":")[0],
        "note": row.note,
    }


def _occupancy(instance: LossInstance) -> float:
    blocking = exact_blocking(instance)
    if blocking is None:
        raise ValueError("OCC-LP(B) at an exact B is asked for where there is none")
    return price(instance, Demand(blocking)).dual_value
