"""``opportune queue``: learn unknown success rates while tasks wait."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import Number, OutputOptions, Whole
from opportune.cli.output import (
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.errors import InputError, Problem
from opportune.experiments.queue import QueueComparison, QueueSettings, compare_queue
from opportune.experiments.queue_record import COLUMNS, queue_record, queue_rows
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_streams import Feedback

QUEUE_HELP = "A queue instance file (TOML) or a catalog id such as hard-v1 or cqb-joint-v1."


@Parameter(name="*")
@dataclass(frozen=True)
class QueueOptions:
    """How queue policies are run."""

    policies: Annotated[
        str, Parameter(help="Policy ids by commas, or 'all'; by default the usual ones.")
    ] = ""
    horizon: Annotated[Whole | None, Parameter(help="Steps of a run, T.")] = None
    replications: Annotated[Whole, Parameter(help="Runs coupled with the oracle.")] = 100
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1
    workers: Annotated[Whole, Parameter(help="Replications run at the same time.")] = 1
    servers_at_once: Annotated[
        Whole, Parameter(help="Servers that work in a step, each on a task of its own.")
    ] = 1
    delay: Annotated[Whole, Parameter(help="Mean steps until an outcome is learned from.")] = 0
    lost: Annotated[Number, Parameter(help="Share of outcomes that are never reported.")] = 0.0
    repeated: Annotated[Number, Parameter(help="Share of outcomes reported twice.")] = 0.0

    def settings(self) -> QueueSettings:
        """The settings of the run.

        Raises:
            InputError: Naming the option that is wrong.
        """
        named = tuple(one.strip() for one in self.policies.split(",") if one.strip())
        if self.policies and not named:
            raise InputError(Problem("--policies", repr(self.policies), "ids, by commas"))
        return QueueSettings(
            policies=named,
            horizon=self.horizon,
            replications=self.replications,
            seed=self.seed,
            workers=self.workers,
            servers_at_once=self.servers_at_once,
            feedback=Feedback(self.delay, self.lost, self.repeated),
        )


@Parameter(name="*")
@dataclass(frozen=True)
class WorldOptions:
    """What may be changed of the instance."""

    arrival_rate: Annotated[
        Number | None, Parameter(help="Probability that a task arrives in a step.")
    ] = None
    load: Annotated[
        Number | None, Parameter(help="Share of what the oracle serves; instances from data only.")
    ] = None
    dimension: Annotated[
        Whole | None, Parameter(help="Entries of a feature vector; built-in instances only.")
    ] = None
    servers: Annotated[
        Whole | None, Parameter(help="Number of servers; built-in instances only.")
    ] = None
    slack: Annotated[
        Number | None, Parameter(help="Slack that CQB's algorithms are told (epsilon).")
    ] = None

    def choice(self, horizon: int | None) -> QueueChoice:
        """The choice of an instance."""
        return QueueChoice(
            horizon=horizon,
            dimension=self.dimension,
            servers=self.servers,
            arrival_rate=self.arrival_rate,
            load=self.load,
            slack=self.slack,
        )


DEFAULT_RUN, DEFAULT_WORLD, DEFAULT_OUTPUT = QueueOptions(), WorldOptions(), OutputOptions()


def queue(
    instance: Annotated[str, Parameter(help=QUEUE_HELP)],
    /,
    *,
    run: QueueOptions = DEFAULT_RUN,
    world: WorldOptions = DEFAULT_WORLD,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Learn which server solves which task, from success and failure, while tasks wait.

    All policies and the oracle, which knows the rates, see the same tasks and the same luck.
    """
    settings = run.settings()
    write = report_writer(output.report, "queue")
    chosen = load_queue(instance, world.choice(run.horizon))
    for text in chosen.notes:
        print_note(f"note: {text}")
    with progress_bar(f"serving {chosen.name}") as progress:
        result = compare_queue(chosen, settings, progress)
    for text in result.warnings:
        print_note(f"warning: {text}")
    if output.format == "json":
        print_json(queue_record(result))
    elif output.format == "csv":
        rows = [[row[column] for column in COLUMNS] for row in queue_rows(result)]
        print_csv(COLUMNS, rows)
    else:
        print_queue_table(result)
    write(result, f"{chosen.name}: learning while tasks wait")


def print_queue_table(result: QueueComparison) -> None:
    """The rows for people: the end and the way beside each other, with standard errors."""
    rows = [
        (
            row.policy,
            _with_error(row.queue_regret, row.standard_error),
            _with_error(row.excess, row.excess_error),
            _with_error(row.transient_cost, row.transient_error),
            f"{row.mean_queue:.3g}",
            f"{row.final_queue:.3g}",
            f"{100 * row.exploration_share:.1f}",
            row.note,
        )
        for row in result.rows
    ]
    columns = (
        "policy",
        "Q(T)-Q*(T)",
        "mean excess",
        "transient cost",
        "mean queue",
        "final queue",
        "explored %",
        "note",
    )
    rate = f"{result.world.arrival_rate:.4g} tasks per step"
    print_table(f"{result.world.name}, {rate}, T = {result.horizon}", columns, rows)
    settings = result.settings
    print(
        f"seed {settings.seed}, {settings.replications} runs coupled with the oracle; "
        "+/- is one standard error"
    )


def _with_error(value: float, error: float) -> str:
    told = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    if not math.isfinite(error):
        return told
    return f"{told} +/- {error:.3f}" if error < 10 else f"{told} +/- {error:.1f}"
