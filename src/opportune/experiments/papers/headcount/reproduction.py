"""The study of prices by headcount: tables as CSV, pictures as PNG and one page.

Reached through the command table of the command line; needs the extra ``report``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opportune.errors import InputError, Problem
from opportune.experiments import page
from opportune.experiments.drawing import png
from opportune.experiments.page import Html
from opportune.experiments.papers.headcount import reference
from opportune.experiments.papers.headcount.figures import auto_picture, cells_picture
from opportune.experiments.papers.headcount.measurements import (
    FULL,
    QUICK,
    Extent,
    auto_row,
    exact_cells,
    pathwise_row,
    solver_instances,
    solver_row,
)
from opportune.experiments.papers.lag.instances import available
from opportune.experiments.pictures import Picture
from opportune.experiments.settings import Progress
from opportune.experiments.static_page import figure, static_page
from opportune.experiments.storing import csv_bytes
from opportune.model.writing import put

Row = dict[str, Any]

PAGE = "headcount.html"
SEED = 1
CLOSE = 0.05
"""Points within which a cell is reproduced."""

TITLE = "Prices by headcount"
ABOUT = (
    "What knowing the number of tasks in service adds to LAG: a tighter proven bound, a sharper "
    "index and, on small systems, the exact optimum. Everything here is this project's own."
)


@dataclass(frozen=True)
class Study:
    """What a run has made.

    Attributes:
        cells: Exact values in percent of OCC-LP(B).
        solver: Solves of HC-LP with their gap and time.
        pathwise: Bounds for deterministic durations.
        auto: Auto minus LAG.
        missing: Instances that were not run, and why.
        files: What was written, the page first.
    """

    cells: Sequence[Row]
    solver: Sequence[Row]
    pathwise: Sequence[Row]
    auto: Sequence[Row]
    missing: dict[str, str]
    files: tuple[Path, ...]


def run_headcount_paper(out: Path, quick: bool = False, progress: Progress | None = None) -> Study:
    """Run the study and write it.

    Args:
        out: Folder to write to.
        quick: Short runs and no large pools.
        progress: Called with the share of the work done.

    Raises:
        InputError: If the folder cannot be written to.
    """
    if out.exists() and not out.is_dir():
        raise InputError(Problem("--out", str(out), "a folder", "name a folder, not a file"))
    extent = QUICK if quick else FULL
    tell: Progress = progress if progress is not None else lambda share, text: None
    instances, missing = available()
    jobs = _jobs(extent, [one.id for one in instances])
    made: dict[str, list[Row]] = {"cells": [], "solver": [], "pathwise": [], "auto": []}
    for done, (kind, label, job) in enumerate(jobs):
        tell(done / len(jobs), label)
        made[kind] += job()
    tell(1.0, "written")
    pictures = [cells_picture(made["cells"]), auto_picture(made["auto"])]
    notes = ["A quick run: short runs, no large pools."] if quick else []
    notes += [f"{name} was not run. {reason}" for name, reason in missing.items()]
    contents = {PAGE: _page(made, pictures, notes).encode()}
    contents |= {f"{name}.csv": csv_bytes(rows) for name, rows in made.items() if rows}
    contents |= {f"{one.name}.png": png(one) for one in pictures}
    for name, content in contents.items():
        put(out / name, content)
    return Study(**made, missing=missing, files=tuple(out / name for name in contents))


Job = tuple[str, str, Callable[[], list[Row]]]


def _jobs(extent: Extent, ids: Sequence[str]) -> list[Job]:
    """Pieces of work: the table they belong to, what is being done, and the work."""
    jobs: list[Job] = []
    for name, load in dict.fromkeys((name, load) for name, load, _ in reference.cells()):
        jobs.append(("cells", f"{name} at load {load:g}", _call(exact_cells, name, load)))
    for label, instance, tolerance in solver_instances(extent.large):
        jobs.append(("solver", label, _one(solver_row, label, instance, tolerance)))
    for name, load in extent.pathwise:
        told = f"paths of {name} at load {load:g}"
        jobs.append(("pathwise", told, _one(pathwise_row, name, load, extent, SEED)))
    for name in ids:
        for load in extent.loads:
            told = f"auto on {name} at load {load:g}"
            jobs.append(("auto", told, _one(auto_row, name, load, extent, SEED)))
    return jobs


def _call(function: Callable[..., list[Row]], *arguments: Any) -> Callable[[], list[Row]]:
    return lambda: function(*arguments)


def _one(function: Callable[..., Row], *arguments: Any) -> Callable[[], list[Row]]:
    return lambda: [function(*arguments)]


def headline(cells: Sequence[Row]) -> str:
    """How many cells agree with the reference."""
    known = [row for row in cells if row["reference"] is not None]
    far = [row for row in known if abs(row["difference"]) > CLOSE]
    text = (
        f"{len(known) - len(far)} of {len(known)} reference values are reproduced to {CLOSE:g} "
        "points by exact evaluation."
    )
    told = "; ".join(f"{r['quantity']} on {r['instance']} at load {r['load']:g}" for r in far)
    return f"{text} Not so: {told}." if far else text


def _page(made: dict[str, list[Row]], pictures: Sequence[Picture], notes: Sequence[str]) -> str:
    parts = [
        page.element("p", headline(made["cells"]), class_="headline"),
        *(page.element("p", note) for note in notes),
        page.section(pictures[0].title, [figure(pictures[0]), *_cell_tables(made["cells"])]),
        page.section("Solving HC-LP", [_solver_table(made["solver"])]),
        page.section("Deterministic durations", [_pathwise_table(made["pathwise"])]),
        page.section(pictures[1].title, [figure(pictures[1]), _auto_table(made["auto"])]),
    ]
    return static_page(TITLE, ABOUT, parts)


def _cell_tables(rows: Sequence[Row]) -> list[Html]:
    tables = []
    for name in dict.fromkeys(row["instance"] for row in rows):
        own = [row for row in rows if row["instance"] == name]
        quantities = list(dict.fromkeys(row["quantity"] for row in own))
        loads = list(dict.fromkeys(row["load"] for row in own))
        at = {(row["load"], row["quantity"]): row for row in own}
        body = [
            [
                f"{load:g}",
                *(f"{at[load, one]['percent']:.2f}" for one in quantities),
                _percent(at[load, "lag"]["lag_paper"], 1),
            ]
            for load in loads
        ]
        head = ("load", *quantities, "LAG in the paper")
        tables.append(page.table(f"{name}: percent of OCC-UB, exact", head, body))
    return tables


def _percent(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _solver_table(rows: Sequence[Row]) -> Html:
    head = ("instance", "headcounts kept", "bound, % of OCC-LP(B)", "gap", "iterations", "seconds")
    body = [
        [
            row["instance"],
            f"{row['kept']} of {row['headcounts']}",
            f"{row['percent']:.3f}",
            f"{row['gap']:.1e}",
            str(row["iterations"]),
            f"{row['seconds']:.2f}",
        ]
        for row in rows
    ]
    return page.table("Certified bound and relative gap of the interior point", head, body)


def _pathwise_table(rows: Sequence[Row]) -> Html:
    head = ("instance", "load", "bound", "mean", "standard error", "reference", "its error")
    body = [
        [row["instance"], f"{row['load']:g}"]
        + [
            f"{row[one]:.2f}"
            for one in ("bound", "mean", "standard_error", "reference", "reference_error")
        ]
        for row in rows
    ]
    return page.table("Statistical bound, percent of OCC-LP(B)", head, body)


def _auto_table(rows: Sequence[Row]) -> Html:
    head = ("instance", "load", "LAG", "auto", "difference", "95 % interval", "<choice")
    body = [
        [
            row["instance"],
            f"{row['load']:g}",
            f"{row['lag']:.2f}",
            f"{row['auto']:.2f}",
            f"{row['difference']:+.3f}",
            f"{row['half_width']:.3f}",
            row["choice"],
        ]
        for row in rows
    ]
    return page.table("Percent of the bound, simulated", head, body)
