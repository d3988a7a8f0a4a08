"""``opportune compare`` and ``opportune sweep``: which policy earns how much of the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from opportune.cli.options import (
    INSTANCE_HELP,
    LOAD_HELP,
    Number,
    OutputOptions,
    RunOptions,
    parse_loads,
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
from opportune.experiments.comparison import Comparison, compare_all
from opportune.experiments.comparison import compare as run_comparison
from opportune.experiments.records import comparison_record, sweep_record
from opportune.model.files import load_instance

SWEEP_LOAD_HELP = "Loads: start:stop:step with the stop included, or a list with commas."
DEFAULT_RUN, DEFAULT_OUTPUT = RunOptions(), OutputOptions()
COLUMNS = (
    "policy",
    "reward",
    "percent_of_bound",
    "half_width",
    "blocking",
    "left_to_gain",
    "difference",
    "difference_half_width",
)


def compare(
    instance: Annotated[str, Parameter(help=INSTANCE_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    run: RunOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Compare policies on the same arrivals, beside a certified bound on every policy."""
    settings = run.settings()
    write_report = report_writer(output.report)
    loss = load_instance(instance, load)
    with progress_bar(f"comparing on {loss.name}") as progress, goes_on(settings.keep):
        result = run_comparison(loss, settings, progress)
    _warn(result.warnings)
    if output.format == "json":
        print_json(comparison_record(result))
    elif output.format == "csv":
        _print_rows([result], with_load=False)
    else:
        _print_comparison(result)
    write_report([result], f"{loss.name} at load {loss.load:.3g}")


def sweep(
    instance: Annotated[str, Parameter(help=INSTANCE_HELP)],
    /,
    *,
    load: Annotated[str, Parameter(help=SWEEP_LOAD_HELP)],
    run: RunOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Compare policies over several loads; all of them see the same random numbers."""
    settings = run.settings()
    write_report = report_writer(output.report)
    loads = parse_loads(load)
    base = load_instance(instance, max(loads))  # one step length for all loads
    instances = [base if one == max(loads) else base.with_load(one) for one in loads]
    with progress_bar(f"sweeping {base.name}") as progress, goes_on(settings.keep):
        results = compare_all(instances, settings, progress)
    for result in results:
        _warn(tuple(f"load {result.instance.load:.6g}: {text}" for text in result.warnings))
    if output.format == "json":
        print_json(sweep_record(results))
    elif output.format == "csv":
        _print_rows(results, with_load=True)
    else:
        _print_sweep(results)
    write_report(results, f"{base.name}, loads {loads[0]:g} to {loads[-1]:g}")


def _warn(warnings: Sequence[str]) -> None:
    for text in warnings:
        print_note(f"warning: {text}")


def _print_rows(results: Sequence[Comparison], with_load: bool) -> None:
    rows: list[list[Any]] = []
    for result in results:
        record = comparison_record(result)
        for row in record["policies"]:
            cells = [row[column] for column in COLUMNS]
            rows.append([record["load"], *cells] if with_load else cells)
    print_csv(("load", *COLUMNS) if with_load else COLUMNS, rows)


def _print_comparison(result: Comparison) -> None:
    ids = [row.policy for row in result.policies]
    base = "lag" if "lag" in ids else ids[0]
    rows = [
        (
            row.policy,
            f"{row.reward:.6g}",
            f"{row.percent_of_bound:.2f}",
            _width(row.half_width),
            "" if row.policy == base else f"{row.difference:+.2f}",
            "" if row.policy == base else _width(row.difference_half_width),
            f"{row.blocking:.4f}",
            f"{row.left_to_gain:.2f}",
        )
        for row in result.policies
    ]
    columns = ("policy", "reward/step", "% of bound", "+/-", f"- {base}", "+/-", "blocking", "left")
    print_table(f"{result.instance.name} at load {result.instance.load:.4g}", columns, rows)
    print(_bound_line(result))
    for bound in result.bounds[1:]:
        share = 100 * bound.value / result.bound.value if result.bound.value > 0 else 100.0
        print(f"bound {bound.name}: {bound.value:.6g} per step ({share:.2f} %), {bound.label}")
    if result.blocking.note:
        print(result.blocking.note)
    print(_provenance(result))


def _print_sweep(results: Sequence[Comparison]) -> None:
    shown = [{row.policy for row in result.policies} for result in results]
    ids = [row.policy for row in results[0].policies if all(row.policy in ids for ids in shown)]
    rows = []
    for result in results:
        cells = [f"{result.row(one).percent_of_bound:.2f}" for one in ids]
        blocking = f"{result.blocking.value:.4f}"
        load = f"{result.instance.load:.4g}" + ("" if result.priced_at == "zero" else " *")
        rows.append((load, *cells, f"{result.bound.value:.5g}", blocking))
    title = f"{results[0].instance.name}: % of bound by load"
    print_table(title, ("load", *ids, "bound/step", "blocking"), rows)
    if any(result.priced_at != "zero" for result in results):
        print("* not every task can be served: prices at blocking (see the warnings)")
    widest = max(row.half_width for result in results for row in result.policies)
    print(f"widest interval +/- {_width(widest)} points; --format csv or json has each")
    print(_provenance(results[0]))


def _width(value: float) -> str:
    return "-" if value == float("inf") else f"{value:.2f}"


def _bound_line(result: Comparison) -> str:
    bound = result.bound
    known = result.blocking.method
    at = "" if bound.blocking is None else f" at blocking {bound.blocking:.4f} ({known})"
    return (
        f"bound {bound.name}{at}: {bound.value:.6g} per step, {bound.label}, "
        f"gap {bound.gap:.1e}; prices at {result.priced_at}. left: at most so many points can "
        "a policy gain that serves whenever it can"
    )


def _provenance(result: Comparison) -> str:
    return (
        f"seed {result.settings.seed}, {result.settings.replications} replications of "
        f"{result.runs.steps} steps after {result.runs.warm_up} of warm-up; intervals 95 %"
    )
