"""How charts look: one color a policy everywhere, colors that follow the page, shared marks.

Colors are CSS variables of ``report.css``, so one chart serves the light and the dark scheme
and print. Names and colors are told apart by dashes and shapes as well, for color-blind eyes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from opportune.experiments.page import Sample
from opportune.experiments.wording import short_name

Spec = dict[str, Any]
Row = dict[str, Any]
ROWS = alt.NamedData(name="rows")
"""The data of a chart, handed to ``finished`` under this name."""

Layers = alt.LayerChart | alt.FacetChart  # what altair says of layers

INK, SOFT, LINE, TRACK = "var(--ink)", "var(--ink-soft)", "var(--line)", "var(--track)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"

OWN_COLOR = (
    "lag",
    "lag-cheapest",
    "headcount",
    "headcount-group",
    "optimal",
    "auto",
    "whittle",
    "whittle-load-aware",
    "alg-sc-lp",
    "alg-sc-lp-vertex",
    "greedy",
    "random",
)
"""Policies with a color of their own in ``report.css``; others take a spare one."""

SPARE_COLORS = 3
"""How many spare colors there are: ``--spare-1``, ..."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
"""Lines, in turn: whole, dashed, dotted, both."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""Points, in turn."""

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
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
    },
    "text": {"color": INK, "fontSize": 12},
}
"""Shared by all charts; handed to each when it is drawn."""

KNOWN = "isValid(datum.low)"
"""Whether a row has an interval."""

PERCENT = "datum.value + ' %'"
"""Label of an axis in percent."""

ROW = 48
"""Height of a row with a name above its mark, in pixels."""

NAME_UP, MARK_DOWN = -11, 7
"""How far the name stands above the middle of its row, and the mark below it."""


@dataclass(frozen=True)
class Chart:
    """A chart of a report.

    Attributes:
        name: Unique in the page, letters, digits and dashes.
        title: What it shows, a few words.
        text: The same for a person who cannot see it, with the numbers that matter.
        caption: How to read it.
        spec: Vega-Lite, without ``config``.
        least_width: Pixels that it needs; a narrower screen scrolls.
        key: What its colors, dashes and shapes stand for.
        wide: Whether it needs the whole width of the page.
        pick: Whether an entry of the key brings its line forward.
    """

    name: str
    title: str
    text: str
    caption: str
    spec: Spec
    least_width: int = 0
    key: tuple[Sample, ...] = ()
    pick: bool = False
    wide: bool = False


def finished(chart: Layers, height: int, text: str, **rows: Sequence[Row]) -> Spec:
    """The Vega-Lite of a chart as wide as the page gives it room.

    Args:
        chart: Marks and data.
        height: In pixels.
        text: Description for a screen reader.
        **rows: Data by the name that the chart calls them, put in at the end: altair would copy
            and check every row over and over.
    """
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    sized = chart.properties(width="container", height=height, autosize=fit, description=text)
    spec: Spec = sized.to_dict(validate=False)  # half the time of a report; tests validate all
    del spec["$schema"], spec["config"]
    spec["datasets"] = {name: list(values) for name, values in rows.items()}
    return spec


def rows_data(rows: Sequence[Row]) -> alt.InlineData:
    """Data of a chart from rows."""
    return alt.InlineData(values=list(rows))


def rounded(value: float) -> float | None:
    """The number in six significant digits, None if it is not finite: JSON has no infinity."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def ends(center: float, half_width: float) -> tuple[float | None, float | None]:
    """Both ends of an interval, None where there is none."""
    if not math.isfinite(half_width):
        return None, None
    return rounded(center - half_width), rounded(center + half_width)


def tips(*fields: str) -> list[alt.Tooltip]:
    """Tooltips from ``field:title`` texts; a field of numbers is marked by ``=`` before it."""
    found = []
    for text in fields:
        field, _, title = text.partition(":")
        kind = "Q" if field.startswith("=") else "N"
        found.append(alt.Tooltip(f"{field.lstrip('=')}:{kind}", title=title))
    return found


def plain_axis(ticks: int = 5, **more: Any) -> alt.Axis:
    """An axis of grid lines and labels only."""
    return alt.Axis(domain=False, ticks=False, tickCount=ticks, **more)


def label_axis(**more: Any) -> alt.Axis:
    """An axis of names only."""
    return alt.Axis(ticks=False, domain=False, labelLimit=120, labelColor=INK, **more)


def named_rows(base: alt.Chart, marks: Sequence[alt.Chart]) -> Layers:
    """Rows with ``policy`` and the text ``shown`` above their marks: needs no width for names."""
    place: Row = {"dy": NAME_UP, "baseline": "middle"}
    halo: Row = {"stroke": "var(--card)", "strokeWidth": 4, "strokeJoin": "round"}
    layers = list(marks)
    for more in (halo, Row()):  # first in the color of the page, so that no line crosses the text
        name = base.mark_text(align="left", fontWeight=600, **place, **more)
        shown = base.mark_text(align="right", **place, **more)
        layers.append(name.encode(text="policy:N", x=alt.value(0)))
        layers.append(shown.encode(text="shown:N", x=alt.value("width")))
    return alt.layer(*layers)


def row_of_policy() -> alt.Y:
    """One row a policy, in the order of the data, without an axis."""
    return alt.Y("policy:N", sort=None, axis=None)


def row_interval(base: alt.Chart, **mark: Any) -> alt.Chart:
    """The interval from ``low`` to ``high``, where there is one."""
    rule: alt.Chart = base.transform_filter(KNOWN).mark_rule(yOffset=MARK_DOWN, **mark)
    return rule.encode(x=alt.X("low:Q"), x2="high:Q")


def policy_color(policies: Sequence[str]) -> alt.Color:
    """The color of the field ``policy`` (short names)."""
    scale = alt.Scale(domain=names(policies), range=[color_of(one) for one in policies])
    return alt.Color("policy:N", title=None, scale=scale, legend=None)


def policy_dash(policies: Sequence[str]) -> alt.StrokeDash:
    """The dash of each policy's line."""
    scale = alt.Scale(domain=names(policies), range=_in_turn(DASHES, len(policies)))
    return alt.StrokeDash("policy:N", title=None, scale=scale, legend=None)


def policy_shape(policies: Sequence[str]) -> alt.Shape:
    """The point shape of each policy."""
    scale = alt.Scale(domain=names(policies), range=_in_turn(SHAPES, len(policies)))
    return alt.Shape("policy:N", title=None, scale=scale, legend=None)


def policy_key(policies: Sequence[str], lines: bool) -> tuple[Sample, ...]:
    """What stands for each policy, in the order given."""
    n = len(policies)
    shapes = _in_turn(SHAPES, n)
    dashes = _in_turn(DASHES, n) if lines else [None] * n
    return tuple(map(Sample, names(policies), [color_of(one) for one in policies], dashes, shapes))


def names(policies: Sequence[str]) -> list[str]:
    """Short names, in order."""
    return [short_name(policy) for policy in policies]


def color_of(policy: str) -> str:
    """The CSS color of a policy: the same on every page and in every chart."""
    if policy in OWN_COLOR:
        return f"var(--{policy})"
    return f"var(--spare-{1 + sum(map(ord, policy)) % SPARE_COLORS})"


def _in_turn(values: Sequence[Any], n: int) -> list[Any]:
    """The values over and over, n of them."""
    return [values[i % len(values)] for i in range(n)]
