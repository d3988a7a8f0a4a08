"""``opportune scale``: what LAG earns as the pool grows by the paper's (m, n)-scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from opportune.cli.options import (
    BACKEND_HELP,
    FORMAT_HELP,
    INSTANCE_HELP,
    LOAD_HELP,
    Backend,
    Format,
    Number,
    Whole,
    whole_numbers,
)
from opportune.cli.output import print_csv, print_json, print_note, print_table, progress_bar
from opportune.experiments.records import scaling_record
from opportune.experiments.scale import ScaleSettings
from opportune.experiments.scale import scale as run_scaling
from opportune.model.files import load_instance

N_HELP = "Copies of each server that a dispatcher sees, by commas: 1,4,16,64."
M_HELP = "Dispatchers, one for each n; floor(sqrt n) by default."
COLUMNS = ("n", "m", "steps", "percent_of_bound", "half_width", "blocking")


@Parameter(name="*")
@dataclass(frozen=True)
class ScaleOptions:
    """How the scaled systems are run."""

    steps: Annotated[
        Whole | None, Parameter(help="Counted steps of a run; max(100,000 / m, 1,000) by default.")
    ] = None
    replications: Annotated[Whole, Parameter(help="Independent runs of each system.")] = 3
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1
    workers: Annotated[Whole, Parameter(help="Runs at the same time.")] = 1
    backend: Annotated[Backend, Parameter(help=BACKEND_HELP)] = "threads"
    start: Annotated[
        Literal["fluid", "empty"], Parameter(help="Start in the fluid fixed point, or empty.")
    ] = "fluid"


DEFAULT_RUN = ScaleOptions()


def scale(
    instance: Annotated[str, Parameter(help=INSTANCE_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    n: Annotated[str, Parameter(help=N_HELP)] = "1,4,16,64,256,1024",
    m: Annotated[str, Parameter(help=M_HELP)] = "",
    run: ScaleOptions = DEFAULT_RUN,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """Run LAG with n copies of each server for each of m dispatchers (LAG Def. 4.1)."""
    settings = ScaleSettings(
        n=whole_numbers("--n", n),
        m=whole_numbers("--m", m) if m else (),
        steps=run.steps,
        replications=run.replications,
        seed=run.seed,
        workers=run.workers,
        start=run.start,
        backend=run.backend,
    )
    loss = load_instance(instance, load)
    with progress_bar(f"scaling {loss.name}") as progress:
        result = run_scaling(loss, settings, progress)
    for text in result.warnings:
        print_note(f"warning: {text}")
    record = scaling_record(result)
    if format == "json":
        print_json(record)
    elif format == "csv":
        print_csv(COLUMNS, [[row[column] for column in COLUMNS] for row in record["rows"]])
    else:
        rows = [
            (
                f"{row.n}",
                f"{row.m}",
                f"{row.steps}",
                f"{row.percent_of_bound:.2f}",
                f"{row.half_width:.2f}" if math.isfinite(row.half_width) else "-",
                f"{row.blocking:.4f}",
            )
            for row in result.rows
        ]
        columns = ("n", "m", "steps", "% of bound", "+/-", "blocking")
        print_table(f"{loss.name} at load {loss.load:.4g}: LAG in the scaled system", columns, rows)
        print(f"seed {run.seed}, {run.replications} replications, start {run.start}")
