"""Pictures of a fit: rates over the day and over the log, durations.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    DASHES,
    ROWS,
    Chart,
    Row,
    color_of,
    finished,
    plain_axis,
    rounded,
    tips,
)
from opportune.experiments.page import Sample
from opportune.learning.fit.arrivals import poisson_interval
from opportune.learning.fit.files import period_names
from opportune.learning.fit.instance import Fit

Float = NDArray[np.float64]

COLORS = ("lag", "greedy", "whittle", "headcount", "random", "alg-sc-lp", "optimal", "auto")
"""Policies whose colors the lines of task types take, one after the other."""

MOST_LINES = len(COLORS)
"""Most lines of a chart."""

BLOCKS = 60
"""Bars over the log where it has no days."""

POINTS = 120
"""Points of a survival curve."""

HIGH = 260
"""Height of a chart in pixels."""


def busiest(fit: Fit) -> list[int]:
    """Task types with the most tasks, in their own order."""
    order = np.argsort(-fit.arrivals.count, kind="stable")[:MOST_LINES]
    return sorted(int(v) for v in order)


def profile_chart(fit: Fit, name: str) -> Chart | None:
    """Arrivals per step over the day: the fitted profile, and what was counted."""
    arrivals = fit.arrivals
    if arrivals.multiplier is None or arrivals.raw is None:
        return None
    periods, types = period_names(len(arrivals.multiplier)), busiest(fit)
    rows: list[Row] = []
    for v in types:
        for p, period in enumerate(periods):
            value = float(arrivals.rate[v] * arrivals.multiplier[p, v])
            rows.append(
                {
                    "period": period,
                    "line": fit.instance.task_types[v],
                    "value": rounded(value),
                    "raw": rounded(float(arrivals.rate[v] * arrivals.raw[p, v])),
                    "shown": wording.number(value),
                }
            )
    names = [fit.instance.task_types[v] for v in types]
    axis = plain_axis(labelAngle=0, values=periods[:: math.ceil(len(periods) / 8)])
    x = alt.X("period:N", sort=periods, title="from", axis=axis)
    base = alt.Chart(ROWS).encode(x=x, color=_color(names))
    title = "arrivals per step"
    line = base.mark_line(interpolate="step", strokeWidth=2).encode(
        y=alt.Y("value:Q", title=title, axis=plain_axis()), strokeDash=_dash(names)
    )
    dots = base.mark_point(size=24, opacity=0.8).encode(
        y="raw:Q", tooltip=tips("line:Type", "period:From", "shown:Fitted", "=raw:Counted")
    )
    peak = periods[int((arrivals.multiplier * arrivals.rate).sum(axis=1).argmax())]
    text = f"Lines: arrivals per step over the day for {', '.join(names)}; most from {peak}."
    strength = "types share one curve"
    if math.isfinite(arrivals.strength):
        strength = f"the shared curve counts as {arrivals.strength:.3g} tasks"
    return Chart(
        name=name,
        title="When tasks arrive",
        text=text,
        caption=f"Points: counted. Lines: fitted, shrunk to the curve of all types ({strength}). "
        + _left_out(len(types), fit.instance.n_types),
        spec=finished(alt.layer(line, dots), HIGH, text, rows=rows),
        key=_key(names),
    )


def level_chart(fit: Fit, name: str) -> Chart:
    """Tasks by day, or by equal parts of the log, with the interval of each count."""
    log = fit.log
    by_day = log.day is not None and log.arrival[-1] - log.arrival[0] > 8 * log.day
    length = float(log.day or 1.0) if by_day else float(log.arrival[-1] - log.arrival[0]) / BLOCKS
    place = np.floor(log.arrival / length) if by_day else (log.arrival - log.arrival[0]) / length
    count = np.bincount(np.floor(place).astype(np.int64))
    low, high = poisson_interval(count)
    word = "day" if by_day else f"part of {BLOCKS}"
    rows: list[Row] = [
        {"at": i + 1, "count": int(n), "low": rounded(a), "high": rounded(b), "shown": f"{n:,}"}
        for i, (n, a, b) in enumerate(zip(count, low.tolist(), high.tolist(), strict=True))
        if by_day or i < BLOCKS
    ]
    base = alt.Chart(ROWS).encode(
        x=alt.X("at:Q", title=word, axis=plain_axis(8)), tooltip=tips("=at:Part", "shown:Tasks")
    )
    dots = base.mark_point(filled=True, size=36, color=color_of("lag")).encode(
        y=alt.Y("count:Q", title="tasks", axis=plain_axis())
    )
    bars = base.mark_rule(color=color_of("lag")).encode(y="low:Q", y2="high:Q")
    drift = fit.arrivals.drift
    told = "" if drift is None else f" Test of one level: p = {drift.p_value:.2g}."
    text = f"Points: tasks by {word} of the log, from {count.min():,} to {count.max():,}."
    return Chart(
        name=name,
        title="Tasks over the log",
        text=text,
        caption=f"Line: 95 % interval of a Poisson count.{told}",
        spec=finished(alt.layer(bars, dots), HIGH, text, rows=rows),
    )


def duration_chart(fit: Fit, name: str) -> Chart | None:
    """Share of services that last longer, by type: seen (product limit) and fitted."""
    types = [v for v in busiest(fit) if fit.services.types[v].survival is not None]
    if not types:
        return None
    most = max(_quantile(fit, v, 0.99) for v in types)
    grid = np.unique(np.linspace(1, most, POINTS).astype(np.int64))
    rows: list[Row] = []
    for v in types:
        one = fit.services.types[v]
        if one.survival is None:
            continue
        after = 1.0 - np.concatenate([[0.0], np.cumsum(one.survival.mass)])
        seen = after[np.searchsorted(one.survival.steps, grid, side="right")]
        fitted = one.law.tail(grid + 1)
        for t, a, b in zip(grid.tolist(), seen.tolist(), fitted.tolist(), strict=True):
            rows.append(
                {
                    "steps": t,
                    "line": fit.instance.task_types[v],
                    "seen": rounded(100 * a),
                    "fitted": rounded(100 * b),
                }
            )
    names = [fit.instance.task_types[v] for v in types]
    base = alt.Chart(ROWS).encode(
        x=alt.X("steps:Q", title="steps", axis=plain_axis()), color=_color(names)
    )
    y = alt.Y("seen:Q", title="services that last longer (%)", axis=plain_axis())
    seen_line = base.mark_line(interpolate="step-after", strokeWidth=2).encode(
        y=y, tooltip=tips("line:Type", "=steps:Steps", "=seen:Seen (%)", "=fitted:Fitted (%)")
    )
    fitted_line = base.mark_line(interpolate="step-after", strokeWidth=1.5, strokeDash=[4, 3])
    means = ", ".join(
        f"{fit.instance.task_types[v]} {fit.services.types[v].mean:.3g}" for v in types
    )
    text = f"Lines: share of services that last longer than so many steps. Means: {means}."
    return Chart(
        name=name,
        title="How long services take",
        text=text,
        caption="Whole: what was seen, services that had not ended included (Kaplan and Meier). "
        "Dashed: the law of the instance. " + _left_out(len(types), fit.instance.n_types),
        spec=finished(
            alt.layer(seen_line, fitted_line.encode(y="fitted:Q")), HIGH, text, rows=rows
        ),
        key=_key(names),
    )


def _quantile(fit: Fit, v: int, share: float) -> int:
    survival = fit.services.types[v].survival
    if survival is None:
        return 1
    place = int(np.searchsorted(np.cumsum(survival.mass), share))
    return int(survival.steps[min(place, len(survival.steps) - 1)])


def _left_out(shown: int, n: int) -> str:
    return "" if shown == n else f"The {shown} types with the most tasks, of {n:,}."


def _colors(n: int) -> list[str]:
    return [color_of(COLORS[i % MOST_LINES]) for i in range(n)]


def _color(lines: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(lines), range=_colors(len(lines)))
    return alt.Color("line:N", scale=scale, legend=None)


def _dash(lines: Sequence[str]) -> alt.StrokeDash:
    dashes = [DASHES[i % len(DASHES)] for i in range(len(lines))]
    scale = alt.Scale(domain=list(lines), range=dashes)
    return alt.StrokeDash("line:N", scale=scale, legend=None)


def _key(lines: Sequence[str]) -> tuple[Sample, ...]:
    return tuple(
        Sample(line, color, [1, 0], None)
        for line, color in zip(lines, _colors(len(lines)), strict=True)
    )
