"""Rows of the tables, from measured arms: what the CSV files and the page show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from opportune.experiments.papers.cqb.claims import Found
from opportune.experiments.papers.cqb.merging import Estimate, Measured, Slope, fitted_slope
from opportune.experiments.papers.cqb.plan_of_work import Setting, cells

Row = dict[str, Any]

OURS = "optimistic"
"""Arm of the default learner."""

WORST_CELL = "cqb-eta-2 (0.2, 0.3) x 0.01, ridge 1"
"""The summary's fractions at the better scale: the cell that the default must beat by three."""

LONG, HARD_LONG = 400, "hard, T >= 400"
"""From here on the hard instance is close to its limit; both fits are told."""

LIMITS = {"disjoint": (0.8, 3.3), "joint": (0.2, 1.7)}
"""Time-averaged excess and transient cost that the default learner must stay below."""


def measured_rows(settings: Sequence[Setting], found: Found, section: str) -> list[Row]:
    """One row for each policy of each setting of a section: both numbers, always together."""
    rows = []
    for one in settings:
        if one.section != section:
            continue
        for name, arm in found[one.section, one.name].items():
            rows.append({"setting": one.name, "horizon": one.horizon, "policy": name, **row(arm)})
    return rows


def row(arm: Measured) -> Row:
    """The numbers of one policy."""
    return {
        "runs": arm.runs,
        "regret": arm.end.value,
        "regret_error": arm.end.error,
        "excess": arm.excess.value,
        "excess_error": arm.excess.error,
        "transient_cost": arm.cost.value,
        "transient_error": arm.cost.error,
        "transient_round": arm.cost_round,
        "mean_queue": arm.mean_queue,
        "final_queue": arm.final_queue,
        "exploration_share": arm.explored,
        "runs_above_5": arm.bad,
        "worst_run": arm.worst,
        "variance_ratio": finite(arm.variance_ratio),
        "regret_minus_first": arm.end_apart.value,
        "regret_minus_first_error": arm.end_apart.error,
        "excess_minus_first": arm.excess_apart.value,
        "excess_minus_first_error": arm.excess_apart.error,
    }


def finite(value: float) -> float | None:
    """The number, None if it is infinite."""
    return value if math.isfinite(value) else None


def scaled_rows(settings: Sequence[Setting], found: Found) -> list[Row]:
    """The hard instance: regret times the root of the horizon, which the theory says is flat."""
    rows = []
    for one in (one for one in settings if one.section == "hard"):
        root = math.sqrt(one.horizon)
        for name, arm in found[one.section, one.name].items():
            rows.append(
                {
                    "horizon": one.horizon,
                    "policy": name,
                    "runs": arm.runs,
                    "regret_root_T": root * arm.end.value,
                    "error": root * arm.end.error,
                    "excess_root_T": root * arm.excess.value,
                    "excess_error": root * arm.excess.error,
                    "variance_ratio": finite(arm.variance_ratio),
                }
            )
    return rows


def slopes(settings: Sequence[Setting], found: Found) -> dict[tuple[str, str], Slope | None]:
    """Fitted exponents of the regret by family of instances and policy."""
    families: dict[tuple[str, str], list[tuple[int, Estimate]]] = {}
    for one in settings:
        if one.section not in ("hard", "rates"):
            continue
        names = ["hard"] if one.section == "hard" else [one.name.split(" ")[0]]
        if one.section == "hard" and one.horizon >= LONG:
            names.append(HARD_LONG)
        for family, (name, arm) in product(names, found[one.section, one.name].items()):
            families.setdefault((family, name), []).append((one.horizon, arm.end))
    return {
        key: fitted_slope([t for t, _ in points], [end for _, end in points])
        for key, points in families.items()
    }


def slope_rows(fitted: Mapping[tuple[str, str], Slope | None]) -> list[Row]:
    """The fitted exponents with their 95 % intervals."""
    return [
        {
            "instances": family,
            "policy": policy,
            "slope": None if one is None else one.slope,
            "half_width": None if one is None else one.half_width,
            "horizons": 0 if one is None else one.horizons,
        }
        for (family, policy), one in fitted.items()
    ]


def best_cells(found: Found) -> dict[str, str]:
    """Name of the best CQB-eta-2 cell of each place at ridge .1, by excess on other streams."""
    chosen = {}
    names = {one.name for one in cells() if one.name.endswith("ridge 0.1")}
    for (section, place), arms in found.items():
        if section == "choosing":
            chosen[place] = min(names, key=lambda name: (arms[name].excess.value, name))
    return chosen


def default_rows(found: Found) -> list[Row]:
    """The default learner beside its limits and beside CQB-eta-2, place by place."""
    best = best_cells(found)
    rows = []
    for place, cell in best.items():
        arms = found["default", place]
        own, other, usual = arms[OURS], arms[cell], arms[WORST_CELL]
        limit = LIMITS.get(place, (math.inf, math.inf))
        apart = Estimate(-other.excess_apart.value, other.excess_apart.error)
        rows.append(
            {
                "place": place,
                "runs": own.runs,
                "excess": own.excess.value,
                "excess_error": own.excess.error,
                "excess_limit": finite(limit[0]),
                "transient_cost": own.cost.value,
                "transient_limit": finite(limit[1]),
                "regret": own.end.value,
                "regret_error": own.end.error,
                "worst_run": own.worst,
                "best_cell": cell,
                "best_cell_excess": other.excess.value,
                "excess_minus_best": apart.value,
                "excess_minus_best_error": apart.error,
                "excess_over_best": own.excess.value / other.excess.value,
                "regret_minus_best": -other.end_apart.value,
                "regret_minus_best_error": other.end_apart.error,
                "usual_cell_excess": usual.excess.value,
                "times_smaller_excess": usual.excess.value / own.excess.value,
                "times_smaller_cost": usual.cost.value / own.cost.value,
            }
        )
    return rows
