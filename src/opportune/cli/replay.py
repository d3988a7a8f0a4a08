"""``opportune replay``: what would each policy have earned on your own log?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.fit import (
    COLUMNS_HELP,
    DEFAULT_READ,
    LOG_HELP,
    JudgedOptions,
    ReadOptions,
    fitted,
)
from opportune.cli.options import OutputOptions, Place, RunOptions
from opportune.cli.output import (
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.experiments.judging import JudgeRules
from opportune.experiments.off_policy import QUANTITY, OffPolicy
from opportune.experiments.recorded import Recorded
from opportune.experiments.replay import LOGGED, Replay, replay_record
from opportune.experiments.replay import replay as run_replay
from opportune.learning.evaluation.estimates import Mean
from opportune.model.spelling import counted

DEFAULT_JUDGED, DEFAULT_RUN, DEFAULT_OUTPUT = JudgedOptions(), RunOptions(), OutputOptions()


def replay(
    log: Annotated[Place, Parameter(help=LOG_HELP)],
    /,
    *,
    columns: Annotated[str | None, Parameter(help=COLUMNS_HELP)] = None,
    options: JudgedOptions = DEFAULT_JUDGED,
    read: ReadOptions = DEFAULT_READ,
    run: RunOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Fit a log, simulate policies on the fitted instance, and set them beside the log itself.

    A log with propensities also gives off-policy estimates (IPS, SNIPS, DR), one with the outcome
    of every server a run on its own tasks.
    """
    settings, rules = run.settings(), JudgeRules(options.train, options.clip)
    write_report = report_writer(output.report, "replay")
    with progress_bar(f"replaying {log.name}") as progress:
        fit = fitted(log, columns, read, (options, settings.seed), progress)
        result = run_replay(fit, settings, progress, rules)
    for text in (*result.cautions, *result.comparison.warnings):
        print_note(f"caution: {text}")
    record = replay_record(result)
    if output.format == "json":
        print_json(record)
    elif output.format == "csv":
        names = list(record["policies"][0])
        print_csv(names, [[row[name] for name in names] for row in record["policies"]])
    else:
        _print_tables(result)
    write_report(result, f"Policies on {log.name}")


def _print_tables(result: Replay) -> None:
    _print_simulated(result)
    if result.recorded is not None:
        _print_recorded(result.recorded)
    if result.off_policy is not None and result.off_policy.n:
        _print_off_policy(result.off_policy)


def _print_simulated(result: Replay) -> None:
    first = result.simulated[0].policy
    alone = result.logged is None
    rows: Sequence[tuple[str, ...]] = [
        (
            row.policy,
            f"{row.reward:.4f}",
            _width(row.half_width),
            "" if row.policy == LOGGED else _width(row.score_half_width),
            f"{row.unserved:.4f}",
            "" if alone or row.policy == LOGGED else f"{row.difference:+.4f}",
            "" if alone or row.policy == LOGGED else _width(row.difference_half_width),
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
    title = f"{result.fit.log.name}: {result.fit.log.n_tasks} tasks"
    print_table(title, *_without_log(columns, rows, alone))
    runs = result.comparison.runs
    load = f"the instance fitted to it (load {result.fit.instance.load:.4g})"
    told = "policies are" if alone else "'log' is what really happened; the others are"
    print(f"{told} simulated on {load}")
    print(
        f"seed {result.comparison.settings.seed}, {len(runs.reward)} replications of {runs.steps} "
        f"steps after {runs.warm_up} of warm-up; intervals 95 %"
    )


def _print_recorded(result: Recorded) -> None:
    logged = result.logged
    rows = [] if logged is None else [(LOGGED, *_mean(logged), "", "", "", "", "")]
    for place, row in enumerate(result.rows):
        beside = ("", "") if row.difference is None else _mean(row.difference, "+")
        rival = ("", "") if place == 0 else _mean(row.rival, "+")
        rows.append((row.policy, *_mean(row.reward), f"{row.unserved:.4f}", *beside, *rival))
    first = result.rows[0].policy
    columns = ("policy", "reward/task", "+/-", "unserved", "- log", "+/-", f"- {first}", "+/-")
    title = f"On recorded outcomes: {result.n} tasks"
    print_table(title, *_without_log(columns, rows, logged is None))
    print(
        "arrivals, types and durations of the log, outcomes as recorded; intervals 95 % from "
        f"blocks of {counted(result.block, 'task')}"
    )


def _print_off_policy(result: OffPolicy) -> None:
    rows: list[tuple[str, ...]] = [(LOGGED, *_mean(result.logged), *[""] * 8)]
    for row in result.rows:
        found = row.estimates
        told = [cell for one in (found.ips, found.snips, found.dr) for cell in _mean(one)]
        told = told if found.supported else ["no support", "", "", "", "", ""]
        beside = _mean(found.difference, "+") if found.supported else ("", "")
        weight = (f"{found.weight.value:.3f}", f"{found.effective:.0f}")
        rows.append((row.policy, *told, *beside, *weight))
    columns = ("policy", "IPS", "+/-", "SNIPS", "+/-", "DR", "+/-", "DR - log", "+/-")
    print_table(f"Off-policy: {QUANTITY}", (*columns, "mean weight", "effective"), rows)
    share, clip = result.rules.train, result.rules.clip
    judged = (
        "made on all tasks" if share == 0 else f"made on the first {100 * share:g} % of the tasks"
    )
    cut = "no weight is cut" if clip is None else f"weights are cut at {clip:g}"
    print(
        f"{result.n} decisions; plans {judged}; {cut}; intervals 95 % from blocks of "
        f"{counted(result.block, 'decision')}"
    )
    print(
        "a policy that is followed makes its own states, and one that saves servers for later gets "
        "no credit here: the simulation is for that"
    )


def _without_log(
    columns: Sequence[str], rows: Sequence[Sequence[str]], alone: bool
) -> tuple[list[str], list[list[str]]]:
    """The table without the difference to a log that names no servers."""
    place = columns.index("- log")
    keep = [i for i in range(len(columns)) if not (alone and i in (place, place + 1))]
    return [columns[i] for i in keep], [[row[i] for i in keep] for row in rows]


def _mean(mean: Mean, sign: str = "") -> tuple[str, str]:
    return f"{mean.value:{sign}.4f}", _width(mean.half_width)


def _width(value: float) -> str:
    return "-" if value == float("inf") else f"{value:.4f}"
