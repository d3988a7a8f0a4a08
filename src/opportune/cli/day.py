"""``opportune day``: rates and shifts that change over the day, a plan for each period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.options import LOAD_HELP, Number, OutputOptions, Whole
from opportune.cli.output import (
    print_csv,
    print_json,
    print_note,
    print_table,
    progress_bar,
    report_writer,
)
from opportune.experiments.day import DayComparison, DaySettings, compare_day
from opportune.experiments.records import day_record
from opportune.model.files import load_day

DAY_HELP = (
    "An instance file (TOML) with profile or availability, or a day of the catalog: "
    "bank-day-v1@Wed (Mon to Sun), bank-calls-day-v1@Mon (to Fri)."
)
COLUMNS = (
    "policy",
    "plans",
    "reward",
    "half_width",
    "difference",
    "difference_half_width",
    "blocking",
)


@Parameter(name="*")
@dataclass(frozen=True)
class DayOptions:
    """How days are run."""

    policies: Annotated[
        str, Parameter(help="Policy ids by commas; differences are to the first.")
    ] = "lag,greedy"
    days: Annotated[Whole, Parameter(help="Counted days per replication, after one more.")] = 20
    replications: Annotated[Whole, Parameter(help="Independent runs.")] = 5
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1
    everyone: Annotated[
        bool, Parameter(help="Everybody is on duty all day, whatever the shifts say.", negative="")
    ] = False

    def settings(self) -> DaySettings:
        """The settings of the run."""
        named = tuple(one.strip() for one in self.policies.split(",") if one.strip())
        return DaySettings(named, self.days, self.replications, self.seed)


DEFAULT_RUN, DEFAULT_OUTPUT = DayOptions(), OutputOptions()


def day(
    instance: Annotated[str, Parameter(help=DAY_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    run: DayOptions = DEFAULT_RUN,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Price a day period by period, and compare with one plan for its mean and with others."""
    settings = run.settings()
    write_report = report_writer(output.report, "day")
    days = load_day(instance, load, shifts=not run.everyone)
    with progress_bar(f"days of {days.base.name}") as progress:
        result = compare_day(days, settings, progress)
    _warn(result)
    record = day_record(result)
    if output.format == "json":
        print_json(record)
    elif output.format == "csv":
        print_csv(COLUMNS, [[row[column] for column in COLUMNS] for row in record["policies"]])
    else:
        _print_periods(result)
        _print_rows(result)
    write_report(result, f"{days.base.name}: a day at mean load {days.mean_day.load:.3g}")


def _warn(result: DayComparison) -> None:
    names = result.day.periods
    at = [n for n, own in zip(names, result.prices.periods, strict=True) if own is not None]
    over = [
        name
        for name, own in zip(names, result.prices.periods, strict=True)
        if own is not None and own.priced_at != "zero"
    ]
    if over:
        print_note(
            f"warning: overload in {len(over)} of {len(at)} periods ({', '.join(over[:4])}"
            f"{', ...' if len(over) > 4 else ''}): prices there at blocking"
        )
    idle = [p for p, own in enumerate(result.prices.periods) if own is None]
    lost = [p for p in idle if (result.day.base.arrival_rate * result.day.multiplier[p]).any()]
    if lost:
        shown = ", ".join(names[p] for p in lost[:4]) + (", ..." if len(lost) > 4 else "")
        print_note(f"warning: nobody is on duty in {shown}; all tasks are dropped then")


def _print_periods(result: DayComparison) -> None:
    day, prices = result.day, result.prices
    on_duty = day.on_duty.sum(axis=1)
    rows = []
    for p, name in enumerate(day.periods):
        own = prices.periods[p]
        rate = float((day.base.arrival_rate * day.multiplier[p]).sum())
        cells = ("", "", "", "")
        if own is not None:
            star = "" if own.priced_at == "zero" else " *"
            cells = (
                f"{own.instance.load:.3f}{star}",
                f"{own.demand_price.mean():.4g}",
                f"{own.capacity_price.mean():.4g}",
                f"{own.gap:.0e}",
            )
        first = f"{result.rows[0].reward_by_period[p]:.5g}"
        rows.append((name, f"{rate:.4g}", f"{on_duty[p]:.3g}", *cells, first))
    columns = (
        "period",
        "arrivals/step",
        "on duty",
        "load",
        "demand price",
        "capacity price/step",
        "gap",
        f"reward of {result.rows[0].name}",
    )
    print_table(f"{day.base.name}: periods of {day.period_steps} steps", columns, rows)
    print(f"prices are means over types and servers; all periods in {prices.seconds:.2f} s")


def _print_rows(result: DayComparison) -> None:
    first = result.rows[0]
    rows = [
        (
            row.name,
            row.plans,
            f"{row.reward:.6g}",
            _width(row.half_width),
            "" if row is first else f"{row.difference:+.4g}",
            "" if row is first else _width(row.difference_half_width),
            "" if row is first else f"{100 * row.difference / max(first.reward, 1e-300):+.2f}",
            f"{row.blocking:.4f}",
        )
        for row in result.rows
    ]
    columns = ("policy", "plans", "reward/day", "+/-", f"- {first.name}", "+/-", "in %", "blocking")
    print_table(f"Reward per day at mean load {result.day.mean_day.load:.4g}", columns, rows)
    settings = result.settings
    print(
        f"seed {settings.seed}, {settings.replications} replications of {settings.days} days after "
        "one more; all on the same tasks, intervals 95 % over days, differences paired"
    )


def _width(value: float) -> str:
    return "-" if value == float("inf") else f"{value:.3g}"
