"""The page about policies on a log: what each would have earned, beside the log itself.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

import altair as alt
import numpy as np

from opportune import __version__
from opportune.experiments import fit_report, page, report_sections, wording
from opportune.experiments.chart_style import (
    INK,
    MARK_DOWN,
    ROW,
    ROWS,
    Chart,
    Row,
    color_of,
    ends,
    finished,
    named_rows,
    plain_axis,
    rounded,
    row_interval,
    row_of_policy,
    tips,
)
from opportune.experiments.judged_report import judged_sections, width
from opportune.experiments.page import Html
from opportune.experiments.replay import LOGGED, Replay, ReplayRow
from opportune.experiments.report import whole_page


def report_html(result: Replay, title: str, command: str = "") -> str:
    """The page as text."""
    shown: list[Chart] = []
    fit = result.fit
    line = page.escaped(
        f"{fit.log.name}: {fit.log.n_tasks:,} tasks, {fit.instance.n_types:,} task types, "
        f"{fit.instance.n_servers:,} servers"
    )
    parts = [
        page.element("p", headline(result), class_="headline"),
        fit_report.listed(result.cautions, "warnings"),
        page.section(
            "What each policy would have earned",
            [*report_sections.figures([reward_chart(result)], shown), _table(result)],
            "Policies are simulated on the instance fitted to the log."
            + " The log is what really happened." * (result.logged is not None),
        ),
        *judged_sections(result, shown),
        page.section(
            "The simulation in detail",
            [report_sections.panel(result.comparison, "run", Html(""), shown)],
        ),
        page.section("How this was made", [page.definitions(_facts(result, command), "facts")]),
    ]
    return whole_page(title, line, parts, shown)


def headline(result: Replay) -> str:
    """The best policy beside the log, in one sentence."""
    logged = result.logged
    best = max(result.simulated, key=lambda row: row.reward)
    name = wording.short_name(best.policy)
    if logged is None:
        return f"{name} earns most in the simulation: {best.reward:.4f} per task."
    half = best.difference_half_width
    told = f"{wording.signed(f'{best.difference:+.4f}')} {width(half)}"
    verdict = (
        "more than the log" if best.difference > half else "no more than chance beside the log"
    )
    return (
        f"{name} earns most in the simulation: {best.reward:.4f} per task, the log "
        f"{logged.reward:.4f} ({told}: {verdict})."
    )


def reward_chart(result: Replay) -> Chart:
    """Reward per task with the interval of simulation and scores together."""
    rows: list[Row] = []
    for row in result.rows:
        half = whole_halfwidth(row)
        low, high = ends(row.reward, half)
        rows.append(
            {
                "policy": _name(row),
                "reward": rounded(row.reward),
                "low": low,
                "high": high,
                "shown": f"{row.reward:.4f} {width(half)}",
                "color": INK if row.policy == LOGGED else color_of(row.policy),
            }
        )
    base = alt.Chart(ROWS).encode(y=row_of_policy(), tooltip=tips("policy:Policy", "shown:Reward"))
    x = alt.X("reward:Q", title="reward per task", axis=plain_axis(), scale=alt.Scale(zero=False))
    dots = base.mark_point(filled=True, size=90, opacity=1, yOffset=MARK_DOWN).encode(
        x=x, color=alt.Color("color:N", scale=None, legend=None)
    )
    told = "; ".join(f"{row['policy']} {row['shown']}" for row in rows)
    text = f"Dots: reward per task. {told}."
    return Chart(
        name="log-reward",
        title="Reward per task",
        text=text,
        caption="Line: 95 % interval from simulation noise and from the scores being estimates. "
        "Differences between policies are surer than that: they are paired, see the table.",
        spec=finished(
            named_rows(base, [row_interval(base, color=INK, strokeWidth=2), dots]),
            ROW * len(rows),
            text,
            rows=rows,
        ),
        wide=True,
    )


def whole_halfwidth(row: ReplayRow) -> float:
    """95 % half width of a reward, both sources together."""
    return float(np.hypot(row.half_width, row.score_half_width))


def _name(row: ReplayRow) -> str:
    return "The log itself" if row.policy == LOGGED else wording.short_name(row.policy)


def _table(result: Replay) -> Html:
    first, alone = result.simulated[0].policy, result.logged is None
    rows = []
    for row in result.rows:
        own, leads = row.policy == LOGGED, row.policy in (LOGGED, first)
        rows.append(
            [
                _name(row),
                f"{row.reward:.4f}",
                width(row.half_width),
                "" if own else width(row.score_half_width),
                wording.share(row.unserved),
                "" if own or alone else wording.signed(f"{row.difference:+.4f}"),
                "" if own or alone else width(row.difference_half_width),
                "" if leads else wording.signed(f"{row.rival:+.4f}"),
                "" if leads else width(row.rival_half_width),
            ]
        )
    head = [
        "Policy",
        "Reward per task",
        "Simulation",
        "Scores",
        "Unserved",
        "Beside the log",
        "95 %",
        f"Beside {wording.short_name(first)}",
        "95 %",
    ]
    return page.table("Reward per task", head, rows, [0])


def _facts(result: Replay, command: str) -> list[tuple[str, str]]:
    runs, log = result.comparison.runs, result.fit.log
    facts = [
        ("Log", f"{log.name}, {log.n_rows:,} rows, SHA-256 {log.digest}"),
        (
            "Method",
            "simulation of the fitted instance; rates and durations taken as they are, "
            "scores of pairs as independent",
        ),
        ("Runs", f"{len(runs.reward)} replications of {runs.steps:,} steps"),
        ("Seed", f"{result.comparison.settings.seed}"),
        ("Program", f"opportune {__version__}"),
    ]
    return [*facts, ("Command", command)] if command else facts
