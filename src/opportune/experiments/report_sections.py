"""Sections of a report: one load in full, a sweep over loads, warnings, words.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from opportune.experiments import (
    chart_bars,
    chart_matrices,
    chart_sweeps,
    charts,
    page,
    report_tables,
    wording,
)
from opportune.experiments.chart_style import Chart, color_of
from opportune.experiments.comparison import Comparison
from opportune.experiments.excerpt import Excerpt, excerpt
from opportune.experiments.page import Html

WARNINGS = 3
"""So many warnings are shown, the rest on request."""


def panel(comparison: Comparison, key: str, told: Html, shown: list[Chart]) -> Html:
    """Everything about one load.

    Args:
        comparison: The comparison at that load.
        key: Begins the names of its charts.
        told: What comes after the headline.
        shown: Charts of the page; those of the panel are added.
    """
    cut = excerpt(comparison)
    lead = page.element("p", wording.headline(comparison), class_="headline")
    verdict = wording.verdict(comparison)
    parts: list[str] = [lead]
    if verdict:
        parts.append(page.element("p", verdict, class_="verdict"))
    parts.append(told)
    own = f"--own: {color_of(wording.base_policy(comparison).policy)}"
    parts.append(page.definitions(_tiles(comparison), "tiles", style=own))
    first = charts.reward_chart(comparison, f"{key}-reward")
    second = charts.difference_chart(comparison, f"{key}-difference")
    both = [first] if second is None else [first, second]
    parts.append(
        page.section(
            "Which policy earns how much",
            [_laid_out(both, shown), report_tables.policies_table(comparison)],
        )
    )
    parts.append(_prices_section(comparison, cut, key, shown))
    parts.append(_assignment_section(comparison, cut, key, shown))
    blocking = charts.blocking_chart(comparison, f"{key}-blocking")
    parts.append(
        page.section(
            "How many tasks are turned away",
            [page.grid([*figures([blocking], shown), report_tables.blocking_table(comparison)])],
        )
    )
    parts.append(
        page.section(
            "How sure the bound is",
            [report_tables.bounds_table(comparison)],
            "Shares are of the bound, so a policy is at least as close to the best possible "
            "reward as its share says.",
        )
    )
    return page.joined(parts)


def _prices_section(comparison: Comparison, cut: Excerpt, key: str, shown: list[Chart]) -> Html:
    instance, prices = comparison.instance, comparison.prices
    matrices = [
        chart_matrices.cost_chart(comparison, cut, f"{key}-cost"),
        chart_matrices.index_chart(comparison, cut, f"{key}-index"),
    ]
    bars = [
        chart_bars.price_bars(
            "Demand price",
            "reward per assignment",
            prices.demand_price[cut.types],
            [instance.task_types[v] for v in cut.types],
            (
                f"{key}-demand",
                "Task type",
                "What one more assignment of the type would add to the best reward. Below zero: "
                "it would cost more than it earns, since others would lose the server.",
            ),
        ),
        chart_bars.price_bars(
            "Capacity price",
            "reward per step",
            prices.capacity_price[cut.servers],
            [instance.servers[r] for r in cut.servers],
            (
                f"{key}-capacity",
                "Server",
                "What one more step of the server's time would add to the best reward: where "
                "more capacity pays.",
            ),
        ),
    ]
    return page.section(
        "What a server's time is worth",
        [
            _laid_out(matrices, shown),
            _laid_out(bars, shown),
            report_tables.price_tables(comparison, cut),
        ],
        f"{wording.PRICED_AT[comparison.priced_at].capitalize()}. {cut.note}".strip(),
    )


def _assignment_section(comparison: Comparison, cut: Excerpt, key: str, shown: list[Chart]) -> Html:
    maps = [
        chart_matrices.assigned_chart(comparison, cut, policy, f"{key}-assigned-{policy}")
        for policy in wording.compared(comparison)
    ]
    busy = chart_bars.utilization_chart(comparison, cut, f"{key}-busy")
    return page.section(
        "Who gets assigned what",
        [_laid_out([*maps, busy], shown)],
        f"Measured in the run. {cut.note}".strip(),
    )


def sweep_section(comparisons: Sequence[Comparison], shown: list[Chart]) -> Html:
    """Share of the bound, reward and blocking over the loads."""
    share = chart_sweeps.sweep_share_chart(comparisons, "sweep-share")
    pair = [
        chart_sweeps.sweep_reward_chart(comparisons, "sweep-reward"),
        chart_sweeps.sweep_blocking_chart(comparisons, "sweep-blocking"),
    ]
    table = report_tables.sweep_table(comparisons)
    parts = [*figures([share], shown), table, page.grid(figures(pair, shown))]
    return page.section("How it changes with the load", parts)


def _tiles(comparison: Comparison) -> list[tuple[str, str]]:
    """The four numbers to remember."""
    base, rival = wording.base_policy(comparison), wording.rival_policy(comparison)
    name = wording.short_name(base.policy)
    tiles: list[tuple[str, str]] = [
        (
            f"{name} earns",
            _tile(
                wording.percent(base.percent_of_bound),
                f"{wording.interval(base.half_width)} points; of the best possible reward, at "
                "least",
            ),
        )
    ]
    if rival is not None:
        other = wording.short_name(rival.policy)
        ahead = _tile(
            wording.points(abs(rival.difference)),
            f"{wording.interval(rival.difference_half_width)} points, on the same tasks",
        )
        side = "Ahead of" if rival.difference <= 0 else "Behind"
        tiles.append((f"{side} {other} by", ahead))
    label = comparison.bound.label
    tiles.append(
        (
            "Left to gain",
            _tile(
                f"≤{wording.NBSP}{wording.points(base.left_to_gain)}",
                f"above {name}; the bound is {label}",
            ),
        )
    )
    blocking = comparison.blocking
    known = "exact" if blocking.method == "exact" else "simulated"
    if blocking.half_width > 0:
        known += f" {wording.interval(100 * blocking.half_width)} points"
    tiles.append(
        ("Tasks turned away", _tile(wording.share(blocking.value), f"of arrivals, {known}"))
    )
    return tiles


def _tile(big: str, small: str) -> Html:
    return page.joined([page.element("strong", big), page.element("small", small)], "")


def warnings(comparisons: Sequence[Comparison]) -> Html:
    """What to beware of, the first ones in full view."""
    several = len(comparisons) > 1
    texts = [
        f"At load {wording.load(one)}: {text}" if several else text
        for one in comparisons
        for text in one.warnings
    ]
    if not texts:
        return Html("")
    parts: list[str] = [page.element("h2", "Please note"), _list(texts[:WARNINGS])]
    if len(texts) > WARNINGS:
        parts.append(page.folded(f"{len(texts) - WARNINGS} more", _list(texts[WARNINGS:])))
    return page.element("aside", page.joined(parts), class_="warnings", role="note")


def _list(texts: Sequence[str]) -> Html:
    return page.element("ul", page.joined(page.element("li", text) for text in texts))


def words() -> Html:
    """The few words of the field that the page uses."""
    pairs = [
        ("Load", "The share of the servers' time that all arriving tasks would need."),
        ("Bound", "A reward that no policy can pass which serves whenever it can; so the best "
         "possible reward is at most this."),
        ("Turned away (blocked)", "A task that arrives when too few permitted servers are free."),
        ("Opportunity cost", "What using a server for a task costs later tasks."),
        ("Index", "Score of the pair minus its opportunity cost; LAG takes the highest."),
        (f"± 95{wording.NBSP}%", "If the run were repeated with other seeds, the interval would "
         "cover the long-run value 95 times in 100."),
        ("Points", "Percentage points of the bound."),
    ]  # fmt: skip
    return page.section("Words", [page.definitions(pairs, "glossary")])


def figures(drawn: Sequence[Chart], shown: list[Chart]) -> list[Html]:
    """Places for charts, which are noted as shown."""
    shown.extend(drawn)
    return [
        page.figure(
            one.title,
            page.plot(one.name, one.text, one.least_width),
            one.caption,
            page.key(one.key, one.pick),
        )
        for one in drawn
    ]


def _laid_out(drawn: Sequence[Chart], shown: list[Chart]) -> Html:
    """Charts side by side, but those that need the whole width."""
    narrow = [one for one in drawn if not one.wide]
    wide = [one for one in drawn if one.wide]
    first = [page.grid(figures(narrow, shown))] if narrow else []
    return page.joined([*first, *figures(wide, shown)])


def instance_line(comparison: Comparison) -> Html:
    """The instance in one line."""
    instance = comparison.instance
    k = instance.one_k
    least, most = int(instance.servers_per_task.min()), int(instance.servers_per_task.max())
    needs = f"{k} server{'s' if k != 1 else ''} per task"
    needs = needs if k is not None else f"{least} to {most} servers per task, by type"
    means = instance.mean_duration
    low, high = f"{means.min():.3g}", f"{means.max():.3g}"
    lasting = f"{low} steps" if low == high else f"{low} to {high} steps"
    forbidden = int((~instance.allowed).sum())
    parts = [
        f"{instance.n_types:,} task types",
        f"{instance.n_servers:,} servers",
        needs,
        f"tasks last {lasting} on average",
    ]
    if forbidden:
        parts.append(f"{forbidden:,} of {instance.allowed.size:,} pairs forbidden")
    return page.joined([page.element("b", instance.name), ": " + ", ".join(parts)], "")
