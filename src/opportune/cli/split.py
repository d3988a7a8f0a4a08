"""``opportune split``: what a pool loses when it is split into sub-pools."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import (
    INSTANCE_HELP,
    LOAD_HELP,
    NEVER,
    Number,
    OutputOptions,
    SplitOptions,
    parse_periods,
    whole_numbers,
)
from opportune.cli.output import (
    goes_on,
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.experiments.split import SplitGrid, Splitting, split_pool
from opportune.experiments.split_record import splitting_record
from opportune.model.files import load_instance

COLUMNS = (
    "policy",
    "subpools",
    "redeal",
    "tries",
    "reward",
    "percent_of_one_owner",
    "half_width",
    "percent_of_bound",
    "blocking",
)


DEFAULT_RUN, DEFAULT_OUTPUT = SplitOptions(), OutputOptions()


def split(
    instance: Annotated[str, Parameter(help=INSTANCE_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    run: SplitOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Split a pool into sub-pools, servers re-dealt at random, and compare with one owner."""
    settings = run.settings()
    grid = SplitGrid(
        whole_numbers("--into", run.into),
        parse_periods(run.redeal),
        whole_numbers("--tries", run.tries),
    )
    write_report = report_writer(output.report, "split")
    loss = load_instance(instance, load)
    with progress_bar(f"splitting {loss.name}") as progress, goes_on(settings.keep):
        result = split_pool(loss, grid, settings, progress)
    for text in result.warnings:
        print_note(f"warning: {text}")
    record = splitting_record(result)
    if output.format == "json":
        print_json(record)
    elif output.format == "csv":
        print_csv(COLUMNS, [[row[column] for column in COLUMNS] for row in record["rows"]])
    else:
        _print(result)
    write_report(result, f"{loss.name} at load {loss.load:.3g}, split")


def _print(result: Splitting) -> None:
    rows = [
        (
            row.policy,
            f"{row.split.subpools}",
            ""
            if row.split.subpools == 1
            else NEVER
            if row.split.redeal is None
            else f"{row.split.redeal}",
            f"{row.split.tries}",
            f"{row.reward:.6g}",
            f"{row.percent_of_one_owner:.2f}",
            "-" if not math.isfinite(row.half_width) else f"{row.half_width:.2f}",
            f"{row.percent_of_bound:.2f}",
            f"{row.blocking:.4f}",
        )
        for row in result.rows
    ]
    columns = (
        "policy",
        "sub-pools",
        "re-dealt",
        "asked",
        "reward/step",
        "% of one owner",
        "+/-",
        "% of bound",
        "blocking",
    )
    loss, settings = result.instance, result.settings
    print_table(
        f"{loss.name} at load {loss.load:.4g}: {loss.n_servers} servers, split", columns, rows
    )
    print(f"bound occ-lp-at-most: {result.bound:.6g} per step, of any policy")
    print(
        f"seed {settings.seed}, {settings.replications} replications of {settings.steps} steps "
        f"after {result.warm_up} of warm-up; all on the same tasks, intervals 95 %, paired"
    )
