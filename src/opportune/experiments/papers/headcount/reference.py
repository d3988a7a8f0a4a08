"""Reference numbers, read from the CSV files beside this module."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

QUANTITIES = ("exact", "hc-lp", "hc-group-lp", "headcount-group", "headcount")
"""Bounds and policies with a reference number in every cell."""

Cell = tuple[str, float, str]
"""Instance, load, quantity."""


@cache
def cells() -> dict[Cell, float]:
    """Percent of OCC-LP(B) by instance, load and quantity; ``lag-paper`` where it is published."""
    return {
        (row["instance"], float(row["load"]), name): float(row[name])
        for row in _rows("cells.csv")
        for name in (*QUANTITIES, "lag-paper")
        if row[name]
    }


@cache
def pathwise() -> dict[tuple[str, float], tuple[float, float]]:
    """Percent of OCC-LP(B) and standard error of the pathwise bound by instance and load."""
    return {
        (row["instance"], float(row["load"])): (
            float(row["percent"]),
            float(row["standard_error"]),
        )
        for row in _rows("pathwise.csv")
    }


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
