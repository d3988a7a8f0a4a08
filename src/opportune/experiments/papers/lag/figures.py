"""Pictures of the tables and figures: ours beside the paper's, from rows alone.

A picture is one or several panels. Hollow marks are the paper's, filled ones ours. Needs the extra
``report``.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from opportune.experiments.chart_style import (
    INK,
    LINE,
    SHAPES,
    SOFT,
    color_of,
    plain_axis,
    rows_data,
)
from opportune.experiments.papers.lag import published
from opportune.experiments.papers.lag.causes import Compared
from opportune.experiments.papers.lag.tables import POLICY_NAMES, Row, difference, title_of
from opportune.experiments.pictures import Panel, Picture, panel

WIDE, NARROW = 470, 300
"""Width of a panel with one or two, and with three beside each other, in pixels."""

STRONGEST = 3.0
"""Difference in points at which a cell of the picture of Table 3 has its full color."""

LOADS = [round(0.1 * i, 1) for i in range(1, 10)]
"""Marks of the load axis."""

TOP = 112
"""Upper end of the share axis; KIID-LP leaves the picture there."""


def summary_picture(cells: Sequence[Compared]) -> Picture:
    """Table 2: a panel an instance, a row a policy."""
    panels = []
    for name in dict.fromkeys(cell.instance for cell in cells):
        own = [cell for cell in cells if cell.instance == name and cell.paper is not None]
        rows = [_around(cell) for cell in own]
        ids = [cell.policy for cell in own]
        base = alt.Chart(rows_data(rows)).encode(y=alt.Y("policy:N", sort=None, title=None))
        scale = alt.Scale(domain=[20, 100])
        x = alt.X("value:Q", scale=scale, axis=plain_axis(), title="% of OCC-UB")
        chart = alt.layer(
            base.mark_rule(color=SOFT).encode(x=x, x2="paper:Q"),
            base.mark_rule(strokeWidth=5, opacity=0.4).encode(
                x=alt.X("low:Q", scale=scale), x2="high:Q", color=_color(ids)
            ),
            base.mark_point(filled=True, size=70, opacity=1).encode(x=x, color=_color(ids)),
            _hollow(base, "paper:Q"),
        )
        told = ", ".join(
            f"{POLICY_NAMES[c.policy]} {c.ours:.1f} (paper {c.paper:.1f})" for c in own
        )
        panels.append(panel(title_of(name), told, chart, (NARROW, alt.Step(26))))
    caption = "Filled: ours, with its 95 % interval. Hollow: the paper's Table 2. Load 0.7."
    return Picture("table2", "Table 2: reward at load 0.7", caption, tuple(panels), 3)


def sweep_picture(number: int, cells: Sequence[Compared], bounds: Sequence[Row]) -> Picture:
    """Figures 3 to 5: reward over the load on two instances."""
    panels = []
    for name in dict.fromkeys(cell.instance for cell in cells):
        own = [cell for cell in cells if cell.instance == name]
        limits = [row for row in bounds if row["instance"] == name]
        panels.append(_sweep_panel(name, own, limits))
    caption = (
        "Lines and filled marks: ours; hollow marks: the paper's Table 3. 100 % is OCC-UB; the "
        "dashed line is the value of KIID-LP, a looser bound, as far as it fits."
    )
    titles = " and ".join(one.title for one in panels)
    title = f"Figure {number}: reward over the load, {titles}"
    return Picture(f"figure{number}", title, caption, tuple(panels), 2)


def _sweep_panel(name: str, cells: Sequence[Compared], limits: Sequence[Row]) -> Panel:
    ids = list(published.POLICIES)
    rows = [{"load": cell.load, **_around(cell)} for cell in cells if cell.policy in ids]
    kiid = [{"load": row["load"], "value": row["kiid_percent"]} for row in limits]
    low = min(min(row["low"], row["paper"]) for row in rows)
    x = alt.X(
        "load:Q",
        title="load",
        axis=plain_axis(values=LOADS, grid=False),
        scale=alt.Scale(domain=[0.05, 0.95], nice=False),
    )
    base = alt.Chart(rows_data(rows)).encode(x=x)
    y = alt.Y(
        "value:Q",
        title="% of OCC-UB",
        axis=plain_axis(8),
        scale=alt.Scale(domain=[10 * (low // 10), TOP], nice=False),
    )
    color, shape = _color(ids, _legend()), _shape(ids)
    chart = alt.layer(
        alt.Chart(rows_data([{"value": 100}])).mark_rule(color=INK).encode(y=y),
        alt.Chart(rows_data(kiid))
        .mark_line(color=SOFT, strokeDash=[5, 4], clip=True)
        .encode(x="load:Q", y=y),
        base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q"), y2="high:Q", color=color),
        base.mark_line(strokeWidth=1.5).encode(y=y, color=color),
        base.mark_point(filled=True, size=28, opacity=1).encode(y=y, color=color, shape=shape),
        base.mark_point(filled=False, size=75, strokeWidth=1.3).encode(
            y=alt.Y("paper:Q"), color=color, shape=shape
        ),
    )
    lag = [cell for cell in cells if cell.policy == "lag"]
    told = "LAG " + ", ".join(f"{c.ours:.1f} at load {c.load:g}" for c in lag)
    return panel(title_of(name), told, chart, (WIDE, 330))


def differences_picture(cells: Sequence[Compared]) -> Picture:
    """Table 3: ours minus the paper's, cell by cell."""
    panels = []
    for name in dict.fromkeys(cell.instance for cell in cells):
        own = [cell for cell in cells if cell.instance == name and cell.paper is not None]
        rows = [
            {
                "load": f"{cell.load:g}",
                "policy": POLICY_NAMES[cell.policy],
                "shown": difference(cell.difference or 0.0),
                "side": "ours is higher" if (cell.difference or 0.0) > 0 else "ours is lower",
                "strength": min(1.0, abs(cell.difference or 0.0) / STRONGEST),
                "framed": cell.cause not in ("", "noise", "matrix"),
            }
            for cell in own
        ]
        base = alt.Chart(rows_data(rows)).encode(
            x=alt.X("load:N", sort=None, title="load", axis=alt.Axis(labelAngle=0, domain=False)),
            y=alt.Y("policy:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False)),
        )
        sides = alt.Scale(
            domain=["ours is higher", "ours is lower"], range=["var(--lag)", "var(--greedy)"]
        )
        color = alt.Color("side:N", title=None, scale=sides, legend=alt.Legend(orient="bottom"))
        strength = alt.Scale(domain=[0, 1], range=[0.0, 0.75])
        chart = alt.layer(
            base.mark_rect(stroke=LINE).encode(
                color=color, fillOpacity=alt.FillOpacity("strength:Q", scale=strength, legend=None)
            ),
            base.transform_filter("datum.framed").mark_rect(
                fillOpacity=0, stroke=INK, strokeWidth=1.5
            ),
            base.mark_text(color=INK).encode(text="shown:N"),
        )
        most = max(own, key=lambda one: abs(one.difference or 0.0))
        told = (
            f"Largest difference {most.difference or 0.0:+.1f} points, {POLICY_NAMES[most.policy]} "
            f"at load {most.load:g}"
        )
        panels.append(panel(title_of(name), told, chart, (WIDE, alt.Step(28))))
    caption = (
        "Points of OCC-UB, ours minus the paper's. Framed on the paper's own instances: more than "
        "noise explains; the causes are in the list of differences."
    )
    return Picture("table3", "Table 3: differences to the paper", caption, tuple(panels), 2)


def samples_picture(rows: Sequence[Row], summary: Sequence[Row]) -> Picture:
    """Ten samples of the rebuilt instances beside the paper's single one."""
    panels = []
    for name in dict.fromkeys(row["instance"] for row in rows):
        ids = [one for one in published.POLICIES if any(row["policy"] == one for row in rows)]
        order = _names(ids)
        dots = [
            {"policy": POLICY_NAMES[row["policy"]], "value": row["ours"]}
            for row in rows
            if row["instance"] == name and row["policy"] in ids
        ]
        own = [row for row in summary if row["instance"] == name and row["policy"] in ids]
        middle = [
            {"policy": POLICY_NAMES[row["policy"]], "mean": row["mean"], "paper": row["paper"]}
            for row in own
        ]
        y = alt.Y("policy:N", sort=order, title=None)
        scale = alt.Scale(zero=False, nice=True)
        base = alt.Chart(rows_data(middle)).encode(y=y)
        chart = alt.layer(
            alt.Chart(rows_data(dots))
            .mark_point(filled=True, size=45, opacity=0.55)
            .encode(
                y=y,
                x=alt.X("value:Q", scale=scale, axis=plain_axis(), title="% of OCC-UB"),
                color=_color(ids),
            ),
            base.mark_tick(color=INK, thickness=2, size=18).encode(x="mean:Q"),
            _hollow(base, "paper:Q"),
        )
        told = ", ".join(
            f"{POLICY_NAMES[row['policy']]} {row['low']:.1f} to {row['high']:.1f} "
            f"(paper {row['paper']:.1f})"
            for row in own
        )
        panels.append(panel(title_of(name), told, chart, (WIDE, alt.Step(30))))
    caption = "Dots: samples. Bar: their mean. Hollow: the paper's one sample. Load 0.7."
    return Picture("samples", "Ten samples instead of one", caption, tuple(panels), 2)


def _around(cell: Compared) -> Row:
    """A cell with both ends of its interval."""
    width = cell.half_width or 0.0
    return {
        "policy": POLICY_NAMES[cell.policy],
        "value": cell.ours,
        "low": cell.ours - width,
        "high": cell.ours + width,
        "paper": cell.paper,
    }


def _hollow(base: alt.Chart, field: str) -> alt.Chart:
    """The paper's value: a hollow diamond that nothing hides."""
    drawn: alt.Chart = base.mark_point(
        shape="diamond", size=95, color=INK, strokeWidth=1.6, filled=False
    ).encode(x=alt.X(field))
    return drawn


def _color(policies: Sequence[str], legend: alt.Legend | None = None) -> alt.Color:
    """The color of the field ``policy`` (short names), as in every report."""
    scale = alt.Scale(
        domain=[POLICY_NAMES[one] for one in policies], range=[color_of(one) for one in policies]
    )
    return alt.Color("policy:N", title=None, scale=scale, legend=legend)


def _shape(policies: Sequence[str]) -> alt.Shape:
    """A shape for each policy, in the same legend as its color."""
    scale = alt.Scale(
        domain=[POLICY_NAMES[one] for one in policies], range=list(SHAPES[: len(policies)])
    )
    return alt.Shape("policy:N", title=None, scale=scale, legend=_legend())


def _names(policies: Sequence[str]) -> list[str]:
    return [POLICY_NAMES[one] for one in policies]


def _legend() -> alt.Legend:
    return alt.Legend(orient="bottom", columns=5, symbolOpacity=1)
