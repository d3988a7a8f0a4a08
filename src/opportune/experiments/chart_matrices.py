"""Charts by task type and server: prices, who gets assigned what, how busy each server is.

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
    SOFT,
    TRACK,
    Chart,
    Row,
    finished,
    label_axis,
    rows_data,
    tips,
)
from opportune.experiments.comparison import Comparison
from opportune.experiments.excerpt import Excerpt

Float = NDArray[np.float64]

CELL = 26
"""Height of a row of a heat map, in pixels."""

BAR = 22
"""Height of a row of a bar chart, in pixels."""

ROWS = 14
"""Up to this many names stand in rows, more of them in columns."""

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
    cost = comparison.prices.opportunity_cost
    shown = _allowed(comparison, cost)[np.ix_(cut.types, cut.servers)]
    low, high = _range(shown)
    shades = Shades("cividis", (low, high), f"datum.value < {low + 0.6 * (high - low):.6g}")
    cells = _cells(comparison, cut, {"value": cost, "score": comparison.instance.match_reward})
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
    index = comparison.prices.index
    shown = _allowed(comparison, index)[np.ix_(cut.types, cut.servers)]
    low, high = _range(shown)
    most = max(abs(low), abs(high)) or 1.0
    light = f"abs(datum.value) > {0.62 * most:.6g}"
    shades = Shades("blueorange", (-most, most), light, reverse=True)
    scores = comparison.instance.match_reward
    weights = comparison.prices.tie_weight
    cells = _cells(comparison, cut, {"value": index, "score": scores, "weight": weights})
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
        spec=_heat_map(cells, hints, shades, "index (reward)", text),
        **_width(cut),
    )


def assigned_chart(comparison: Comparison, cut: Excerpt, policy: str, name: str) -> Chart:
    """Who gets assigned what under a policy: servers taken per 100 arrivals of a type."""
    taken = per_hundred(comparison, policy)
    rate = _rate(comparison, policy)
    shown = [per_hundred(comparison, one) for one in wording.compared(comparison)]
    most = max(float(one.max()) for one in shown) or 1.0
    shades = Shades("cividis", (0.0, most), f"datum.value < {0.6 * most:.6g}")
    cells = _cells(comparison, cut, {"value": taken, "rate": 1000 * rate})
    short = wording.short_name(policy)
    top = np.unravel_index(int(taken.argmax()), taken.shape)
    instance = comparison.instance
    text = (
        f"Heat map of assignments by {short}: servers taken per 100 arriving tasks, by task type "
        f"and server. Most: {instance.task_types[top[0]]} by {instance.servers[top[1]]}, "
        f"{wording.number(float(taken[top]), 3)}."
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


def per_hundred(comparison: Comparison, policy: str) -> Float:
    """(V, R) assignments per 100 arrivals of the type, all replications together."""
    place = comparison.settings.policy_ids.index(policy)
    assigned = comparison.runs.assigned[:, place].sum(axis=0)
    arrived = comparison.runs.arrived[:, place].sum(axis=0)
    return np.asarray(100.0 * assigned / np.maximum(arrived, 1)[:, None])


def _rate(comparison: Comparison, policy: str) -> Float:
    runs = comparison.runs
    assigned = runs.assigned[:, comparison.settings.policy_ids.index(policy)]
    return np.asarray(assigned.sum(axis=0) / (len(assigned) * runs.steps))


def _allowed(comparison: Comparison, values: Float) -> Float:
    return np.where(comparison.instance.allowed, values, np.nan)


def _range(values: Float) -> tuple[float, float]:
    """Least and greatest number; forbidden pairs are not a number."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def _cells(comparison: Comparison, cut: Excerpt, fields: dict[str, Float]) -> list[Row]:
    """One row a task type, a list over servers in each field; None where forbidden."""
    instance = comparison.instance
    servers = [instance.servers[r] for r in cut.servers]
    rows: list[Row] = []
    for v in cut.types:
        allowed = instance.allowed[v, cut.servers]
        row: Row = {"type": instance.task_types[v], "server": servers}
        for field, values in fields.items():
            unit = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
            pairs = zip(values[v, cut.servers], allowed, strict=True)
            row[field] = [_short(float(x), unit) if ok else None for x, ok in pairs]
        rows.append(row)
    return rows


def _short(value: float, unit: float) -> float | None:
    """Four significant digits, and 0 for rounding noise: enough for a color and a tooltip."""
    if not np.isfinite(value):
        return None
    return float(f"{value:.4g}") if abs(value) > NOISE * unit else 0.0


def _heat_map(
    cells: list[Row], hints: tuple[str, ...], shades: Shades, unit: str, text: str
) -> dict[str, object]:
    columns = len(cells[0]["server"])
    fields: list[str | alt.FieldName] = [
        "server",
        *(key for key in cells[0] if key not in ("type", "server")),
    ]
    turned = 0 if columns <= 4 else -90
    x_axis = label_axis(orient="top", labelAngle=turned, labelFontSize=11 if columns < 20 else 10)
    base = (
        alt.Chart(rows_data(cells))
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
        room = alt.ExprRef(expr=f"width / {columns} > 38 ? 1 : 0")
        layers.append(
            known.mark_text(fontSize=11, opacity=room).encode(
                text=alt.Text("value:Q", format=".3~r"),
                color=alt.condition(shades.light, alt.value("#ffffff"), alt.value("#10151c")),
            )
        )
    return finished(alt.layer(*layers), CELL * len(cells), text)


def _width(cut: Excerpt) -> dict[str, Any]:
    """What a heat map needs: cells of at least 12 pixels."""
    columns = len(cut.servers)
    return {"least_width": 110 + 12 * columns, "wide": columns > COLUMNS}
