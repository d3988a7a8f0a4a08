"""``opportune learn``: policies that learn hidden scores, beside the one that knows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from opportune.cli.options import INSTANCE_HELP, LOAD_HELP, Number, OutputOptions, Whole
from opportune.cli.output import (
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.errors import InputError, Problem
from opportune.experiments.learn_settings import LearnSettings
from opportune.experiments.learned import SHARES, LearnedComparison, compare_learned
from opportune.experiments.learned_record import claims, learned_record
from opportune.model.files import load_instance
from opportune.model.hidden import HiddenWorld, hidden_world
from opportune.model.numerals import whole_number
from opportune.model.recorded_catalog import COPIES, catalog_world
from opportune.simulate.learned import Forced, LearnedRun

WORLD_HELP = f"{INSTANCE_HELP[:-1]}; or recorded prompts: {', '.join(COPIES)}."
JOIN_HELP = "Servers that join late: NAME=TASK, by commas, TASK the number of tasks before."
FORCE_HELP = "Force this share of tasks onto servers at random; its price is measured and printed."
FLOOR_HELP = "Only onto pairs that may earn this much (mean + 2 sd, in reward)."
WIDTH_HELP = "Only onto pairs whose 95 % interval is wider than this share of the unit."
PACE_HELP = "Whether policies are told arrival rates and mean durations, or learn them too."
COLUMNS = (
    "policy",
    "reward",
    "second_half",
    "half_width",
    *(f"to_{share}" for share in SHARES),
    "regret",
    "regret_half_width",
    "dropped",
    "wait",
    "wait_p99",
    "solves",
    "forced",
)


@Parameter(name="*")
@dataclass(frozen=True)
class LearnOptions:
    """How learners are run."""

    policies: Annotated[str, Parameter(help="Policy ids by commas; by default all that apply.")] = (
        ""
    )
    tasks: Annotated[
        Whole, Parameter(help="Tasks per replication; 0 for 30,000, or all on record.")
    ] = 0
    replications: Annotated[Whole, Parameter(help="Independent runs.")] = 5
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1
    workers: Annotated[Whole, Parameter(help="Replications run at the same time.")] = 1
    backend: Annotated[
        Literal["threads", "loky", "ray"],
        Parameter(help="Run them in threads, in processes (faster here) or on a Ray cluster."),
    ] = "threads"
    mode: Annotated[
        Literal["loss", "queue"], Parameter(help="Tasks without free servers: dropped, or wait.")
    ] = "loss"
    order: Annotated[
        Literal["index", "fifo"], Parameter(help="Which waiting task a freed server takes.")
    ] = "index"
    pace: Annotated[Literal["learned", "known"], Parameter(help=PACE_HELP)] = "learned"
    join: Annotated[str, Parameter(help=JOIN_HELP)] = ""
    force: Annotated[Number, Parameter(help=FORCE_HELP)] = 0.0
    floor: Annotated[Number, Parameter(help=FLOOR_HELP)] = 0.0
    width: Annotated[Number, Parameter(help=WIDTH_HELP)] = 0.0

    def settings(self) -> LearnSettings:
        """The settings of the comparison.

        Raises:
            InputError: Naming the option that is wrong.
        """
        fifo = self.order == "fifo"
        if fifo and self.mode == "loss":
            remedy = "add --mode queue"
            raise InputError(Problem("--order", "fifo", "a queue: nobody waits in loss", remedy))
        return LearnSettings(
            policies=tuple(one.strip() for one in self.policies.split(",") if one.strip()),
            tasks=self.tasks,
            replications=self.replications,
            seed=self.seed,
            workers=self.workers,
            backend=self.backend,
            run=LearnedRun(self.mode, fifo, self.pace == "known"),
            forced=Forced(self.force, self.floor, self.width),
        )


DEFAULT_RUN, DEFAULT_OUTPUT = LearnOptions(), OutputOptions()


def learn(
    instance: Annotated[str, Parameter(help=WORLD_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    run: LearnOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Compare policies that learn scores from outcomes, beside LAG on the true ones."""
    settings = run.settings()
    write_report = report_writer(output.report, "learned")
    world = _world(instance, load, run.join)
    if run.mode == "queue" and world.instance.load >= 1:
        print_note(
            f"warning: load {world.instance.load:.3g}: more work arrives than the servers do, so "
            "the queue grows until the last task has come"
        )
    with progress_bar(f"learning on {world.instance.name}") as progress:
        result = compare_learned(world, settings, progress)
    record = learned_record(result)
    if output.format == "json":
        print_json(record)
    elif output.format == "csv":
        rows = [[row[column] for column in COLUMNS] for row in record["policies"]]
        print_csv(COLUMNS, rows)
    else:
        _print_result(result)
    write_report(result, f"Learning on {world.instance.name}")


def _world(instance: str, load: float | None, join: str) -> HiddenWorld:
    """The world of an id or a file, with servers that join late."""
    if instance in COPIES:
        if join:
            remedy = "leave it out"
            raise InputError(Problem("--join", join, f"nothing: {instance} has its own", remedy))
        return catalog_world(instance, load)
    return hidden_world(load_instance(instance, load), _joins(join))


def _joins(text: str) -> dict[str, int]:
    """``expert-1=1500,expert-2=1500`` as numbers by name.

    Raises:
        InputError: If a part is not NAME=TASK.
    """
    found = {}
    for part in (one.strip() for one in text.split(",") if one.strip()):
        name, _, text = part.rpartition("=")
        number = whole_number(text)
        if not name or number is None or number < 0:
            raise InputError(Problem("--join", repr(part), "NAME=TASK, such as expert-1=1500"))
        if name.strip() in found:
            raise InputError(Problem("--join", f"{name.strip()} is given twice", "every name once"))
        found[name.strip()] = number
    return found


def _print_result(result: LearnedComparison) -> None:
    queue = result.settings.run.mode == "queue"
    rows = []
    for row in result.rows:
        reached = ["never" if one is None else f"{one}" for one in row.tasks_to]
        ending = (f"{row.wait:.3f}", f"{row.wait_p99:.1f}") if queue else (f"{row.dropped:.4f}",)
        rows.append(
            (
                row.policy,
                f"{row.reward:.4g}",
                f"{row.second_half:.2f}",
                _width(row.half_width),
                *reached,
                f"{row.regret:.0f}",
                _width(row.regret_half_width, 0),
                *ending,
            )
        )
    ending = ("wait", "p99") if queue else ("dropped",)
    columns = (
        "policy",
        "per 100 tasks",
        "% of ceiling",
        "+/-",
        *(f"to {share} %" for share in SHARES),
        "regret",
        "+/-",
        *ending,
    )
    instance = result.world.instance
    print_table(f"{instance.name} at load {instance.load:.4g}, scores hidden", columns, rows)
    for text in claims(result):
        print(text)
    settings = result.settings
    pace = "known" if settings.run.known_pace else "learned"
    print(
        f"ceiling {result.names[0]}: LAG on the true scores with one tie rule, not the optimum; "
        "percent: second half of the tasks"
    )
    print(
        f"seed {settings.seed}, {settings.replications} replications of {result.tasks} tasks, "
        f"mode {settings.run.mode}, rates and durations {pace}; intervals 95 %, paired"
    )
    if settings.replications == 1:
        print_note("warning: one replication has no intervals")


def _width(value: float, digits: int = 2) -> str:
    return "-" if not math.isfinite(value) else f"{value:.{digits}f}"
