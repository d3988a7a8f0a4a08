"""Charts of one number a task type or a server: prices, and how busy each server is.

Many names stand in columns, a few in rows. Needs the extra ``report``; reached only when a
report is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    LINE,
    PERCENT,
    ROWS,
    SOFT,
    Chart,
    Row,
    finished,
    label_axis,
    plain_axis,
    policy_color,
    policy_key,
    policy_shape,
    rounded,
    tips,
)
from opportune.experiments.comparison import Comparison
from opportune.experiments.excerpt import Excerpt

Float = NDArray[np.float64]

MOST_ROWS = 14
"""Up to this many names stand in rows, more of them in columns."""

ROW_HEIGHT, UPRIGHT_HEIGHT = 22, 200
"""Height of a row, and of a chart whose names stand in columns, in pixels."""


def price_bars(
    title: str, unit: str, values: Float, labels: Sequence[str], words: tuple[str, str, str]
) -> Chart:
    """Prices as bars, the highest first.

    Args:
        title: What the prices are.
        unit: Their unit.
        values: (n,) prices.
        labels: (n,) whose.
        words: Name of the chart, what a row is, caption.
    """
    name, row_name, caption = words
    rows: list[Row] = [
        {
            "label": labels[i],
            "value": rounded(float(values[i])),
            "shown": wording.number(float(values[i]), 3),
        }
        for i in np.argsort(-snapped(values), kind="stable")
    ]
    lie = Lie(len(rows))
    base = alt.Chart(ROWS).encode(
        lie.place(), tooltip=tips(f"label:{row_name}", f"shown:{title} ({unit})")
    )
    bar = base.mark_bar(color="var(--price)", cornerRadiusEnd=2, **lie.thick(0.55))
    zero = alt.Chart(alt.NamedData(name="zero")).mark_rule(color=SOFT)
    chart = alt.layer(
        bar.encode(lie.value("value", title=unit, axis=plain_axis(4))),
        zero.encode(lie.value("zero")),
    )
    first, last = rows[0], rows[-1]
    text = (
        f"Bars: {title.lower()}, {unit}. Highest: {first['label']} {first['shown']}; lowest: "
        f"{last['label']} {last['shown']}."
    )
    spec = finished(chart, lie.height, text, rows=rows, zero=[{"zero": 0}])
    return Chart(name, title, text, caption, spec, least_width=lie.least_width, wide=lie.upright)


def utilization_chart(comparison: Comparison, cut: Excerpt, name: str) -> Chart:
    """Busy share of the time by server, for the compared policies."""
    ids = wording.compared(comparison)
    busy = {policy: utilization(comparison, policy) for policy in ids}
    order = cut.servers[np.argsort(-busy[ids[0]][cut.servers], kind="stable")]
    rows: list[Row] = [
        {
            "label": comparison.instance.servers[r],
            "policy": wording.short_name(policy),
            "value": rounded(100 * float(busy[policy][r])),
            "shown": wording.share(float(busy[policy][r])),
        }
        for r in order
        for policy in ids
    ]
    lie = Lie(len(order))
    base = alt.Chart(ROWS).encode(
        lie.place(), tooltip=tips("label:Server", "policy:Policy", "shown:Busy")
    )
    axis = plain_axis(values=[0, 25, 50, 75, 100], labelExpr=PERCENT)
    scale = alt.Scale(domain=[0, 100])
    value = lie.value("value", title="busy (% of the time)", axis=axis, scale=scale)
    span = base.mark_line(color=LINE, strokeWidth=4).encode(value, detail="label:N")
    dots = base.mark_point(filled=True, size=85, opacity=0.95).encode(
        value, color=policy_color(ids), shape=policy_shape(ids)
    )
    means = ", ".join(f"{wording.short_name(p)} {wording.share(busy[p].mean())}" for p in ids)
    text = f"Dots: share of the time that each server is busy. Mean over all servers: {means}."
    return Chart(
        name=name,
        title="How busy each server is",
        text=text,
        caption=f"Share of the counted steps in which the server works. Mean of all: {means}.",
        spec=finished(alt.layer(span, dots), lie.height, text, rows=rows),
        least_width=lie.least_width,
        key=policy_key(ids, lines=False),
        wide=True,
    )


@dataclass(frozen=True)
class Lie:
    """How a chart of n named values lies: names in rows, or in columns if there are many.

    Attributes:
        n: How many names.
    """

    n: int

    @property
    def upright(self) -> bool:
        """Whether the names stand in columns."""
        return self.n > MOST_ROWS

    @property
    def height(self) -> int:
        """In pixels."""
        return UPRIGHT_HEIGHT if self.upright else ROW_HEIGHT * self.n

    @property
    def least_width(self) -> int:
        """In pixels."""
        return 70 + 15 * self.n if self.upright else 0

    def place(self) -> alt.X | alt.Y:
        """The axis of the field ``label``."""
        if self.upright:
            return alt.X("label:N", sort=None, title=None, axis=label_axis(labelAngle=-90))
        return alt.Y("label:N", sort=None, title=None, axis=label_axis())

    def value(self, field: str, **more: Any) -> alt.X | alt.Y:
        """The axis of a field of numbers."""
        kind = alt.Y if self.upright else alt.X
        return kind(field=field, type="quantitative", **more)

    def thick(self, share: float) -> dict[str, Any]:
        """Thickness of a bar, as a share of its place."""
        return {"width" if self.upright else "height": alt.RelativeBandSize(band=share)}


def utilization(comparison: Comparison, policy: str) -> Float:
    """(R,) share of the counted steps in which a server is busy, all replications together."""
    runs = comparison.runs
    busy = runs.busy_steps[:, wording.policies(comparison).index(policy)]
    return np.asarray(busy.sum(axis=0) / (len(busy) * runs.steps))


def snapped(values: Float) -> Float:
    """Values rounded to nine digits of the largest, so that equal ones keep their order."""
    unit = float(np.abs(values).max(initial=0.0)) or 1.0
    return np.asarray(np.round(values / unit, 9))
