"""``opportune paper cqb``: pieces of work, then tables as CSV, pictures as PNG and one page.

Reached through the command table of the command line; needs the extra ``report``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opportune import __version__
from opportune.errors import InputError, Problem
from opportune.experiments.code_version import code_version
from opportune.experiments.drawing import png
from opportune.experiments.papers.cqb import claims, figures, tables
from opportune.experiments.papers.cqb.claims import Found, Verdict
from opportune.experiments.papers.cqb.merging import merged
from opportune.experiments.papers.cqb.page import page_html
from opportune.experiments.papers.cqb.plan_of_work import FULL, QUICK, Setting, settings
from opportune.experiments.papers.cqb.units import Piece
from opportune.experiments.pictures import Picture
from opportune.experiments.resume import Parts, finish
from opportune.experiments.settings import Progress, Settings
from opportune.experiments.storing import csv_bytes
from opportune.model.catalog import DATA_VARIABLE, data_folder
from opportune.model.queue_catalog import ROUTER_FEATURES, ROUTER_SCORES
from opportune.model.writing import put

Row = dict[str, Any]

PAGE = "cqb.html"
PARTS = "parts"
CURVES = (
    tables.OURS,
    "greedy-decay",
    "cqb-eta-2 (0.01, 0.02) x 0.01, ridge 0.1",
    "cqb-eta-2 (0.05, 0.1) x 0.01, ridge 0.1",
    tables.WORST_CELL,
)
"""Arms of the picture of queues over time."""


@dataclass(frozen=True)
class Study:
    """What a run has made.

    Attributes:
        tables: Rows of every table, by name of its file.
        verdicts: What became of every claim.
        missing: What was not run, and why; empty if all was.
        files: What was written, the page first.
        pieces: Pieces of work.
        kept: How many of them an earlier run had finished.
        seconds: Time this run took.
    """

    tables: Mapping[str, Sequence[Row]]
    verdicts: Sequence[Verdict]
    missing: str
    files: tuple[Path, ...]
    pieces: int
    kept: int
    seconds: float


def run_cqb_paper(
    out: Path, options: Settings, quick: bool = False, progress: Progress | None = None
) -> Study:
    """Run the study, or go on where an interrupted run stopped.

    Args:
        out: Folder to write to; finished pieces are kept in a folder below it.
        options: Seed, workers and backend.
        quick: A small version: short horizons, few runs, rough numbers.
        progress: Called with the share of the work done.

    Raises:
        InputError: If the folder cannot be written to.
    """
    start = time.perf_counter()
    if out.exists() and not out.is_dir():
        raise InputError(Problem("--out", str(out), "a folder", "name a folder, not a file"))
    missing = missing_data()
    work = settings(QUICK if quick else FULL, with_data=not missing)
    pieces = {one: one.pieces(options.seed) for one in work}
    units: list[Piece] = [piece for own in pieces.values() for piece in own]
    parts = Parts(out / PARTS)
    kept = sum(parts.path(unit).exists() for unit in units)
    tell: Progress = progress if progress is not None else lambda share, text: None
    records = dict(zip(units, finish(units, parts, options, tell), strict=True))
    found: Found = {
        (one.section, one.name): merged([records[piece] for piece in own])
        for one, own in pieces.items()
    }
    made = all_tables(work, found)
    verdicts = claims.verdicts(found, tables.slopes(work, found))
    pictures = all_pictures(work, found)
    told = facts(work, options.seed)
    notes = ["A quick run: short horizons and few runs. Its numbers are rough."] if quick else []
    notes += [f"Real prompts were not run. {missing}"] if missing else []
    contents = {PAGE: page_html((made, verdicts), pictures, told, notes).encode()}
    contents |= {f"{name}.csv": csv_bytes(rows) for name, rows in made.items() if rows}
    contents |= {f"{one.name}.png": png(one) for one in pictures}
    for name, content in contents.items():
        put(out / name, content)
    return Study(
        tables=made,
        verdicts=verdicts,
        missing=missing,
        files=tuple(out / name for name in contents),
        pieces=len(units),
        kept=kept,
        seconds=time.perf_counter() - start,
    )


def missing_data() -> str:
    """Why the real prompts cannot be run; empty if they can."""
    if not os.environ.get(DATA_VARIABLE):
        return f"{DATA_VARIABLE} is not set."
    try:
        data_folder("dcreplay-v1", (ROUTER_FEATURES, ROUTER_SCORES))
    except InputError as error:
        return str(error)
    return ""


def all_tables(work: Sequence[Setting], found: Found) -> dict[str, list[Row]]:
    """Rows by the name of their file."""
    fitted = tables.slopes(work, found)
    verdicts = claims.verdicts(found, fitted)
    return {
        "summary": claims.published_rows(found),
        "claims": [
            {"source": v.source, "said": v.said, "ours": v.ours, "verdict": v.verdict}
            for v in verdicts
        ],
        "hard": tables.scaled_rows(work, found),
        "slopes": tables.slope_rows(fitted),
        "rates": tables.measured_rows(work, found, "rates"),
        "setup_2606": tables.measured_rows(work, found, "summary"),
        "setup_2601": tables.measured_rows(work, found, "first paper"),
        "default": tables.default_rows(found),
        "default_all": tables.measured_rows(work, found, "default"),
        "choosing": tables.measured_rows(work, found, "choosing"),
        "loads": tables.measured_rows(work, found, "loads"),
    }


def all_pictures(work: Sequence[Setting], found: Found) -> list[Picture]:
    """Every picture that has something to show."""
    pictures = [
        figures.rates_picture(work, found, tables.slopes(work, found)),
        figures.knobs_picture(work, found),
        figures.queues_picture(work, found, CURVES),
    ]
    if any(one.section == "loads" for one in work):
        pictures.append(figures.loads_picture(work, found))
    return pictures


def facts(work: Sequence[Setting], seed: int) -> list[tuple[str, str]]:
    """What made the numbers; nothing in it depends on workers or on the clock."""
    runs = sum(one.replications for one in work)
    return [
        ("Runs", f"{runs:,} coupled replications in {len(work)} settings"),
        ("Pairs", "all policies and the oracle on the same arrivals, contexts and uniforms"),
        ("Errors", "one standard error of the differences run by run, unless said otherwise"),
        ("Estimates", "online Newton steps, exact refit each time the data grew by a fifth"),
        ("Seed", f"{seed}; cells of CQB-eta-2 are chosen on seed {seed + 1}"),
        ("Version", f"opportune {__version__}, code {code_version()}"),
    ]
