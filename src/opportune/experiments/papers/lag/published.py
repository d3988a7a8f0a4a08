"""The numbers that the paper published, read from the CSV files beside this module."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

POLICIES = ("lag", "whittle", "alg-sc-lp", "greedy", "random")
"""Policies of the paper's tables, by our ids."""

ROUNDING = 0.05
"""Half a unit of the last digit of a published percentage."""

Cell = tuple[str, float, str]
"""Instance, load, policy."""


@dataclass(frozen=True)
class Statement:
    """What the text says of the convergence figure.

    Attributes:
        instance: Short name.
        copies: Smallest and largest n it is said of.
        reward: Range in percent of OCC-UB, None if it says nothing of it.
        blocking: Range of the share of tasks turned away, None if it says nothing of it.
        said: What it is said as.
    """

    instance: str
    copies: tuple[int, int]
    reward: tuple[float, float] | None
    blocking: tuple[float, float] | None
    said: str


@cache
def load_sweep() -> dict[Cell, float]:
    """Table 3: percent of OCC-UB by instance, load and policy."""
    return {
        (row["instance"], float(row["load"]), policy): float(row[policy])
        for row in _rows("table3.csv")
        for policy in POLICIES
    }


@cache
def summary() -> dict[tuple[str, str], float]:
    """Table 2: percent of OCC-UB at load 0.7 by instance and policy."""
    return {
        (row["instance"], policy): float(row[policy])
        for row in _rows("table2.csv")
        for policy in POLICIES
    }


@cache
def convergence() -> tuple[Statement, ...]:
    """What the text says of Figure 6."""
    return tuple(
        Statement(
            instance=row["instance"],
            copies=(int(row["n_low"]), int(row["n_high"])),
            reward=_range(row["reward_low"], row["reward_high"]),
            blocking=_range(row["blocking_low"], row["blocking_high"]),
            said=row["said"],
        )
        for row in _rows("figure6.csv")
    )


def loads_of(instance: str) -> tuple[float, ...]:
    """The loads of an instance's rows in Table 3."""
    return tuple(sorted({load for name, load, _ in load_sweep() if name == instance}))


def _range(low: str, high: str) -> tuple[float, float] | None:
    return (float(low), float(high)) if low and high else None


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
