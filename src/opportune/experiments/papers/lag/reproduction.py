"""The whole reproduction: pieces of work, then tables as CSV, pictures as PNG and one page.

Reached through the command table of the command line; needs the extra ``report``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opportune import __version__
from opportune.errors import InputError, Problem
from opportune.experiments.code_version import code_version
from opportune.experiments.drawing import png
from opportune.experiments.papers.lag import claims, figures, limits, tables
from opportune.experiments.papers.lag.causes import Compared, implied_steps
from opportune.experiments.papers.lag.instances import (
    FIGURES,
    FULL,
    POLICIES,
    QUICK,
    SCALE_LOAD,
    SUMMARY_LOAD,
    Extent,
    PaperInstance,
    available,
)
from opportune.experiments.papers.lag.page import page_html
from opportune.experiments.papers.lag.sections import REBUILT, Tables, headline
from opportune.experiments.papers.lag.tables import Results, Row
from opportune.experiments.papers.lag.units import Cell, Fluid, Point
from opportune.experiments.pictures import Picture
from opportune.experiments.resume import Parts, Unit, finish
from opportune.experiments.settings import Progress, Settings
from opportune.experiments.storing import csv_bytes
from opportune.model.writing import put

PAGE = "lag.html"

PARTS = "parts"
"""Folder of the finished pieces, below the one that is written to."""

Key = tuple[str, str, float]
"""Kind of a piece, short name of its instance, and the load, the sample or n."""


@dataclass(frozen=True)
class Reproduction:
    """What a run has made.

    Attributes:
        tables: The rows of every table.
        headline: How many cells agree, in words.
        missing: Short name of each instance that was not run, and why.
        files: What was written, the page first.
        pieces: Pieces of work.
        kept: How many of them an earlier run had finished.
        seconds: Time this run took.
    """

    tables: Tables
    headline: str
    missing: Mapping[str, str]
    files: tuple[Path, ...]
    pieces: int
    kept: int
    seconds: float


def run_lag_paper(
    out: Path, settings: Settings, quick: bool = False, progress: Progress | None = None
) -> Reproduction:
    """Reproduce the LAG paper, or go on where an interrupted run stopped.

    Args:
        out: Folder to write to; finished pieces are kept in a folder below it.
        settings: Seed, workers and backend; policies, steps and replications are the paper's.
        quick: A small version: few loads, short runs, rough numbers.
        progress: Called with the share of the work done.

    Raises:
        InputError: If the folder cannot be written to.
    """
    start = time.perf_counter()
    if out.exists() and not out.is_dir():
        raise InputError(Problem("--out", str(out), "a folder", "name a folder, not a file"))
    extent = QUICK if quick else FULL
    instances, missing = available()
    work = pieces(instances, extent, settings.seed)
    units = list(dict.fromkeys(work.values()))
    parts = Parts(out / PARTS)
    kept = sum(parts.path(unit).exists() for unit in units)
    tell: Progress = progress if progress is not None else lambda share, text: None
    records = dict(zip(units, finish(units, parts, settings, tell), strict=True))
    done = {key: records[unit] for key, unit in work.items()}
    results = Results(
        cells={(name, x): one for (kind, name, x), one in done.items() if kind == "cell"},
        samples={(name, int(x)): one for (kind, name, x), one in done.items() if kind == "sample"},
        points={(name, int(x)): one for (kind, name, x), one in done.items() if kind == "point"},
        fluid={name: one for (kind, name, _), one in done.items() if kind == "fluid"},
    )
    made = all_tables(results)
    told = facts(made, extent, settings.seed)
    files = _write(out, made, told, notes(missing, quick))
    return Reproduction(
        tables=made,
        headline=headline(made.sweep),
        missing=missing,
        files=files,
        pieces=len(units),
        kept=kept,
        seconds=time.perf_counter() - start,
    )


def pieces(instances: Sequence[PaperInstance], extent: Extent, seed: int) -> dict[Key, Unit]:
    """The pieces of work, in the order of the paper; one may stand under two keys."""
    work: dict[Key, Unit] = {}
    size = (POLICIES, extent.steps, extent.replications, seed)
    for one in instances:
        for load in extent.loads_of(one):
            work["cell", one.name, load] = Cell(one.id, load, *size)
        for n in extent.copies:
            work["point", one.name, n] = Point(
                one.id, SCALE_LOAD, n, extent.trials, extent.scale_steps, seed
            )
        work["fluid", one.name, 0] = Fluid(
            one.id, SCALE_LOAD, extent.starts, extent.fluid_steps, seed
        )
        for number in range(extent.samples if one.rebuilt else 0):
            work["sample", one.name, number] = Cell(one.sample(number), SUMMARY_LOAD, *size)
    return work


def all_tables(results: Results) -> Tables:
    """Every table, from the records."""
    sweep = tables.load_sweep(results)
    samples = tables.sample_rows(results)
    convergence = tables.convergence_rows(results)
    return Tables(
        summary=tables.summary(sweep),
        sweep=sweep,
        bounds=tables.bound_rows(results),
        claims=claims.claims(sweep, samples, convergence),
        samples=samples,
        sample_summary=tables.sample_summary(samples),
        blocking=tables.blocking_rows(results),
        convergence=convergence,
        fluid=tables.fluid_rows(results),
        curves=tables.curve_rows(results),
    )


def all_pictures(made: Tables) -> dict[str, Picture]:
    """Every picture that has something to show, by name."""
    found = [
        figures.summary_picture(made.summary),
        figures.differences_picture(made.sweep),
        limits.blocking_picture(made.blocking),
        limits.convergence_picture(made.convergence),
        limits.fluid_picture(made.curves),
    ]
    for number, names in FIGURES.items():
        own = _of(made.sweep, names)
        if own:
            found.append(figures.sweep_picture(number, own, made.bounds))
    if made.samples:
        found.append(figures.samples_picture(made.samples, made.sample_summary))
    return {one.name: one for one in found}


def facts(made: Tables, extent: Extent, seed: int) -> list[tuple[str, str]]:
    """What made the numbers; nothing in it depends on workers or on the clock."""
    own = [cell for cell in made.sweep if cell.instance not in REBUILT]
    implied = implied_steps(own, extent.replications, extent.steps)
    length = "max(100,000 / m, 1,000)" if extent.scale_steps is None else f"{extent.scale_steps:,}"
    return [
        ("Load sweep", f"{extent.replications} replications of {extent.steps:,} steps, from empty"),
        ("Convergence", f"{extent.trials} trials of {length} steps, from the fluid fixed point"),
        ("Fluid map", f"{extent.starts} random starts, {extent.fluid_steps:,} steps each"),
        ("Intervals", "95 %, Student's t over replications"),
        ("Seed", str(seed)),
        (
            "The paper's runs",
            "the differences in the columns of Whittle, Greedy and Random are as large as those of "
            + ("runs of unknown length" if implied is None else f"runs of {implied:,.0f} steps"),
        ),
        ("Version", f"opportune {__version__}, code {code_version()}"),
    ]


def notes(missing: Mapping[str, str], quick: bool) -> list[str]:
    """What a reader must know first: a quick run, and instances that were not run."""
    told = []
    if quick:
        told.append("A quick run: few loads and short runs. Its numbers are rough.")
    if missing:
        told.append("The peer-review instances read data that are not part of this package.")
    told += [f"{tables.title_of(name)} was not run. {reason}" for name, reason in missing.items()]
    return told


def _of(sweep: Sequence[Compared], names: Sequence[str]) -> list[Compared]:
    """The cells of some instances, in the order of the names."""
    return [cell for name in names for cell in sweep if cell.instance == name]


def _tables_by_file(made: Tables, told: Sequence[tuple[str, str]]) -> dict[str, list[Row]]:
    kiid = [
        {"instance": row["instance"], "load": row["load"], "policy": "kiid-lp"}
        | {"ours": row["kiid_percent"]}
        for row in made.bounds
    ]
    files = {
        "table2": tables.compared_rows(made.summary),
        "table3": tables.compared_rows(made.sweep),
        "bounds": list(made.bounds),
        "samples": list(made.samples),
        "samples_summary": list(made.sample_summary),
        "blocking": list(made.blocking),
        "figure6": list(made.convergence),
        "fluid": list(made.fluid),
        "fluid_paths": list(made.curves),
        "claims": claims.claim_rows(made.claims),
        "run": [{"what": what, "value": value} for what, value in told],
    }
    for number, names in FIGURES.items():
        limits_of = [row for name in names for row in kiid if row["instance"] == name]
        files[f"figure{number}"] = [
            *tables.compared_rows(_of(made.sweep, names)),
            *limits_of,
        ]
    return files


def _write(
    out: Path, made: Tables, told: Sequence[tuple[str, str]], first: Sequence[str]
) -> tuple[Path, ...]:
    """All files; what an earlier run wrote and this one has nothing for is removed."""
    pictures = all_pictures(made)
    html = page_html(made, pictures, told, first)
    contents = {PAGE: html.encode()}
    by_file = _tables_by_file(made, told)
    contents |= {f"{name}.csv": csv_bytes(rows) for name, rows in by_file.items() if rows}
    contents |= {f"{name}.png": png(one) for name, one in pictures.items()}
    names = {f"{name}.csv" for name in by_file}
    names |= {f"figure{number}.png" for number in FIGURES} | {"samples.png"}
    for name in sorted(names - contents.keys()):
        (out / name).unlink(missing_ok=True)
    for name, content in contents.items():
        put(out / name, content)
    return tuple(out / name for name in contents)
