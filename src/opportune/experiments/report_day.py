"""The page about a day: rates and shifts, prices over the day, reward by way to plan it.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from opportune import __version__
from opportune.experiments import chart_day, page, report_sections, wording
from opportune.experiments.chart_style import Chart
from opportune.experiments.day import DayComparison
from opportune.experiments.page import Html
from opportune.experiments.report import whole_page


def report_html(result: DayComparison, title: str, command: str = "") -> str:
    """The page as text."""
    shown: list[Chart] = []
    base = result.day.base
    line = Html(
        page.escaped(
            f"{base.name}: {base.n_types:,} task types, {base.n_servers:,} servers, "
            f"{result.day.n_periods} periods of {result.day.period_steps:,} steps"
        )
    )
    parts = [page.element("p", headline(result), class_="headline")]
    charts = [chart_day.day_reward_chart(result, "day-reward")] if len(result.rows) > 1 else []
    parts.append(
        page.section(
            "Which plan earns how much",
            [*report_sections.figures(charts, shown), _rows_table(result)],
        )
    )
    rates = [
        chart_day.day_rates_chart(result, "day-rates"),
        chart_day.day_duty_chart(result, "day-duty"),
    ]
    parts.append(page.section("The day", [page.grid(report_sections.figures(rates, shown))]))
    prices = [
        chart_day.day_price_chart(result, "day-demand"),
        chart_day.day_capacity_chart(result, "day-capacity"),
    ]
    parts.append(
        page.section(
            "Prices over the day",
            [page.grid(report_sections.figures(prices, shown)), _periods_table(result)],
            "Each period has prices of its own, found from those of the one before.",
        )
    )
    parts.append(page.section("How this was made", [_provenance(result, command)]))
    return whole_page(title, line, parts, shown)


def headline(result: DayComparison) -> str:
    """The result in one sentence."""
    first = result.rows[0]
    told = []
    for row in result.rows[1:]:
        share = 100.0 * row.difference / first.reward if first.reward > 0 else 0.0
        half = 100.0 * row.difference_half_width / first.reward if first.reward > 0 else 0.0
        word = "less" if share <= 0 else "more"
        text = f"{wording.percent(abs(share), half)} {word} with {chart_day.row_name(row)}"
        told.append(text)
    beside = "; ".join(told) or "nothing to compare it with"
    return (
        f"{chart_day.row_name(first)}, earns {wording.number(first.reward)} per day. "
        f"Beside it: {beside}."
    )


def _rows_table(result: DayComparison) -> Html:
    first = result.rows[0]
    rows = []
    for row in result.rows:
        apart = "" if row is first else wording.signed(f"{row.difference:+.4g}")
        half = "" if row is first else wording.interval(row.difference_half_width)
        rows.append(
            [
                chart_day.row_name(row),
                wording.number(row.reward, 6),
                wording.interval(row.half_width),
                apart,
                half,
                wording.share(row.blocking),
            ]
        )
    head = ["Plan", "Reward per day", "95 %", "Beside the first", "95 %", "Turned away"]
    return page.table("Reward per day", head, rows, [0])


def _periods_table(result: DayComparison) -> Html:
    day, rows = result.day, []
    on_duty = day.on_duty.sum(axis=1)
    for p, name in enumerate(day.periods):
        own = result.prices.periods[p]
        rate = float((day.base.arrival_rate * day.multiplier[p]).sum())
        cells = ["", "", "", ""]
        if own is not None:
            cells = [
                f"{own.instance.load:.3f}",
                wording.number(float(own.demand_price.mean())),
                wording.number(float(own.capacity_price.mean())),
                own.priced_at,
            ]
        turned = wording.share(float(result.rows[0].blocking_by_period[p]))
        rows.append([name, wording.number(rate), wording.number(float(on_duty[p])), *cells, turned])
    head = [
        "Period",
        "Arrivals per step",
        "On duty",
        "Load",
        "Mean demand price",
        "Mean capacity price",
        "<Priced at",
        "Turned away",
    ]
    return page.folded("All periods", page.table("Periods", head, rows))


def _provenance(result: DayComparison, command: str) -> Html:
    settings = result.settings
    pairs = [
        ("Day", result.day.base.name),
        ("Mean load", f"{result.day.mean_day.load:.6g}"),
        ("Days", f"{settings.days:,} in each replication, after one that is not counted"),
        ("Replications", f"{settings.replications:,}, all plans on the same tasks"),
        ("Seed", str(settings.seed)),
        ("Intervals", "95 %, Student t over days, differences paired by day"),
        ("Shifts", "a server that goes off duty finishes its task and takes no other"),
        ("Digest", result.day.digest),
        ("Version", f"opportune {__version__}"),
    ]
    parts = [page.definitions(pairs, "facts")]
    if command:
        code = page.element("pre", page.element("code", command))
        parts += [page.element("h3", "To repeat it"), code]
    return page.joined(parts)
