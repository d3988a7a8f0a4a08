"""Results as plain records: the JSON shapes of the command line, one function a result.

No NaN or infinity ever gets in: what has no value is None (``null``), as is every number of a
forbidden pair. Rows follow ``task_types``, columns ``servers``.
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.bounds import Bound
from opportune.experiments.comparison import Comparison
from opportune.experiments.day import DayComparison
from opportune.experiments.prices import Blocking
from opportune.experiments.scale import Scaling
from opportune.model.loss import LossInstance
from opportune.pricing.relaxation import Relaxation

Record = dict[str, Any]


def finite(value: float | None) -> float | None:
    """The number, or None if it is none or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def rounded(value: float) -> float:
    """A load to twelve digits: 0.7, not 0.7000000000000001."""
    return float(f"{value:.12g}")


def matrix(values: NDArray[np.float64], allowed: NDArray[np.bool_]) -> list[list[float | None]]:
    """(V, R) numbers as nested lists, None for forbidden pairs."""
    return [
        [finite(float(x)) if ok else None for x, ok in zip(row, permitted, strict=True)]
        for row, permitted in zip(values, allowed, strict=True)
    ]


def bound_record(bound: Bound) -> Record:
    """One bound."""
    return {
        "name": bound.name,
        "value": finite(bound.value),
        "blocking": finite(bound.blocking),
        "gap": finite(bound.gap),
        "label": bound.label,
    }


def comparison_record(result: Comparison) -> Record:
    """A comparison of policies at one load."""
    return {
        "instance": result.instance.name,
        "digest": result.instance.digest,
        "load": rounded(result.instance.load),
        "steps": result.runs.steps,
        "warm_up": result.runs.warm_up,
        "replications": result.settings.replications,
        "seed": result.settings.seed,
        "priced_at": result.priced_at,
        "bound": bound_record(result.bound),
        "bounds": [bound_record(bound) for bound in result.bounds],
        "blocking": blocking_record(result.blocking),
        "policies": [
            {
                "policy": row.policy,
                "reward": finite(row.reward),
                "percent_of_bound": finite(row.percent_of_bound),
                "half_width": finite(row.half_width),
                "blocking": finite(row.blocking),
                "left_to_gain": finite(row.left_to_gain),
                "difference": finite(row.difference),
                "difference_half_width": finite(row.difference_half_width),
                "note": row.note,
            }
            for row in result.policies
        ],
        "warnings": list(result.warnings),
    }


def sweep_record(results: Sequence[Comparison]) -> Record:
    """Comparisons over several loads."""
    return {"runs": [comparison_record(result) for result in results]}


def scaling_record(result: Scaling) -> Record:
    """Systems of growing size."""
    return {
        "instance": result.instance.name,
        "digest": result.instance.digest,
        "load": rounded(result.instance.load),
        "seed": result.settings.seed,
        "replications": result.settings.replications,
        "priced_at": result.prices.priced_at,
        "rows": [
            {
                "n": row.n,
                "m": row.m,
                "steps": row.steps,
                "percent_of_bound": finite(row.percent_of_bound),
                "half_width": finite(row.half_width),
                "blocking": finite(row.blocking),
                "reward": finite(row.reward),
                "bound": finite(row.bound),
            }
            for row in result.rows
        ],
        "warnings": list(result.warnings),
    }


def day_record(result: DayComparison) -> Record:
    """A day: its periods with their prices, and what each way to plan it earns."""
    day, prices = result.day, result.prices
    periods = []
    for p, name in enumerate(day.periods):
        own = prices.periods[p]
        periods.append(
            {
                "period": name,
                "arrival_rate": [finite(x) for x in day.base.arrival_rate * day.multiplier[p]],
                "on_duty": [finite(x) for x in day.on_duty[p]],
                "load": None if own is None else rounded(own.instance.load),
                "prices": None if own is None else _prices_record(own),
                "reward": {row.name: finite(row.reward_by_period[p]) for row in result.rows},
                "blocking": {row.name: finite(row.blocking_by_period[p]) for row in result.rows},
            }
        )
    return {
        "day": day.base.name,
        "digest": day.digest,
        "task_types": list(day.base.task_types),
        "servers": list(day.base.servers),
        "load": rounded(day.mean_day.load),
        "period_steps": day.period_steps,
        "days": result.settings.days,
        "replications": result.settings.replications,
        "seed": result.settings.seed,
        "seconds": finite(prices.seconds),
        "mean_day": _prices_record(prices.mean),
        "periods": periods,
        "policies": [
            {
                "policy": row.policy,
                "plans": row.plans,
                "reward": finite(row.reward),
                "half_width": finite(row.half_width),
                "blocking": finite(row.blocking),
                "difference": finite(row.difference),
                "difference_half_width": finite(row.difference_half_width),
            }
            for row in result.rows
        ],
    }


def _prices_record(prices: Relaxation) -> Record:
    return {
        "priced_at": prices.priced_at,
        "value": finite(prices.value),
        "dual_value": finite(prices.dual_value),
        "gap": finite(prices.gap),
        "solver": prices.solver,
        "seconds": finite(prices.seconds),
        "demand_price": [finite(x) for x in prices.demand_price],
        "capacity_price": [finite(x) for x in prices.capacity_price],
    }


def blocking_record(blocking: Blocking) -> Record:
    """Blocking, how it is known, and Erlang-B beside it."""
    return {
        "value": finite(blocking.value),
        "method": blocking.method,
        "half_width": finite(blocking.half_width),
        "erlang_b": finite(blocking.erlang_b),
        "by_type": [finite(b) for b in blocking.by_type],
        "note": blocking.note,
    }


def plan_record(
    prices: Relaxation, max_load: float | None, blocking: Blocking, bounds: Sequence[Bound]
) -> Record:
    """Prices, rates and bound of an instance; a largest load of None was not computed."""
    instance: LossInstance = prices.instance
    return {
        "instance": instance.name,
        "digest": instance.digest,
        "task_types": list(instance.task_types),
        "servers": list(instance.servers),
        "load": rounded(instance.load),
        "max_load": None if max_load is None else rounded(max_load),
        "priced_at": prices.priced_at,
        "value": finite(prices.value),
        "dual_value": finite(prices.dual_value),
        "gap": finite(prices.gap),
        "solver": prices.solver,
        "seconds": finite(prices.seconds),
        "memory": peak_memory(),
        "bounds": [bound_record(bound) for bound in bounds],
        "demand_price": [finite(x) for x in prices.demand_price],
        "capacity_price": [finite(x) for x in prices.capacity_price],
        "index": matrix(prices.index, instance.allowed),
        "assignment_rate": matrix(prices.assignment_rate, instance.allowed),
        "free_fraction": [finite(x) for x in prices.free_fraction],
        "blocking": blocking_record(blocking),
        "notices": list(prices.notices),
    }


def peak_memory() -> int:
    """Peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
