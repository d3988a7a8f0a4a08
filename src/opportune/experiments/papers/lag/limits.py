"""Pictures of the limit: blocking at n = 1, convergence in n, the paths of the fluid map.

Needs the extra ``report``.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from opportune.experiments.chart_style import INK, SOFT, TRACK, plain_axis, rows_data
from opportune.experiments.papers.lag.figures import NARROW
from opportune.experiments.papers.lag.tables import Row, title_of
from opportune.experiments.pictures import Panel, Picture, panel

OWN = "var(--lag)"
PAPER = "var(--greedy)"

SMALLEST = 1e-9
"""Distance below which a path of the fluid map is drawn as if it were this far."""


def convergence_picture(rows: Sequence[Row]) -> Picture:
    """Figure 6: LAG by the number of copies, a panel an instance."""
    low = min(row["percent_of_bound"] for row in rows) - 3.0
    panels = []
    for name in dict.fromkeys(row["instance"] for row in rows):
        own = [row for row in rows if row["instance"] == name]
        panels.append(_convergence_panel(name, own, low))
    caption = (
        "LAG at load 0.8 with n copies of each server and m = floor(sqrt n) dispatchers; the shade "
        "is our 95 % interval. Orange: what the paper's text says, as an end point or a range; it "
        "gives no other numbers of this figure."
    )
    title = "Figure 6: convergence as the system grows"
    return Picture("figure6", title, caption, tuple(panels), 3)


def _convergence_panel(name: str, rows: Sequence[Row], low: float) -> Panel:
    drawn = [
        {
            "n": row["n"],
            "value": row["percent_of_bound"],
            "low": row["percent_of_bound"] - (row["half_width"] or 0.0),
            "high": row["percent_of_bound"] + (row["half_width"] or 0.0),
        }
        for row in rows
    ]
    said = [
        {"n": row["n"], "from": row["paper_low"], "to": row["paper_high"]}
        for row in rows
        if row["paper_low"] is not None
    ]
    points = [one for one in said if one["from"] == one["to"]]
    ranges = [one for one in said if one["from"] != one["to"]]
    x = alt.X(
        "n:Q",
        title="n",
        scale=alt.Scale(type="log", base=4, nice=False, padding=10),
        axis=plain_axis(values=[row["n"] for row in rows], grid=False, format=","),
    )
    scale = alt.Scale(domain=[5 * (low // 5), 100.5], nice=False, clamp=True)
    y = alt.Y("value:Q", title="% of OCC-UB", scale=scale, axis=plain_axis(6))
    base = alt.Chart(rows_data(drawn)).encode(x=x)
    chart = alt.layer(
        alt.Chart(rows_data([{"value": 100}])).mark_rule(color=INK).encode(y=y),
        alt.Chart(rows_data(ranges))
        .mark_rule(color=PAPER, strokeWidth=7, opacity=0.35)
        .encode(x="n:Q", y=alt.Y("from:Q"), y2="to:Q"),
        base.mark_area(color=OWN, opacity=0.2).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(color=OWN, strokeWidth=1.5).encode(y=y),
        base.mark_point(color=OWN, filled=True, size=30, opacity=1).encode(y=y),
        alt.Chart(rows_data(points))
        .mark_point(color=PAPER, filled=False, size=90, shape="diamond", strokeWidth=1.6)
        .encode(x="n:Q", y=alt.Y("from:Q")),
    )
    told = ", ".join(f"{row['percent_of_bound']:.1f} at n = {row['n']:,}" for row in rows)
    return panel(title_of(name), told, chart, (NARROW, 220))


def blocking_picture(rows: Sequence[Row]) -> Picture:
    """Tasks turned away at n = 1: measured, exact, Erlang-B and the paper's range."""
    drawn = [
        {
            "instance": title_of(row["instance"]),
            "value": row["measured"],
            "low": row["measured"] - (row["half_width"] or 0.0),
            "high": row["measured"] + (row["half_width"] or 0.0),
            "exact": row["exact"],
            "erlang": row["erlang_b"],
            "from": row["paper_low"] - 0.0005,
            "to": row["paper_high"] + 0.0005,
        }
        for row in rows
    ]
    y = alt.Y("instance:N", sort=None, title=None)
    x = alt.X("value:Q", axis=plain_axis(8, format="%"), title="tasks turned away")
    base = alt.Chart(rows_data(drawn)).encode(y=y)
    chart = alt.layer(
        base.mark_rule(color=PAPER, strokeWidth=14, opacity=0.25).encode(
            x=alt.X("from:Q"), x2="to:Q"
        ),
        base.mark_rule(color=OWN, strokeWidth=3).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_point(color=OWN, filled=True, size=60, opacity=1).encode(x=x),
        base.transform_filter("isValid(datum.exact)")
        .mark_tick(color=INK, thickness=2, size=20)
        .encode(x="exact:Q"),
        base.transform_filter("isValid(datum.erlang)")
        .mark_point(color=SOFT, shape="cross", size=50, filled=False)
        .encode(x="erlang:Q"),
    )
    told = ", ".join(f"{row['instance']} {100 * row['value']:.2f} %" for row in drawn)
    caption = (
        "Dot: measured, with its 95 % interval. Upright bar: exact, where it is known. Cross: "
        "Erlang-B of continuous time. Orange: the range that the paper states."
    )
    only = panel("Load 0.8, one copy of each server", told, chart, (2 * NARROW, alt.Step(34)))
    return Picture("blocking", "Tasks turned away at n = 1", caption, (only,), 1)


def fluid_picture(rows: Sequence[Row]) -> Picture:
    """Distance of the fluid paths to x_hat, a panel an instance."""
    panels = []
    for name in dict.fromkeys(row["instance"] for row in rows):
        own = [row for row in rows if row["instance"] == name and row["step"] > 0]
        drawn = [
            {
                "step": row["step"],
                "least": max(SMALLEST, row["least"]),
                "median": max(SMALLEST, row["median"]),
                "largest": max(SMALLEST, row["largest"]),
            }
            for row in own
        ]
        x = alt.X(
            "step:Q",
            title="step",
            scale=alt.Scale(type="log", nice=False),
            axis=plain_axis(5, grid=False, format="~s"),
        )
        scale = alt.Scale(type="log", domain=[SMALLEST, 1])
        y = alt.Y(
            "median:Q",
            title="distance to the fixed point",
            scale=scale,
            axis=plain_axis(
                values=[1e-9, 1e-6, 1e-3, 1],
                labelExpr="datum.value < 1 ? format(datum.value, '.0e') : '1'",
            ),
        )
        base = alt.Chart(rows_data(drawn)).encode(x=x)
        chart = alt.layer(
            base.mark_area(color=TRACK).encode(y=alt.Y("least:Q", scale=scale), y2="largest:Q"),
            base.mark_line(color=OWN, strokeWidth=2).encode(y=y),
        )
        last = own[-1]
        told = f"largest distance {last['largest']:.1e} after {last['step']:,} steps"
        panels.append(panel(title_of(name), told, chart, (NARROW, 200)))
    caption = (
        "Mean total variation distance of G's iterates to x_hat from random starts: median, and "
        "the range in gray. Evidence for the global attractor (Assumption 4.2), not a proof."
    )
    title = "Fluid limit: where the map G leads"
    return Picture("fluid", title, caption, tuple(panels), 3)
