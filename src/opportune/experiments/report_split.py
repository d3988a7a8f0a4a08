"""The page about a split pool: what is left of the reward, which tasks are dropped.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from opportune import __version__
from opportune.experiments import chart_split, page, report_sections, wording
from opportune.experiments.chart_style import Chart
from opportune.experiments.page import Html
from opportune.experiments.report import whole_page
from opportune.experiments.split import Splitting


def report_html(result: Splitting, title: str, command: str = "") -> str:
    """The page as text."""
    base = result.instance
    line = page.escaped(
        f"{base.name} at load {base.load:.4g}: {base.n_types:,} task types, "
        f"{base.n_servers:,} servers"
    )
    charts: list[Chart] = []
    if chart_split.lines_of(result):
        charts = [
            chart_split.split_reward_chart(result, "split-reward"),
            chart_split.split_blocking_chart(result, "split-blocking"),
        ]
    shown: list[Chart] = []
    figures = report_sections.figures(charts, shown)
    parts = [
        page.element("p", headline(result), class_="headline"),
        page.section("What a split costs", [*figures, _table(result)]),
        page.section("How this was made", [_provenance(result, command)]),
    ]
    return whole_page(title, line, parts, shown)


def headline(result: Splitting) -> str:
    """The result in one sentence."""
    first = result.rows[0]
    worst = max(
        (row for row in result.rows if row.policy == first.policy),
        key=lambda row: row.split.subpools,
    )
    name = wording.short_name(first.policy)
    if worst.split.subpools == 1:
        return f"{name} with one owner earns {wording.number(first.reward)} per step."
    left = wording.percent(worst.percent_of_one_owner, worst.half_width)
    return (
        f"Split into {worst.split.subpools} sub-pools, {name} earns {left} of what one owner "
        f"earns, and drops {wording.share(worst.blocking)} of the tasks instead of "
        f"{wording.share(first.blocking)}."
    )


def _table(result: Splitting) -> Html:
    rows = [
        [
            wording.short_name(row.policy),
            f"{row.split.subpools:,}",
            "" if row.split.subpools == 1 else every(row.split.redeal),
            f"{row.split.tries:,}",
            f"{wording.number(row.reward)} per step",
            wording.percent(row.percent_of_one_owner, row.half_width),
            wording.percent(row.percent_of_bound),
            wording.share(row.blocking),
        ]
        for row in result.rows
    ]
    head = [
        "Policy",
        "Sub-pools",
        "Re-dealt every",
        "Asked",
        "Reward",
        "Share of one owner's ± 95 %",
        "Share of the bound",
        "Dropped",
    ]
    strong = [i for i, row in enumerate(result.rows) if row.split.subpools == 1]
    return page.table("All splits", head, rows, strong)


def every(redeal: int | None) -> str:
    """How often servers are re-dealt, in words."""
    if redeal is None:
        return "never"
    return f"{redeal:,} step{'s' if redeal > 1 else ''}"


def _provenance(result: Splitting, command: str) -> Html:
    settings = result.settings
    pairs = [
        ("Tasks", "one sub-pool each at random; it asks the next ones where so many are asked"),
        ("Servers", "dealt at random, equal ones evenly; a busy one moves with its service"),
        ("Prices", f"of the whole pool, priced at {result.priced_at}"),
        ("Bound", f"OCC-LP(<=), {wording.number(result.bound, 6)} per step: of any policy"),
        ("Replications", f"{settings.replications:,}, all splits and policies on the same tasks"),
        ("Steps", f"{settings.steps:,} after {result.warm_up:,} that are not counted"),
        ("Seed", str(settings.seed)),
        ("Intervals", "95 %, Student t over replications, paired with one owner"),
        ("Digest", result.instance.digest),
        ("Version", f"opportune {__version__}"),
    ]
    parts = [page.definitions(pairs, "facts")]
    if command:
        code = page.element("pre", page.element("code", command))
        parts += [page.element("h3", "To repeat it"), code]
    return page.joined(parts)
