"""How charts look: one color a policy everywhere, colors that follow the page, shared marks.

Colors are CSS variables of ``report.css``, so one chart serves the light and the dark scheme
and print. Names and colors are told apart by dashes and shapes as well, for color-blind eyes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from opportune.experiments.wording import short_name

Spec = dict[str, Any]
Row = dict[str, Any]

INK, SOFT, LINE, TRACK = "var(--ink)", "var(--ink-soft)", "var(--line)", "var(--track)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"

OWN_COLOR = {
    "lag": "var(--lag)",
    "lag-cheapest": "var(--lag-cheapest)",
    "whittle": "var(--whittle)",
    "whittle-load-aware": "var(--whittle-load-aware)",
    "alg-sc-lp": "var(--alg-sc-lp)",
    "alg-sc-lp-vertex": "var(--alg-sc-lp-vertex)",
    "greedy": "var(--greedy)",
    "random": "var(--random)",
}
"""The color of each policy we know; others take the spare ones in turn."""

SPARE_COLORS = ("var(--spare-1)", "var(--spare-2)", "var(--spare-3)")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")

CONFIG: Spec = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None, "continuousWidth": 300},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelLimit": 150,
        "labelPadding": 6,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "labelLimit": 190,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "symbolSize": 90,
        "symbolStrokeWidth": 2,
    },
    "text": {"color": INK, "fontSize": 12},
}
"""Shared by all charts; handed to each when it is drawn."""


@dataclass(frozen=True)
class Chart:
    """A chart of a report.

    Attributes:
        name: Unique in the page, letters, digits and dashes.
        title: What it shows, a few words.
        text: The same for a person who cannot see it, with the numbers that matter.
        caption: How to read it.
        spec: Vega-Lite, without ``config``.
    """

    name: str
    title: str
    text: str
    caption: str
    spec: Spec


def finished(chart: alt.Chart | alt.LayerChart, height: int | alt.Step, text: str) -> Spec:
    """The validated Vega-Lite of a chart as wide as the page gives it room.

    Args:
        chart: Marks and data.
        height: In pixels, or in pixels a row.
        text: Description for a screen reader.

    Raises:
        altair.SchemaValidationError: If the chart is no valid Vega-Lite.
    """
    spec: Spec = chart.properties(width="container", height=height, description=text).to_dict()
    del spec["$schema"], spec["config"]
    return spec


def rows_data(rows: Sequence[Row]) -> alt.InlineData:
    """Data of a chart from rows."""
    return alt.InlineData(values=list(rows))


def policy_color(policies: Sequence[str], legend: bool = False) -> alt.Color:
    """The color of the field ``policy`` (short names)."""
    return alt.Color(
        "policy:N",
        title=None,
        scale=alt.Scale(domain=names(policies), range=_colors(policies)),
        legend=alt.Legend(orient="bottom", columns=_legend_columns()) if legend else None,
    )


def policy_dash(policies: Sequence[str]) -> alt.StrokeDash:
    """The dash of each policy's line, in the same legend as its color."""
    dashes = [DASHES[i % len(DASHES)] for i in range(len(policies))]
    return alt.StrokeDash(
        "policy:N",
        title=None,
        scale=alt.Scale(domain=names(policies), range=dashes),
        legend=alt.Legend(orient="bottom", columns=_legend_columns()),
    )


def policy_shape(policies: Sequence[str]) -> alt.Shape:
    """The point shape of each policy."""
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(policies))]
    return alt.Shape(
        "policy:N",
        title=None,
        scale=alt.Scale(domain=names(policies), range=shapes),
        legend=alt.Legend(orient="bottom", columns=_legend_columns()),
    )


def names(policies: Sequence[str]) -> list[str]:
    """Short names, in order."""
    return [short_name(policy) for policy in policies]


def _colors(policies: Sequence[str]) -> list[str]:
    unknown = [policy for policy in policies if policy not in OWN_COLOR]
    spare = {one: SPARE_COLORS[i % len(SPARE_COLORS)] for i, one in enumerate(unknown)}
    return [OWN_COLOR.get(policy) or spare[policy] for policy in policies]


def _legend_columns() -> alt.ExprRef:
    """As many columns of names as the chart is wide enough for."""
    return alt.ExprRef(expr="max(1, floor(width / 190))")
