"""Heat maps by task type and server: opportunity costs, index, who gets assigned what.

Rows are task types, columns servers, in the order of the instance, cut by ``excerpt``. Needs
the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np
from numpy.typing import NDArray

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    ROWS,
    SOFT,
    TRACK,
    Chart,
    Row,
    finished,
    label_axis,
    tips,
)
from opportune.experiments.comparison import Comparison
from opportune.experiments.excerpt import Excerpt

Float = NDArray[np.float64]

CELL, LOW_CELL, MANY = 26, 18, 16
"""Height of a row of a heat map in pixels, and its height where there are many rows."""

COLUMNS = 30
"""A heat map of more columns takes the whole width."""

NOISE = 1e-9
"""Numbers smaller than this share of the largest are zero."""

WRITTEN_COLUMNS = 12
"""Up to this many columns a cell has its number written in it, where there is room."""


@dataclass(frozen=True)
class Shades:
    """How a number becomes a color.

    Attributes:
        scheme: Name of a Vega color scheme that color-blind people can read.
        domain: Numbers of its two ends.
        light: Vega expression of ``datum.value``: whether white text is readable on it.
        reverse: Whether the scheme is turned round.
    """

    scheme: Literal["cividis", "blueorange"]
    domain: tuple[float, float]
    light: str
    reverse: bool = False


def cost_chart(comparison: Comparison, cut: Excerpt, name: str) -> Chart:
    """Opportunity cost l_v + E[D_v] q_r of every pair: what it costs later tasks."""
    at = np.ix_(cut.types, cut.servers)
    allowed = comparison.instance.allowed[at]
    cost = np.where(allowed, comparison.prices.opportunity_cost[at], np.nan)
    low, high = _range(cost)
    shades = Shades("cividis", (low, high), f"datum.value < {low + 0.6 * (high - low):.6g}")
    cells = _cells(comparison, cut, {"value": cost, "score": comparison.instance.match_reward[at]})
    text = (
        "Heat map of the opportunity cost by task type and server, in units of reward, from "
        f"{wording.number(low)} to {wording.number(high)}."
    )
    hints = ("=value:Opportunity cost (reward)", "=score:Score of the pair (reward)")
    return Chart(
        name=name,
        title="What it costs to use a server",
        text=text,
        caption="Opportunity cost in units of reward: the price of serving the task type plus "
        "the price of the server for the mean duration. Bright: keep for other tasks. Below "
        "zero: serving now makes room for better use.",
        spec=_heat_map(cells, hints, shades, "cost (reward)", text),
        **_width(cut),
    )


def index_chart(comparison: Comparison, cut: Excerpt, name: str) -> Chart:
    """Index L(v,r): score minus opportunity cost."""
    at = np.ix_(cut.types, cut.servers)
    index = comparison.prices.index[at]
    low, high = _range(index)
    most = max(abs(low), abs(high)) or 1.0
    light = f"abs(datum.value) > {0.62 * most:.6g}"
    shades = Shades("blueorange", (-most, most), light, reverse=True)
    fields = {
        "value": index,
        "score": comparison.instance.match_reward[at],
        "weight": comparison.prices.tie_weight[at],
    }
    text = (
        "Heat map of the index, score minus opportunity cost, by task type and server, in units "
        f"of reward, from {wording.number(low)} to {wording.number(high)}."
    )
    hints = (
        "=value:Index (reward)",
        "=score:Score of the pair (reward)",
        "=weight:Planned servers per arriving task",
    )
    return Chart(
        name=name,
        title="Which pairs are worth it",
        text=text,
        caption="Index in units of reward: score minus opportunity cost. Blue, above zero: "
        "worth the server's time. White, zero: used as far as needed. Orange, below zero: only "
        "when nothing better is free.",
        spec=_heat_map(_cells(comparison, cut, fields), hints, shades, "index (reward)", text),
        **_width(cut),
    )


def assigned_chart(comparison: Comparison, cut: Excerpt, policy: str, name: str) -> Chart:
    """Who gets assigned what under a policy: servers taken per 100 arrivals of a type."""
    taken, rate = assigned(comparison, cut, policy)
    shown = [assigned(comparison, cut, one)[0] for one in wording.compared(comparison)]
    most = max(float(one.max()) for one in shown) or 1.0
    shades = Shades("cividis", (0.0, most), f"datum.value < {0.6 * most:.6g}")
    cells = _cells(comparison, cut, {"value": taken, "rate": 1000 * rate})
    short = wording.short_name(policy)
    v, r = np.unravel_index(int(taken.argmax()), taken.shape)
    instance = comparison.instance
    text = (
        f"Heat map of assignments by {short}: servers taken per 100 arriving tasks, by task type "
        f"and server. Most: {instance.task_types[cut.types[v]]} by "
        f"{instance.servers[cut.servers[r]]}, {wording.number(float(taken[v, r]), 3)}."
    )
    hints = (
        "=value:Assignments per 100 arrivals of the type",
        "=rate:Assignments per 1,000 steps",
    )
    return Chart(
        name=name,
        title=f"Who gets what: {short}",
        text=text,
        caption=f"Assignments per 100 arriving tasks of the type, under {short}; one color scale "
        "for the policies shown.",
        spec=_heat_map(cells, hints, shades, "per 100 arrivals", text),
        **_width(cut),
    )


def assigned(comparison: Comparison, cut: Excerpt, policy: str) -> tuple[Float, Float]:
    """Assignments of the shown pairs, all replications together.

    Returns:
        Per 100 arrivals of the type, and per step; both (shown types, shown servers).
    """
    runs = comparison.runs
    place = wording.policies(comparison).index(policy)
    counts = runs.assigned[:, place][:, cut.types][:, :, cut.servers].sum(axis=0)
    arrived = runs.arrived[:, place][:, cut.types].sum(axis=0)
    per_hundred = 100.0 * counts / np.maximum(arrived, 1)[:, None]
    return np.asarray(per_hundred), np.asarray(counts / (len(runs.assigned) * runs.steps))


def _range(values: Float) -> tuple[float, float]:
    """Least and greatest number; forbidden pairs have none."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def _cells(comparison: Comparison, cut: Excerpt, fields: dict[str, Float]) -> list[Row]:
    """One row a shown task type, a list over the shown servers in each field.

    Numbers have four significant digits (enough for a color and a tooltip), rounding noise is
    0, and forbidden pairs have None.
    """
    instance = comparison.instance
    servers = [instance.servers[r] for r in cut.servers]
    rows: list[Row] = [{"type": instance.task_types[v], "server": servers} for v in cut.types]
    allowed = instance.allowed[np.ix_(cut.types, cut.servers)]
    for field, values in fields.items():
        known = np.where(allowed & np.isfinite(values), values, 0.0)
        known[np.abs(known) <= NOISE * np.abs(known).max()] = 0.0
        for row, numbers, permitted in zip(rows, known, allowed, strict=True):
            pairs = zip(numbers, permitted, strict=True)
            row[field] = [float(f"{x:.4g}") if ok else None for x, ok in pairs]
    return rows


def _heat_map(
    cells: list[Row], hints: tuple[str, ...], shades: Shades, unit: str, text: str
) -> dict[str, object]:
    columns = len(cells[0]["server"])
    fields: list[str | alt.FieldName] = [
        "server",
        *(key for key in cells[0] if key not in ("type", "server")),
    ]
    height = (CELL if len(cells) <= MANY else LOW_CELL) * len(cells)
    turned = 0 if columns <= 4 else -90
    x_axis = label_axis(orient="top", labelAngle=turned, labelFontSize=11 if columns < 20 else 10)
    base = (
        alt.Chart(ROWS)
        .transform_flatten(fields)
        .encode(
            x=alt.X("server:N", sort=None, title=None, axis=x_axis),
            y=alt.Y("type:N", sort=None, title=None, axis=label_axis()),
        )
    )
    scale = alt.Scale(
        scheme=shades.scheme, domain=list(shades.domain), reverse=shades.reverse, nice=False
    )
    bar = alt.Legend(orient="bottom", title=unit, gradientLength=200, format=".3~r", tickCount=4)
    tooltip = [*tips("type:Task type", "server:Server"), *tips(*hints)]
    known = base.transform_filter("isValid(datum.value)")
    layers = [
        base.mark_rect(color=TRACK).encode(tooltip=tips("type:Task type", "server:Server")),
        known.mark_rect(stroke="var(--card)", strokeWidth=1).encode(
            color=alt.Color("value:Q", scale=scale, legend=bar), tooltip=tooltip
        ),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(text="×", color=SOFT, fontSize=12)
        .encode(tooltip=alt.value("forbidden pair")),
    ]
    if columns <= WRITTEN_COLUMNS:
        room = alt.ExprRef(expr=f"width / {columns} > 44 ? 1 : 0")
        layers.append(
            known.mark_text(fontSize=11, opacity=room).encode(
                text=alt.Text("value:Q", format=".3~r"),
                color=alt.condition(shades.light, alt.value("#ffffff"), alt.value("#10151c")),
            )
        )
    return finished(alt.layer(*layers), height, text, rows=cells)


def _width(cut: Excerpt) -> dict[str, Any]:
    """What a heat map needs: cells of at least 12 pixels."""
    columns = len(cut.servers)
    return {"least_width": 110 + 12 * columns, "wide": columns > COLUMNS}
