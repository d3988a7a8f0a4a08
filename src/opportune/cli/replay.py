"""``opportune replay``: what would each policy have earned on your own log?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from opportune.cli.fit import (
    COLUMNS_HELP,
    DEFAULT_READ,
    LOG_HELP,
    EstimateOptions,
    ReadOptions,
    fitted,
)
from opportune.cli.options import OutputOptions, RunOptions
from opportune.cli.output import (
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.experiments.replay import LOGGED, Replay, replay_record
from opportune.experiments.replay import replay as run_replay

DEFAULT_ESTIMATE, DEFAULT_RUN, DEFAULT_OUTPUT = EstimateOptions(), RunOptions(), OutputOptions()


def replay(
    log: Annotated[Path, Parameter(help=LOG_HELP)],
    /,
    *,
    columns: Annotated[str | None, Parameter(help=COLUMNS_HELP)] = None,
    options: EstimateOptions = DEFAULT_ESTIMATE,
    read: ReadOptions = DEFAULT_READ,
    run: RunOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Fit a log, simulate policies on the fitted instance, and set them beside the log itself."""
    settings = run.settings()
    write_report = report_writer(output.report, "replay")
    with progress_bar(f"replaying {log.name}") as progress:
        fit = fitted(log, columns, read, (options, settings.seed), progress)
        result = run_replay(fit, settings, progress)
    for text in (*result.cautions, *result.comparison.warnings):
        print_note(f"caution: {text}")
    record = replay_record(result)
    if output.format == "json":
        print_json(record)
    elif output.format == "csv":
        names = list(record["policies"][0])
        print_csv(names, [[row[name] for name in names] for row in record["policies"]])
    else:
        _print_table(result)
    write_report(result, f"Policies on {log.name}")


def _print_table(result: Replay) -> None:
    first = result.rows[1].policy
    rows: Sequence[Any] = [
        (
            row.policy,
            f"{row.reward:.4f}",
            _width(row.half_width),
            "" if row.policy == LOGGED else _width(row.score_half_width),
            f"{row.unserved:.4f}",
            "" if row.policy == LOGGED else f"{row.difference:+.4f}",
            "" if row.policy == LOGGED else _width(row.difference_half_width),
            "" if row.policy in (LOGGED, first) else f"{row.rival:+.4f}",
            "" if row.policy in (LOGGED, first) else _width(row.rival_half_width),
        )
        for row in result.rows
    ]
    columns = (
        "policy",
        "reward/task",
        "+/-",
        "+/- scores",
        "unserved",
        "- log",
        "+/-",
        f"- {first}",
        "+/-",
    )
    print_table(f"{result.fit.log.name}: {result.fit.log.n_tasks} tasks", columns, rows)
    runs = result.comparison.runs
    print(
        "'log' is what really happened; the others are simulated on the instance fitted to it "
        f"(load {result.fit.instance.load:.4g})"
    )
    print(
        f"seed {result.comparison.settings.seed}, {len(runs.reward)} replications of {runs.steps} "
        f"steps after {runs.warm_up} of warm-up; intervals 95 %"
    )


def _width(value: float) -> str:
    return "-" if value == float("inf") else f"{value:.4f}"
