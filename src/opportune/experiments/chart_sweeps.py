"""Charts over the loads of a sweep: share of the bound, reward, blocking.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    DASHES,
    INK,
    KNOWN,
    PERCENT,
    ROWS,
    SOFT,
    TRACK,
    Chart,
    Row,
    ends,
    finished,
    names,
    plain_axis,
    policy_color,
    policy_dash,
    policy_key,
    policy_shape,
    rounded,
    tips,
)
from opportune.experiments.comparison import Comparison
from opportune.experiments.metrics import half_width
from opportune.experiments.page import Sample

DOTTED = (5, 4)
"""Dash of a reference line."""

PICKED = alt.param(name="picked", value="")
"""Short name of the policy chosen in the key, empty if none is; set by ``report.js``."""


def sweep_share_chart(comparisons: Sequence[Comparison], name: str) -> Chart:
    """Share of the bound by load, a line and an interval band a policy."""
    ids = wording.policies(comparisons[0])
    rows: list[Row] = []
    for one in comparisons:
        for row in (one.row(policy) for policy in ids):
            low, high = ends(row.percent_of_bound, row.half_width)
            told = wording.percent(row.percent_of_bound, row.half_width)
            at = _at(one, row.policy, row.percent_of_bound, told)
            rows.append({**at, "low": low, "high": high})
    shares = alt.Scale(domain=_share_domain(rows), nice=False)
    axis = plain_axis(6, labelExpr=PERCENT)
    y = alt.Y("value:Q", title="share of the bound (%)", axis=axis, scale=shares)
    base = alt.Chart(ROWS).encode(x=_load_axis())
    band = (
        base.transform_filter(KNOWN)
        .mark_area(clip=True)
        .encode(
            y=alt.Y("low:Q", scale=shares),
            y2="high:Q",
            color=policy_color(ids),
            opacity=_picked(0.13, 0.02),
        )
    )
    hints = tips("policy:Policy", "=load:Load", "shown:Share of the bound")
    chart = alt.layer(band, *_lines(base, ids, y, hints)).add_params(PICKED)
    first, last = (
        f"{wording.percent(one.row(ids[0]).percent_of_bound)} at load {wording.load(one)}"
        for one in (comparisons[0], comparisons[-1])
    )
    text = (
        f"Lines: share of the bound by load for {', '.join(names(ids))}. "
        f"{wording.short_name(ids[0])} goes from {first} to {last}. All values are in the table."
    )
    return Chart(
        name=name,
        title="Share of the best possible reward, by load",
        text=text,
        caption=f"100{wording.NBSP}% is the bound at each load. Shade: 95{wording.NBSP}% interval. "
        "Choose a name above to bring its line forward.",
        spec=finished(chart, 420, text, rows=rows),
        key=policy_key(ids, lines=True),
        pick=True,
    )


def sweep_reward_chart(comparisons: Sequence[Comparison], name: str) -> Chart:
    """Reward per step by load, and the bound above it."""
    ids = wording.policies(comparisons[0])
    rows: list[Row] = []
    bounds: list[Row] = []
    for one in comparisons:
        bound = f"{wording.number(one.bound.value)} per step"
        bounds.append(_at(one, "", one.bound.value, bound))
        for policy in ids:
            reward = one.row(policy).reward
            rows.append(_at(one, policy, reward, f"{wording.number(reward)} per step"))
    y = alt.Y("value:Q", title="reward per step", axis=plain_axis(), scale=alt.Scale(zero=True))
    base = alt.Chart(ROWS).encode(x=_load_axis())
    top = alt.Chart(alt.NamedData(name="bounds")).encode(
        x=_load_axis(), y=y, tooltip=tips("=load:Load", "shown:Bound")
    )
    hints = tips("policy:Policy", "=load:Load", "shown:Reward")
    chart = alt.layer(
        top.mark_area(color=TRACK, opacity=0.7),
        top.mark_line(color=INK, strokeWidth=2.5),
        *_lines(base, ids, y, hints),
    ).add_params(PICKED)
    text = (
        "Lines: reward per step by load, below the bound, which goes from "
        f"{bounds[0]['shown']} to {bounds[-1]['shown']}."
    )
    return Chart(
        name=name,
        title="Reward and bound, by load",
        text=text,
        caption="The edge of the gray area is the bound: what no policy here can pass.",
        spec=finished(chart, 300, text, rows=rows, bounds=bounds),
        key=(Sample("Bound", INK, DASHES[0], None), *policy_key(ids, lines=True)),
    )


def sweep_blocking_chart(comparisons: Sequence[Comparison], name: str) -> Chart:
    """Blocking by load: as the bound goes by, as measured, and Erlang-B."""
    exact = all(one.blocking.method == "exact" for one in comparisons)
    subject = wording.base_policy(comparisons[0]).policy
    series = (
        "exact" if exact else "simulated",
        f"measured, {wording.short_name(subject)}",
        "Erlang-B",
    )
    rows = [row for one in comparisons for row in _blocking_rows(one, subject, series)]
    y = alt.Y(
        "value:Q", title="tasks turned away (%)", axis=plain_axis(labelExpr=PERCENT), stack=None
    )
    colors = alt.Scale(domain=list(series), range=[INK, "var(--lag)", SOFT])
    dashes = alt.Scale(domain=list(series), range=[DASHES[0], DASHES[0], DOTTED])
    base = alt.Chart(ROWS).encode(
        x=_load_axis(),
        color=alt.Color("what:N", title=None, scale=colors, legend=None),
        tooltip=tips("what:Line", "=load:Load", "shown:Tasks turned away"),
    )
    dash = alt.StrokeDash("what:N", title=None, scale=dashes, legend=None)
    measured = base.transform_filter(alt.datum.what == series[1])
    chart = alt.layer(
        base.transform_filter(alt.datum.what != series[1])
        .mark_line(strokeWidth=2)
        .encode(y=y, strokeDash=dash),
        measured.transform_filter(KNOWN)
        .mark_rule(strokeWidth=2)
        .encode(y=alt.Y("low:Q"), y2="high:Q"),
        measured.mark_point(filled=True, size=60, opacity=1).encode(y=y),
    )
    first, last = (wording.share(one.blocking.value) for one in (comparisons[0], comparisons[-1]))
    text = f"Lines: tasks turned away by load, from {first} to {last}, with Erlang-B beside it."
    return Chart(
        name=name,
        title="Tasks turned away, by load",
        text=text,
        caption="A task is turned away when too few servers are free. Erlang-B: the textbook "
        "value for arrivals in continuous time, as a reference.",
        spec=finished(chart, 300, text, rows=rows),
        key=(
            Sample(series[0], INK, DASHES[0], None),
            Sample(series[1], "var(--lag)", None, "circle"),
            Sample(series[2], SOFT, DOTTED, None),
        ),
    )


def _share_domain(rows: Sequence[Row]) -> list[float]:
    """From the lowest interval, in tens, to 100 % or the highest value: no share is higher."""
    low = min(row["value"] if row["low"] is None else row["low"] for row in rows)
    high = max(100.0, *(row["value"] for row in rows))
    return [max(0.0, 10.0 * math.floor(low / 10)), high]


def _blocking_rows(one: Comparison, subject: str, series: tuple[str, str, str]) -> list[Row]:
    place = wording.policies(one).index(subject)
    spread = half_width(one.runs.blocking[:, place])
    rows: list[Row] = []
    for what, value, width in (
        (series[0], one.blocking.value, one.blocking.half_width),
        (series[1], one.row(subject).blocking, spread),
        (series[2], one.blocking.erlang_b, 0.0),
    ):
        if value is None:
            continue
        low, high = ends(100 * value, 100 * width)
        low = None if low is None else max(low, 0.0)
        shown = wording.percent(100 * value, 100 * width if width > 0 else None)
        at = {"load": rounded(one.instance.load), "what": what, "shown": shown}
        rows.append({**at, "value": rounded(100 * value), "low": low, "high": high})
    return rows


def _at(one: Comparison, policy: str, value: float, shown: str) -> Row:
    return {
        "load": rounded(one.instance.load),
        "policy": wording.short_name(policy) if policy else "",
        "value": rounded(value),
        "shown": shown,
    }


def _load_axis() -> alt.X:
    return alt.X(
        "load:Q",
        title="load",
        scale=alt.Scale(zero=False, nice=False, padding=8),
        axis=plain_axis(8, grid=False),
    )


def _picked(strong: float, weak: float) -> Any:
    """Strong for the name chosen in the key, and for all as long as none is chosen."""
    picked = "picked == '' || picked == datum.policy"
    return alt.condition(picked, alt.value(strong), alt.value(weak))


def _lines(
    base: alt.Chart, ids: Sequence[str], y: alt.Y, hints: list[alt.Tooltip]
) -> tuple[alt.Chart, alt.Chart]:
    """A line and its points for each policy."""
    strong = _picked(1, 0.12)
    color = policy_color(ids)
    line = base.mark_line(strokeWidth=2).encode(
        y=y, color=color, strokeDash=policy_dash(ids), opacity=strong
    )
    dots = base.mark_point(filled=True, size=55).encode(
        y=y, color=color, shape=policy_shape(ids), opacity=strong, tooltip=hints
    )
    return line, dots
