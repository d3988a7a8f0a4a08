"""Rows of the tables, from the records of the pieces: pure functions, no run, no file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from opportune.experiments.papers.lag import published
from opportune.experiments.papers.lag.causes import Compared, cause_of, mean_of, single_run
from opportune.experiments.papers.lag.instances import (
    INSTANCES,
    SCALE_LOAD,
    SUMMARY_LOAD,
)
from opportune.experiments.papers.lag.published import ROUNDING
from opportune.experiments.papers.lag.units import PAPER_TRIALS
from opportune.experiments.resume import Record
from opportune.experiments.wording import signed

Row = dict[str, Any]
"""A row of a table by column; every row of a table has the same columns."""


@dataclass(frozen=True)
class Results:
    """The records of all pieces, by what they are of.

    Attributes:
        cells: Record of a comparison by instance (short name) and load.
        samples: Record of a comparison by instance (short name) and number of the sample.
        points: Record of a point of the convergence figure by instance (short name) and n.
        fluid: Record of the fluid limit by instance (short name).
    """

    cells: Mapping[tuple[str, float], Record]
    samples: Mapping[tuple[str, int], Record]
    points: Mapping[tuple[str, int], Record]
    fluid: Mapping[str, Record]


POLICY_NAMES = {
    "lag": "LAG",
    "lag-cheapest": "LAG, cheapest first",
    "whittle": "Whittle",
    "alg-sc-lp": "ALG-SC-LP",
    "alg-sc-lp-vertex": "ALG-SC-LP, vertex",
    "greedy": "Greedy",
    "random": "Random",
}
"""Policies as the paper writes them, and the two variants."""


def title_of(name: str) -> str:
    """An instance as the paper writes it."""
    return next(one.title for one in INSTANCES if one.name == name)


def difference(value: float) -> str:
    """A difference in points with its sign; none if it rounds to zero."""
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else signed(text)


def is_rebuilt(name: str) -> bool:
    """Whether an instance's matrix is not the paper's own."""
    return next(one.rebuilt for one in INSTANCES if one.name == name)


def load_sweep(results: Results) -> list[Compared]:
    """Table 3: every policy at every load, beside the paper's number and with its cause."""
    cells = []
    for (name, load), record in results.cells.items():
        rows = {row["policy"]: row for row in record["policies"]}
        cheapest = rows.get("lag-cheapest")
        for policy, row in rows.items():
            cell = Compared(
                instance=name,
                instance_id=record["instance"],
                load=load,
                policy=policy,
                ours=row["percent_of_bound"],
                half_width=row["half_width"],
                paper=published.load_sweep().get((name, load, policy)),
                paper_half_width=single_run(
                    row["half_width"], record["replications"], record["steps"]
                ),
            )
            other = None if cheapest is None else cheapest["percent_of_bound"]
            cells.append(replace(cell, cause=cause_of(cell, is_rebuilt(name), other)))
    return cells


def summary(sweep: Iterable[Compared]) -> list[Compared]:
    """Table 2: load 0.7 of the sweep, beside the paper's Table 2."""
    return [
        replace(cell, paper=published.summary().get((cell.instance, cell.policy)))
        for cell in sweep
        if cell.load == SUMMARY_LOAD
    ]


def compared_rows(cells: Iterable[Compared]) -> list[Row]:
    """Cells as rows of a CSV file."""
    return [
        {
            "instance": cell.instance,
            "instance_id": cell.instance_id,
            "load": cell.load,
            "policy": cell.policy,
            "paper": cell.paper,
            "ours": cell.ours,
            "difference": cell.difference,
            "half_width": cell.half_width,
            "paper_half_width": None if cell.paper is None else cell.paper_half_width,
            "cause": cell.cause,
        }
        for cell in cells
    ]


def bound_rows(results: Results) -> list[Row]:
    """What the percentages are of: OCC-UB and the blocking it is taken at; KIID-LP beside it."""
    return [
        {
            "instance": name,
            "load": load,
            "occ_ub": record["bound"]["value"],
            "label": record["bound"]["label"],
            "priced_at": record["priced_at"],
            "blocking": record["blocking"]["value"],
            "blocking_method": record["blocking"]["method"],
            "blocking_half_width": record["blocking"]["half_width"],
            "erlang_b": record["blocking"]["erlang_b"],
            "kiid_percent": _kiid_percent(record),
        }
        for (name, load), record in results.cells.items()
    ]


def _kiid_percent(record: Record) -> float | None:
    value = record["bound"]["value"]
    return 100.0 * float(record["kiid"]) / value if value else None


def sample_rows(results: Results) -> list[Row]:
    """Each sample of the rebuilt instances at load 0.7."""
    return [
        {
            "instance": name,
            "sample": number,
            "policy": row["policy"],
            "ours": row["percent_of_bound"],
            "half_width": row["half_width"],
            "minus_lag": row["difference"],
        }
        for (name, number), record in results.samples.items()
        for row in record["policies"]
    ]


def sample_summary(rows: Sequence[Row]) -> list[Row]:
    """Mean and range over the samples, beside the paper's single one."""
    found: dict[tuple[str, str], list[float]] = {}
    behind: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        key = (row["instance"], row["policy"])
        found.setdefault(key, []).append(row["ours"])
        behind.setdefault(key, []).append(row["minus_lag"])
    lines = []
    for (name, policy), values in found.items():
        paper = published.summary().get((name, policy))
        best = published.summary()[name, "lag"]
        lines.append(
            {
                "instance": name,
                "policy": policy,
                "samples": len(values),
                "mean": fmean(values),
                "low": min(values),
                "high": max(values),
                "paper": paper,
                "paper_inside": None if paper is None else min(values) <= paper <= max(values),
                "minus_lag_mean": fmean(behind[name, policy]),
                "minus_lag_low": min(behind[name, policy]),
                "minus_lag_high": max(behind[name, policy]),
                "paper_minus_lag": None if paper is None else paper - best,
            }
        )
    return lines


def blocking_rows(results: Results) -> list[Row]:
    """Blocking at n = 1 and load 0.8: measured, exact where known, Erlang-B, the paper's range."""
    said = {
        one.instance: one.blocking
        for one in published.convergence()
        if one.blocking is not None and one.copies == (1, 1)
    }
    rows = []
    for (name, load), record in results.cells.items():
        if load != SCALE_LOAD:
            continue
        low, high = said[name]
        blocking, measured = record["blocking"], record["measured"]
        exact = blocking["value"] if blocking["method"] == "exact" else None
        best = measured["value"] if exact is None else exact
        rows.append(
            {
                "instance": name,
                "load": load,
                "measured": measured["value"],
                "half_width": measured["half_width"],
                "exact": exact,
                "erlang_b": blocking["erlang_b"],
                "paper_low": low,
                "paper_high": high,
                # the paper gives three digits
                "inside": low - 0.0005 <= best <= high + 0.0005,
            }
        )
    return rows


def convergence_rows(results: Results) -> list[Row]:
    """Figure 6: LAG by the number of copies, and what the text says of it."""
    rows = []
    for (name, n), record in results.points.items():
        reward, first = _said(name, n, "reward"), record["first"]
        percent, width = record["percent_of_bound"], record["half_width"]
        noise = mean_of(PAPER_TRIALS, width, record["trials"])
        outside = _outside(percent, reward)
        rows.append(
            {
                "instance": name,
                "n": n,
                "m": record["m"],
                "steps": record["steps"],
                "trials": record["trials"],
                "percent_of_bound": percent,
                "half_width": width,
                "blocking": record["blocking"],
                "first_trials": first["trials"],
                "first_percent": first["percent_of_bound"],
                "first_half_width": first["half_width"],
                "paper_low": None if reward is None else reward[0],
                "paper_high": None if reward is None else reward[1],
                "paper_half_width": None if reward is None else noise,
                "outside": outside,
                "first_outside": _outside(first["percent_of_bound"], reward),
                "within_noise": None
                if outside is None
                else abs(outside) <= math.hypot(width or 0.0, noise or ROUNDING),
            }
        )
    return rows


def _said(name: str, n: int, what: str) -> tuple[float, float] | None:
    for one in published.convergence():
        if one.instance == name and one.copies[0] <= n <= one.copies[1]:
            found: tuple[float, float] | None = getattr(one, what)
            if found is not None:
                return found
    return None


def _outside(value: float, said: tuple[float, float] | None) -> float | None:
    """How far a value lies outside of a range: negative below, positive above, 0 inside."""
    if said is None:
        return None
    return min(0.0, value - said[0]) + max(0.0, value - said[1])


def fluid_rows(results: Results) -> list[Row]:
    """Residual of x_hat and convergence from random starts."""
    rows = []
    for name, record in results.fluid.items():
        arrived = [steps for steps in record["needed"] if steps >= 0]
        rows.append(
            {
                "instance": name,
                "load": record["load"],
                "residual": record["residual"],
                "starts": len(record["needed"]),
                "arrived": len(arrived),
                "tolerance": record["tolerance"],
                "steps_median": sorted(arrived)[len(arrived) // 2] if arrived else None,
                "steps_most": max(arrived) if arrived else None,
                "steps_run": record["curve"][-1][0],
                "largest_distance": record["curve"][-1][3],
            }
        )
    return rows


def curve_rows(results: Results) -> list[Row]:
    """Distance of the fluid paths to x_hat: least, median and largest over the starts."""
    return [
        {"instance": name, "step": step, "least": least, "median": median, "largest": largest}
        for name, record in results.fluid.items()
        for step, least, median, largest in record["curve"]
    ]
