"""Pictures of learners: reward beside the ceiling by tasks, regret, the second half.

Needs the extra ``report``.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from opportune.experiments.chart_style import DASHES, INK, SOFT, Row, ends, plain_axis, rounded
from opportune.experiments.chart_style import rows_data as data_of
from opportune.experiments.learned import FORCED, LearnedComparison
from opportune.experiments.pictures import Panel, Picture, panel

COLORS = {
    "lag-known": INK,
    "lag-known-features": "var(--random)",
    "greedy-known": "var(--spare-3)",
    "greedy-known-features": "var(--optimal)",
    "lag-learned": "var(--lag)",
    "lag-features": "var(--lag-cheapest)",
    "lag-mean": "var(--headcount)",
    "lag-ucb": "var(--auto)",
    "lag-thompson": "var(--spare-2)",
    "greedy-learned": "var(--greedy)",
    "greedy-features": "var(--alg-sc-lp-vertex)",
    "greedy-ucb": "var(--alg-sc-lp)",
    "greedy-thompson": "var(--whittle-load-aware)",
    "lag-static": "var(--spare-1)",
}
"""Color of each policy; others take the last spare one."""

WIDE, HIGH, ROW = 470, 330, 26
"""Size of a panel and height of a row of dots, in pixels."""

TOP = 110
"""Percent of the ceiling at which the axis ends: early windows hold few tasks and are noise."""

NAMES = alt.Axis(ticks=False, domain=False, labelLimit=220, minExtent=150, labelColor=INK)
"""An axis of long names only."""

LONG_NAME = 18
"""Letters of a name beyond which three do not fit beside each other."""

NEAR = 95
"""Percent of the ceiling at which a line is drawn."""


def color_of(name: str) -> str:
    """The color of a row: a forced share keeps its policy's."""
    return COLORS.get(name.removesuffix(FORCED), "var(--spare-3)")


def curve_picture(result: LearnedComparison) -> Picture:
    """How fast each policy comes near the ceiling, and what it has lost by then."""
    return Picture(
        "learning",
        "How fast they learn",
        f"Left: mean reward per window of tasks in percent of {result.names[0]}, which knows the "
        f"scores; the thin line is {NEAR} %. Right: reward lost so far, in tasks' worth of the "
        "ceiling's reward; a learner that has learned runs flat. The tasks are on a logarithmic "
        "axis on the left.",
        (_shares(result), _regret(result)),
        2,
    )


def half_picture(result: LearnedComparison) -> Picture:
    """The second half of the tasks, with intervals."""
    return Picture(
        "second-half",
        "Once they have learned",
        "Reward in the second half of the tasks in percent of the ceiling's, with 95 % intervals "
        "paired by replication. The ceiling is one tie rule of LAG, not the optimum.",
        (_dots(result),),
        1,
    )


def _shares(result: LearnedComparison) -> Panel:
    edges, shares = result.windows()
    rows: list[Row] = [
        {"policy": name, "task": int(edges[w + 1]), "value": rounded(100.0 * float(value))}
        for name, curve in zip(result.names, shares, strict=True)
        for w, value in enumerate(curve)
    ]
    least = min(row["value"] for row in rows)
    scale = alt.Scale(domain=[max(0.0, min(least, 90.0)), TOP], nice=False, clamp=True)
    y = alt.Y("value:Q", title="% of the ceiling", axis=plain_axis(6), scale=scale)
    line = (
        alt.Chart(data_of(rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=_task_axis("log"), y=y, color=_color(result.names), strokeDash=_dash(result.names)
        )
    )
    near = alt.Chart(data_of([{"value": NEAR}])).mark_rule(color=SOFT).encode(y=y)
    told = ", ".join(
        f"{row.policy} {'never' if row.tasks_to[1] is None else row.tasks_to[1]}"
        for row in result.rows
    )
    return panel(
        "Reward by window", f"tasks to {NEAR} %: {told}", alt.layer(near, line), (WIDE, HIGH)
    )


def _regret(result: LearnedComparison) -> Panel:
    tasks, regret = result.regret()
    rows: list[Row] = [
        {"policy": name, "task": int(task), "value": rounded(float(value))}
        for name, curve in zip(result.names, regret, strict=True)
        for task, value in zip(tasks, curve, strict=True)
    ]
    scale = alt.Scale(type="symlog", constant=10, nice=False)
    y = alt.Y("value:Q", title="tasks' worth of reward lost", axis=plain_axis(6), scale=scale)
    chart = (
        alt.Chart(data_of(rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=_task_axis("linear"), y=y, color=_color(result.names), strokeDash=_dash(result.names)
        )
    )
    told = ", ".join(f"{row.policy} {row.regret:.0f}" for row in result.rows)
    return panel("Regret", f"at the end: {told}", alt.layer(chart), (WIDE, HIGH))


def _dots(result: LearnedComparison) -> Panel:
    rows: list[Row] = []
    for row in result.rows:
        low, high = ends(row.second_half, row.half_width)
        value = rounded(row.second_half)
        rows.append(
            {"policy": row.policy, "value": value, "low": low or value, "high": high or value}
        )
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("policy:N", sort=None, title=None, axis=NAMES),
        color=_color(result.names, legend=False),
    )
    scale = alt.Scale(zero=False, padding=12)
    x = alt.X("value:Q", title="% of the ceiling", axis=plain_axis(6), scale=scale)
    chart = alt.layer(
        alt.Chart(data_of([{"value": 100}])).mark_rule(color=SOFT).encode(x="value:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.4).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x),
    )
    told = ", ".join(f"{row.policy} {row.second_half:.1f}" for row in result.rows)
    return panel("Second half", told, chart, (2 * WIDE, alt.Step(ROW)))


def _task_axis(kind: str) -> alt.X:
    scale = alt.Scale(type="log" if kind == "log" else "linear", nice=False)
    return alt.X("task:Q", title="tasks", scale=scale, axis=plain_axis(5, grid=False, format="~s"))


def _color(names: Sequence[str], legend: bool = True) -> alt.Color:
    scale = alt.Scale(domain=list(names), range=[color_of(one) for one in names])
    columns = 2 if max(map(len, names)) > LONG_NAME else 3
    below = alt.Legend(title=None, orient="bottom", columns=columns, columnPadding=28)
    key = below if legend else None
    return alt.Color("policy:N", scale=scale, sort=None, legend=key, title=None)


def _dash(names: Sequence[str]) -> alt.StrokeDash:
    dashes = [DASHES[i % len(DASHES)] for i in range(len(names))]
    scale = alt.Scale(domain=list(names), range=dashes)
    return alt.StrokeDash("policy:N", scale=scale, legend=None, title=None)
