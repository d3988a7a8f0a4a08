"""``opportune fit``: from a log of what happened to an instance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from opportune.cli.options import Number, OutputOptions, Place, Whole
from opportune.cli.output import (
    command_line,
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.experiments.fit_limits import limit_cautions
from opportune.experiments.judging import TRAIN
from opportune.experiments.settings import Progress
from opportune.learning.fit.columns import read_columns
from opportune.learning.fit.files import FIT_FILES, SCORE_COLUMNS, fit_record, score_rows, write_fit
from opportune.learning.fit.instance import Fit, FitSettings, fit_log
from opportune.learning.fit.log import LogRules, read_log
from opportune.model.writing import check_apart, check_place

LOG_HELP = "A log: CSV or Parquet, one row per task and server."
COLUMNS_HELP = "Which column is what: a TOML file, or time=arrived,server=agent,..."
OUT_HELP = "Write the instance here: a folder with instance.toml, scores.csv, fit.json."
MOST_ROWS = 40
"""Rows of a table that is printed; files have all."""


@Parameter(name="*")
@dataclass(frozen=True)
class ReadOptions:
    """What to do with rows that are not as they should be."""

    bad_rows: Annotated[
        Literal["refuse", "drop"],
        Parameter(help="Rows that cannot be used: refuse the log, or leave them out and say so."),
    ] = "refuse"
    too_short: Annotated[
        Literal["refuse", "one-step", "drop"],
        Parameter(help="Durations of zero or less: refuse, count as one step, or leave out."),
    ] = "refuse"
    missing_outcome: Annotated[
        Literal["discard", "zero"],
        Parameter(help="A service that ended without an outcome: teaches nothing, or is worth 0."),
    ] = "discard"


@Parameter(name="*")
@dataclass(frozen=True)
class EstimateOptions:
    """How the log is fitted."""

    step: Annotated[
        Number | None, Parameter(help="Length of a step in the log's unit of time; else chosen.")
    ] = None
    periods: Annotated[
        Whole, Parameter(help="Periods of a day for its profile of rates, 1 for none.")
    ] = 24
    types: Annotated[
        Whole | None, Parameter(help="Make so many types of the contexts; else types are given.")
    ] = None
    model: Annotated[
        Literal["auto", "table", "joint", "server"],
        Parameter(help="Scores by a table, or by regression on contexts: joint, or per server."),
    ] = "auto"
    score: Annotated[
        Literal["outcome", "speed", "none"],
        Parameter(help="What a service is worth: its outcome, its speed (made up), or 1."),
    ] = "outcome"
    durations: Annotated[
        Literal["auto", "type", "server"],
        Parameter(help="A law per type, per type and server, or as a test of servers says."),
    ] = "auto"
    unseen: Annotated[
        Literal["allow", "forbid"], Parameter(help="Pairs that the log never shows.")
    ] = "allow"
    name: Annotated[str, Parameter(help="Name of the instance.")] = "fitted"

    def settings(self, duration: object | None, seed: int) -> FitSettings:
        """The settings of the fit.

        Args:
            duration: Duration from the map of columns, None if the log has them.
            seed: Seed of what is drawn.

        Raises:
            InputError: Naming the option that is wrong.
        """
        return FitSettings(
            step=self.step,
            periods=self.periods,
            types=self.types,
            model=self.model,
            score=self.score,
            durations=self.durations,
            unseen=self.unseen,
            seed=seed,
            name=self.name,
            duration=duration,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class FitOptions(EstimateOptions):
    """How the log is fitted and the instance written."""

    availability: Annotated[
        Literal["always", "share"],
        Parameter(help="Servers on duty always, or the share of time that they were seen at work."),
    ] = "always"
    seed: Annotated[Whole, Parameter(help="Seed of parts held out and of clusters.")] = 1


@Parameter(name="*")
@dataclass(frozen=True)
class JudgedOptions(EstimateOptions):
    """How the log is fitted, and policies judged by it."""

    train: Annotated[
        Number,
        Parameter(
            help="Share of the tasks, the first ones, that judged plans are made on; 0: all."
        ),
    ] = TRAIN
    clip: Annotated[
        Number | None, Parameter(help="Largest weight of a decision in off-policy estimates.")
    ] = None


DEFAULT_READ, DEFAULT_FIT, DEFAULT_OUTPUT = ReadOptions(), FitOptions(), OutputOptions()


def fit(
    log: Annotated[Place, Parameter(help=LOG_HELP)],
    /,
    *,
    columns: Annotated[str | None, Parameter(help=COLUMNS_HELP)] = None,
    out: Annotated[Place | None, Parameter(help=OUT_HELP)] = None,
    options: FitOptions = DEFAULT_FIT,
    read: ReadOptions = DEFAULT_READ,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Estimate rates, durations and scores from a log, each with how sure it is."""
    write_report = report_writer(output.report, "fit")
    if out is not None:
        for name in FIT_FILES:
            check_apart(out / name, log)
            check_place(out / name)
    with progress_bar(f"fitting {log.name}") as progress:
        result = fitted(log, columns, read, (options, options.seed), progress)
    for text in result.cautions:
        print_note(f"caution: {text}")
    if output.format == "json":
        print_json(fit_record(result))
    elif output.format == "csv":
        print_csv(SCORE_COLUMNS, score_rows(result))
    else:
        _print_tables(result)
    if out is not None:
        made = write_fit(result, out, command_line.get(), options.availability == "share")
        print_note(f"instance: {made[0]}; beside it {', '.join(path.name for path in made[1:])}")
    write_report(result, f"{result.instance.name}: fitted to {log.name}")


def fitted(
    log: Path,
    columns: str | None,
    read: ReadOptions,
    estimate: tuple[EstimateOptions, int],
    progress: Progress,
) -> Fit:
    """Read a log and fit it; cautions about its load are among the others.

    Args:
        log: The log.
        columns: Which column is what.
        read: What to do with bad rows.
        estimate: How to fit it, and the seed.
        progress: Told what is going on.

    Raises:
        InputError: All problems of the log, or the option that is wrong.
    """
    found = read_columns(columns)
    options, seed = estimate
    settings = options.settings(found.duration, seed)
    progress(0.0, "reading")
    whole = read_log(log, found, LogRules(read.bad_rows, read.too_short, read.missing_outcome))
    progress(0.5, "estimating")
    return limit_cautions(fit_log(whole, settings))


def _print_tables(fit: Fit) -> None:
    instance, arrivals = fit.instance, fit.arrivals
    rows = []
    for v, name in enumerate(instance.task_types[:MOST_ROWS]):
        one = fit.services.types[v]
        rows.append(
            (
                name,
                f"{arrivals.count[v]}",
                f"{arrivals.rate[v]:.4g}",
                f"{arrivals.low[v]:.4g} to {arrivals.high[v]:.4g}",
                f"{instance.servers_per_task[v]}",
                f"{one.mean:.4g}",
                f"{one.low:.4g} to {one.high:.4g}",
                type(one.law).__name__.lower(),
                f"{one.n}" + (f" + {one.censored} censored" if one.censored else ""),
            )
        )
    columns = ("type", "tasks", "rate/step", "95 %", "k", "mean steps", "95 %", "law", "ended")
    print_table(f"{instance.name}: {fit.log.n_tasks} tasks of {fit.log.name}", columns, rows)
    _print_scores(fit)
    if fit.findings:
        print("In the log:")
        for text in fit.findings:
            print(f"- {text}")
    print(
        f"one step is {fit.step.length:g} of the log's units ({fit.step.reason}); load "
        f"{instance.load:.4g}; seed {fit.settings.seed}"
    )


def _print_scores(fit: Fit) -> None:
    rows = [
        (
            row[0],
            row[1],
            f"{row[2]:.4g}",
            "" if row[3] is None else f"{row[3]:.4g} to {row[4]:.4g}",
            f"{row[5]}",
            "" if row[6] is None else f"{row[6]:.4g}",
            f"{row[7]}",
        )
        for row in score_rows(fit)
    ]
    columns = ("type", "server", "score", "95 %", "outcomes", "their mean", "services")
    print_table("Scores", columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print(f"first {MOST_ROWS} of {len(rows)} pairs; --format csv or --out has all")
    if fit.scores is not None:
        told = ", ".join(
            f"{name} {loss:.5f} (+/- {error:.5f})"
            for name, (loss, error) in fit.scores.losses.items()
        )
        print(f"model of scores: {fit.scores.model}; held-out loss: {told or 'too few outcomes'}")
