"""Pictures of the study: what is left to gain, and what auto gains on LAG. Needs ``report``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from opportune.experiments.chart_style import DASHES, INK, SOFT, plain_axis, rows_data
from opportune.experiments.pictures import Panel, Picture, panel

Row = dict[str, Any]

WIDE, HIGH = 440, 320
"""Size of a panel in pixels."""

SHOWN = {
    "hc-lp": ("HC-LP", "var(--spare-1)", 1),
    "hc-group-lp": ("HC-group-LP", "var(--spare-2)", 2),
    "exact": ("exact optimum", INK, 0),
    "headcount-group": ("group index", "var(--headcount-group)", 3),
    "headcount": ("headcount index", "var(--headcount)", 0),
    "lag": ("LAG", "var(--lag)", 0),
    "greedy": ("Greedy", "var(--greedy)", 0),
}
"""Quantities of the picture: name, color, dash."""


def cells_picture(rows: Sequence[Row]) -> Picture:
    """Bounds and policies over the load, a panel an instance."""
    panels = []
    for name in dict.fromkeys(row["instance"] for row in rows):
        own = [row for row in rows if row["instance"] == name and row["quantity"] in SHOWN]
        data = [
            {"load": row["load"], "value": row["percent"], "name": SHOWN[row["quantity"]][0]}
            for row in own
        ]
        names = [SHOWN[one][0] for one in SHOWN]
        color = alt.Color(
            "name:N",
            scale=alt.Scale(domain=names, range=[one[1] for one in SHOWN.values()]),
            sort=None,
            legend=alt.Legend(title=None, orient="bottom", columns=4),
        )
        dash = alt.StrokeDash(
            "name:N",
            scale=alt.Scale(domain=names, range=[DASHES[one[2]] for one in SHOWN.values()]),
            legend=None,
        )
        base = alt.Chart(rows_data(data)).encode(
            x=alt.X("load:Q", title="load", axis=plain_axis(grid=False)),
            y=alt.Y("value:Q", title="% of OCC-UB", scale=alt.Scale(zero=False)),
            color=color,
        )
        chart = alt.layer(
            base.mark_line(strokeWidth=1.6).encode(strokeDash=dash),
            base.mark_point(filled=True, size=24, opacity=1),
        )
        best = {row["load"]: row["percent"] for row in own if row["quantity"] == "exact"}
        told = "optimum " + ", ".join(f"{value:.2f} at load {x:g}" for x, value in best.items())
        panels.append(panel(name, told, chart, (WIDE, HIGH)))
    caption = (
        "Exact values. 100 % is OCC-UB: the distance of LAG from it is mostly looseness of that "
        "bound. HC-group-LP meets the optimum where there are two groups of equal servers."
    )
    return Picture("cells", "What is left to gain", caption, tuple(panels), 2)


def auto_picture(rows: Sequence[Row]) -> Picture:
    """Auto minus LAG over the load, a panel an instance."""
    return Picture(
        "auto",
        "What auto gains on LAG",
        "Paired difference in points of the bound with its 95 % interval; the line is 0.",
        tuple(
            _auto_panel(name, [row for row in rows if row["instance"] == name])
            for name in dict.fromkeys(row["instance"] for row in rows)
        ),
        3,
    )


def _auto_panel(name: str, rows: Sequence[Row]) -> Panel:
    data = [
        {
            "load": row["load"],
            "value": row["difference"],
            "low": row["difference"] - row["half_width"],
            "high": row["difference"] + row["half_width"],
        }
        for row in rows
    ]
    base = alt.Chart(rows_data(data)).encode(
        x=alt.X(
            "load:Q",
            title="load",
            axis=plain_axis(grid=False),
            scale=alt.Scale(domain=[0, 1], nice=False),
        )
    )
    reach = max([0.2, *(max(row["high"], -row["low"]) for row in data)])
    low = min([-0.05, *(row["low"] for row in data)])
    scale = alt.Scale(domain=[max(low, -reach), 1.05 * reach])
    y = alt.Y("value:Q", title="points", axis=plain_axis(5, format=".2~f"), scale=scale)
    chart = alt.layer(
        alt.Chart(rows_data([{"value": 0}])).mark_rule(color=SOFT).encode(y=y),
        base.mark_rule(strokeWidth=3, opacity=0.4, color="var(--auto)").encode(
            y=alt.Y("low:Q"), y2="high:Q"
        ),
        base.mark_point(filled=True, size=40, opacity=1, color="var(--auto)").encode(y=y),
    )
    told = ", ".join(f"{row['difference']:+.2f} at load {row['load']:g}" for row in rows)
    return panel(name, f"auto minus LAG {told}", chart, (250, 180))
