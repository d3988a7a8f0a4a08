"""Charts over a day: arrivals and servers on duty, prices, reward by policy.

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
    INK,
    ROW,
    ROWS,
    TRACK,
    Chart,
    Row,
    color_of,
    ends,
    finished,
    named_rows,
    plain_axis,
    rounded,
    row_interval,
    row_of_policy,
    tips,
)
from opportune.experiments.day import BY_PERIOD, MEAN_DAY, DayComparison, DayRow
from opportune.experiments.page import Sample

COLORS = ("lag", "greedy", "whittle", "headcount", "random", "alg-sc-lp", "optimal", "auto")
"""Policies whose colors the lines of a day take, one after the other."""

MOST_LINES = len(COLORS)
"""Task types drawn as lines of their own, those of most work; the others are left out."""

LABELS = 12
"""Most names of periods along the axis."""


def day_rates_chart(result: DayComparison, name: str) -> Chart:
    """Arrivals per step by period, in steps, a line a task type, and the load as a line."""
    day = result.day
    rate = day.base.arrival_rate * day.multiplier
    types = _largest(rate.mean(axis=0) * day.base.mean_duration)
    rows: list[Row] = [
        _at(day.periods[p], day.base.task_types[v], float(rate[p, v]), "per step")
        for v in types
        for p in range(day.n_periods)
    ]
    text = (
        "Lines: arrivals per step over the day by task type: "
        + ", ".join(day.base.task_types[v] for v in types)
        + f". Most in period {day.periods[int(rate.sum(axis=1).argmax())]}."
    )
    return Chart(
        name=name,
        title="When tasks arrive",
        text=text,
        caption="Arrivals per step, by task type. " + _left_out(len(types), day.base.n_types),
        spec=_lines(rows, [day.base.task_types[v] for v in types], result, ("arrivals/step", text)),
        key=_key([day.base.task_types[v] for v in types]),
        wide=True,
    )


def day_duty_chart(result: DayComparison, name: str) -> Chart:
    """Servers on duty and servers needed: work that arrives per step."""
    day = result.day
    rate = day.base.arrival_rate * day.multiplier
    work = rate @ (day.base.mean_duration * day.base.servers_per_task)
    on_duty = day.on_duty.sum(axis=1)
    lines = ("on duty", "needed on average")
    rows: list[Row] = []
    for line, values in zip(lines, (on_duty, work), strict=True):
        rows += [
            _at(day.periods[p], line, float(values[p]), "servers") for p in range(day.n_periods)
        ]
    text = (
        f"Lines: servers on duty, {wording.number(float(on_duty.min()))} to "
        f"{wording.number(float(on_duty.max()))}, and servers that the tasks need on average, up "
        f"to {wording.number(float(work.max()))}."
    )
    return Chart(
        name=name,
        title="Who is there, and how many are needed",
        text=text,
        caption="Where the second line comes near the first, tasks are turned away.",
        spec=_lines(rows, list(lines), result, ("servers", text)),
        key=_key(lines),
        wide=True,
    )


def day_price_chart(result: DayComparison, name: str) -> Chart:
    """Demand prices by period, a line a task type."""
    day = result.day
    rate = day.base.arrival_rate * day.multiplier
    types = _largest(rate.mean(axis=0) * day.base.mean_duration)
    rows: list[Row] = []
    for p, own in enumerate(result.prices.periods):
        if own is not None:
            for v in types:
                price = float(own.demand_price[v])
                rows.append(_at(day.periods[p], day.base.task_types[v], price, "reward"))
    names = [day.base.task_types[v] for v in types]
    text = f"Lines: demand price over the day by task type: {', '.join(names)}."
    return Chart(
        name=name,
        title="What serving one more task is worth",
        text=text,
        caption="Demand price in units of reward: what one more assignment of the type would add. "
        "It falls when servers are scarce, and below zero where it costs others more than it "
        "earns.",
        spec=_lines(rows, names, result, ("reward", text)),
        key=_key(names),
    )


def day_capacity_chart(result: DayComparison, name: str) -> Chart:
    """Price of an hour of a server over the day: mean, cheapest and dearest server."""
    day = result.day
    lines = ("dearest server", "mean", "cheapest server")
    rows: list[Row] = []
    for p, own in enumerate(result.prices.periods):
        if own is None:
            continue
        there = own.capacity_price[day.on_duty[p] > 0] * day.period_steps
        for line, value in zip(lines, (there.max(), there.mean(), there.min()), strict=True):
            rows.append(_at(day.periods[p], line, float(value), "reward per period"))
    text = "Lines: price of a server for a whole period: dearest, mean and cheapest on duty."
    return Chart(
        name=name,
        title="What a server is worth",
        text=text,
        caption="Capacity price times the length of a period: what one more server of this kind "
        "would add in it. High where more staff pays.",
        spec=_lines(rows, list(lines), result, ("reward per period", text)),
        key=_key(lines),
    )


def day_reward_chart(result: DayComparison, name: str) -> Chart:
    """Reward per day of every row beside the first, as paired differences in percent."""
    first = result.rows[0]
    rows: list[Row] = []
    for row in result.rows[1:]:
        value, half = _percent(row, first)
        low, high = ends(value, half)
        shown = f"{wording.difference(value)}{wording.NBSP}% {wording.interval(half)}"
        rows.append(
            {
                "policy": row_name(row),
                "value": rounded(value),
                "low": low,
                "high": high,
                "shown": shown,
                "color": color_of(row.policy),
            }
        )
    base = alt.Chart(ROWS).encode(y=row_of_policy(), tooltip=tips("policy:Plan", "shown:Reward"))
    zero = alt.Chart(alt.NamedData(name="zero")).mark_rule(color=INK).encode(x="x:Q")
    axis = plain_axis(6)
    x = alt.X("value:Q", title=f"reward per day beside {row_name(first)} (%)", axis=axis)
    bar = base.mark_bar(height=8, yOffset=7, cornerRadius=2).encode(
        x=x, color=alt.Color("color:N", scale=None, legend=None)
    )
    marks = [zero, bar, row_interval(base, color=INK, strokeWidth=2)]
    told = "; ".join(f"{row['policy']} {row['shown']}" for row in rows)
    text = f"Bars: reward per day beside {row_name(first)}, in percent: {told}."
    return Chart(
        name=name,
        title="What each way to plan the day earns",
        text=text,
        caption=f"Reward per day beside {row_name(first)}, which earns "
        f"{wording.number(first.reward)} per day. All saw the same tasks; line: 95 % interval of "
        "the paired difference.",
        spec=finished(
            named_rows(base, marks), ROW * max(1, len(rows)), text, rows=rows, zero=[{"x": 0}]
        ),
        wide=True,
    )


def row_name(row: DayRow) -> str:
    """A row as a reader would say it."""
    plan = {BY_PERIOD: ", a plan per period", MEAN_DAY: ", one plan for the mean day"}
    return wording.short_name(row.policy) + plan.get(row.plans, "")


def _percent(row: DayRow, first: DayRow) -> tuple[float, float]:
    unit = 100.0 / first.reward if first.reward > 0 else 0.0
    half = row.difference_half_width
    return row.difference * unit, half * unit if math.isfinite(half) else half


def _largest(work: NDArray[np.float64]) -> list[int]:
    """Task types of most work, in their own order."""
    return sorted(int(v) for v in np.argsort(-work, kind="stable")[:MOST_LINES])


def _left_out(shown: int, n: int) -> str:
    return "" if shown == n else f"The {shown} task types of most work, of {n:,}."


def _at(period: str, line: str, value: float, unit: str) -> Row:
    told = f"{wording.number(value)} {unit}"
    return {"period": period, "line": line, "value": rounded(value), "shown": told}


def _lines(
    rows: Sequence[Row], lines: list[str], result: DayComparison, told: tuple[str, str]
) -> dict[str, object]:
    """Lines over the periods, in steps: a value holds for the whole period."""
    title, text = told
    periods = list(result.day.periods)
    every = math.ceil(len(periods) / LABELS)
    axis = plain_axis(labelAngle=0, values=periods[::every])
    x = alt.X("period:N", sort=periods, title=None, axis=axis, scale=alt.Scale(domain=periods))
    y = alt.Y("value:Q", title=title, axis=plain_axis())
    colors = [color_of(COLORS[i % MOST_LINES]) for i in range(len(lines))]
    color = alt.Color("line:N", scale=alt.Scale(domain=lines, range=colors), legend=None)
    dashes = [DASHES[i % len(DASHES)] for i in range(len(lines))]
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=lines, range=dashes), legend=None)
    base = alt.Chart(ROWS).encode(x=x, y=y, color=color)
    line = base.mark_line(interpolate="step", strokeWidth=2).encode(strokeDash=dash)
    points = base.mark_point(filled=True, size=28, opacity=0).encode(
        tooltip=tips("line:Line", "period:Period", "shown:Value")
    )
    zero = alt.Chart(alt.NamedData(name="zero")).mark_rule(color=TRACK).encode(y="y:Q")
    return finished(alt.layer(zero, line, points), 260, text, rows=rows, zero=[{"y": 0}])


def _key(lines: Sequence[str]) -> tuple[Sample, ...]:
    n = range(len(lines))
    colors = [color_of(COLORS[i % MOST_LINES]) for i in n]
    dashes = [DASHES[i % len(DASHES)] for i in n]
    return tuple(map(Sample, lines, colors, dashes, [None] * len(lines)))
