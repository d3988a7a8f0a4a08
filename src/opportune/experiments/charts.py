"""Charts of a comparison and of a sweep: reward, differences, blocking.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import numpy as np

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    INK,
    LINE,
    SOFT,
    TRACK,
    Chart,
    Row,
    finished,
    names,
    policy_color,
    policy_dash,
    policy_shape,
    rows_data,
)
from opportune.experiments.comparison import Comparison
from opportune.experiments.metrics import half_width

ROW = 46
"""Height of a row with a name above its mark, in pixels."""

NAME_UP, MARK_DOWN = -9, 9
"""How far the name stands above the middle of its row, and the mark below it."""


def reward_chart(comparison: Comparison, name: str) -> Chart:
    """Share of the bound by policy, with 95 % intervals."""
    order = [row.policy for row in wording.ranked(comparison)]
    rows: list[Row] = []
    for row in wording.ranked(comparison):
        low, high = _ends(row.percent_of_bound, row.half_width)
        rows.append(
            {
                "policy": wording.short_name(row.policy),
                "percent": _rounded(row.percent_of_bound),
                "low": low,
                "high": high,
                "all": 100,
                "shown": f"{wording.percent(row.percent_of_bound)} "
                f"{wording.interval(row.half_width)}",
                "reward": f"{wording.number(row.reward)} per step",
                "left": f"at most {wording.points(row.left_to_gain)}",
            }
        )
    top = max([100.0, *(row["high"] for row in rows if row["high"] is not None)])
    scale = alt.Scale(domain=[0, top], nice=False)
    axis = alt.Axis(values=[0, 25, 50, 75, 100], domain=False, ticks=False, labelExpr=PERCENT)
    tips = [
        alt.Tooltip("policy:N", title="Policy"),
        alt.Tooltip("shown:N", title="Share of the bound"),
        alt.Tooltip("reward:N", title="Reward"),
        alt.Tooltip("left:N", title="Left to gain"),
    ]
    x = alt.X("percent:Q", scale=scale, axis=axis, title="share of the bound (%)")
    base = alt.Chart(rows_data(rows)).encode(y=_row(), tooltip=tips)
    bar = {"height": 12, "yOffset": MARK_DOWN, "cornerRadiusEnd": 2}
    chart = alt.layer(
        base.mark_bar(color=TRACK, **bar).encode(x=alt.X("all:Q", scale=scale)),
        base.mark_bar(**bar).encode(x=x, color=policy_color(order)),
        _interval(base, yOffset=MARK_DOWN),
        _names_above(base),
        _values_above(base),
    )
    told = "; ".join(f"{row['policy']} {row['shown']}" for row in rows)
    text = f"Bars: share of the bound by policy. {told}."
    return Chart(
        name=name,
        title="Reward by policy",
        text=text,
        caption="Colored: earned. Gray: what is left up to the bound, which no policy can pass. "
        "The whisker is the 95 % interval.",
        spec=finished(chart, alt.Step(ROW), text),
    )


def difference_chart(comparison: Comparison, name: str) -> Chart | None:
    """Paired differences to the base policy, with 95 % intervals; None with one policy."""
    base_row = wording.base_policy(comparison)
    ranked = [row for row in wording.ranked(comparison) if row.policy != base_row.policy]
    if not ranked:
        return None
    rows: list[Row] = []
    for row in ranked:
        low, high = _ends(row.difference, row.difference_half_width)
        rows.append(
            {
                "policy": wording.short_name(row.policy),
                "difference": _rounded(row.difference),
                "low": low,
                "high": high,
                "shown": f"{wording.difference(row.difference)} "
                f"{wording.interval(row.difference_half_width)}",
            }
        )
    other = wording.short_name(base_row.policy)
    tips = [
        alt.Tooltip("policy:N", title="Policy"),
        alt.Tooltip("shown:N", title=f"Minus {other} (points)"),
    ]
    base = alt.Chart(rows_data(rows)).encode(y=_row(), tooltip=tips)
    axis = alt.Axis(domain=False, ticks=False, tickCount=5)
    x = alt.X("difference:Q", axis=axis, title=f"points of the bound, minus {other}")
    chart = alt.layer(
        base.mark_rule(color=INK, strokeWidth=1).encode(x=alt.datum(0)),
        _interval(base, yOffset=MARK_DOWN, strokeWidth=3, opacity=0.55),
        base.mark_point(filled=True, size=90, opacity=1, yOffset=MARK_DOWN).encode(
            x=x, color=policy_color([row.policy for row in ranked])
        ),
        _names_above(base),
        _values_above(base),
    )
    told = "; ".join(f"{row['policy']} {row['shown']}" for row in rows)
    text = f"Dots: share of the bound minus that of {other}, in points. {told}."
    return Chart(
        name=name,
        title=f"Difference to {other}",
        text=text,
        caption=f"Left of the line: earns less than {other}. All policies met the same tasks, so "
        "the difference is known better than each share. A bar that crosses the line is no "
        "clear difference.",
        spec=finished(chart, alt.Step(ROW), text),
    )


def blocking_chart(comparison: Comparison, name: str) -> Chart:
    """Measured blocking by policy, beside the exact value and Erlang-B."""
    runs, blocking = comparison.runs, comparison.blocking
    rows: list[Row] = []
    for p, policy in enumerate(comparison.settings.policy_ids):
        measured = comparison.row(policy).blocking
        width = half_width(runs.blocking[:, p])
        low, high = _ends(100 * measured, 100 * width)
        shown = f"{wording.share(measured)} {wording.interval(100 * width)}"
        row = {"policy": wording.short_name(policy), "blocking": _rounded(100 * measured)}
        rows.append({**row, "low": low, "high": high, "shown": shown})
    base = alt.Chart(rows_data(rows)).encode(
        y=_row(),
        tooltip=[
            alt.Tooltip("policy:N", title="Policy"),
            alt.Tooltip("shown:N", title="Tasks turned away"),
        ],
    )
    references = _references(comparison)
    axis = alt.Axis(domain=False, ticks=False, tickCount=5)
    x = alt.X(
        "blocking:Q",
        axis=axis,
        title="tasks turned away (% of arrivals)",
        scale=alt.Scale(zero=False, nice=True, padding=24),
    )
    rules = alt.Chart(rows_data(references)).encode(
        x=alt.X("value:Q"),
        color=alt.Color(
            "what:N",
            title=None,
            scale=alt.Scale(domain=[one["what"] for one in references], range=[INK, SOFT]),
            legend=alt.Legend(orient="bottom", direction="vertical", labelLimit=280),
        ),
        strokeDash=alt.StrokeDash(
            "what:N",
            title=None,
            scale=alt.Scale(domain=[one["what"] for one in references], range=[[1, 0], [5, 4]]),
        ),
        tooltip=[alt.Tooltip("what:N", title="Reference")],
    )
    ids = list(comparison.settings.policy_ids)
    chart = alt.layer(
        rules.mark_rule(strokeWidth=1.5),
        _interval(base, yOffset=MARK_DOWN, strokeWidth=3, opacity=0.55),
        base.mark_point(filled=True, size=90, opacity=1, yOffset=MARK_DOWN).encode(
            x=x, color=policy_color(ids)
        ),
        _names_above(base),
        _values_above(base),
    ).resolve_scale(color="independent")
    told = "; ".join(one["what"] for one in references)
    measured_text = "; ".join(f"{row['policy']} {row['shown']}" for row in rows)
    text = f"Dots: tasks turned away by policy. {measured_text}. Lines: {told}."
    return Chart(
        name=name,
        title="Tasks turned away",
        text=text,
        caption=_blocking_caption(comparison),
        spec=finished(chart, alt.Step(ROW), text),
    )


def _references(comparison: Comparison) -> list[Row]:
    blocking = comparison.blocking
    known = "exact" if blocking.method == "exact" else "used in the bound, simulated"
    rows: list[Row] = [
        {
            "value": _rounded(100 * blocking.value),
            "what": f"{known}: {wording.share(blocking.value)}",
        }
    ]
    if blocking.erlang_b is not None:
        what = f"Erlang-B: {wording.share(blocking.erlang_b)}"
        rows.append({"value": _rounded(100 * blocking.erlang_b), "what": what})
    return rows


def _blocking_caption(comparison: Comparison) -> str:
    instance = comparison.instance
    if instance.has_forbidden_pairs or instance.one_k is None:
        first = "Some pairs are forbidden or needs differ, so blocking may differ by policy. "
    else:
        first = "Every policy here serves whenever it can, so all turn away the same tasks. "
    if comparison.blocking.erlang_b is None:
        return first + "Erlang-B has no meaning here: the servers per task differ by type."
    return first + (
        "Erlang-B is the textbook value for continuous time; a step clock and other durations "
        "give another number."
    )


PERCENT = "datum.value + ' %'"
"""Label of an axis in percent."""


def sweep_share_chart(comparisons: Sequence[Comparison], name: str) -> Chart:
    """Share of the bound by load, a line and an interval band a policy."""
    ids = comparisons[0].settings.policy_ids
    rows: list[Row] = []
    for one in comparisons:
        for policy in ids:
            row = one.row(policy)
            low, high = _ends(row.percent_of_bound, row.half_width)
            rows.append(
                {
                    "load": _rounded(one.instance.load),
                    "policy": wording.short_name(policy),
                    "value": _rounded(row.percent_of_bound),
                    "low": low,
                    "high": high,
                    "shown": f"{wording.percent(row.percent_of_bound)} "
                    f"{wording.interval(row.half_width)}",
                }
            )
    axis = alt.Axis(domain=False, ticks=False, tickCount=6, labelExpr=PERCENT)
    y = alt.Y("value:Q", title="share of the bound (%)", axis=axis, scale=alt.Scale(zero=False))
    base = alt.Chart(rows_data(rows)).encode(x=_load_axis(comparisons))
    picked = alt.selection_point(name="picked", fields=["policy"], bind="legend")
    band = (
        base.transform_filter("isValid(datum.low)")
        .mark_area()
        .encode(
            y=alt.Y("low:Q"),
            y2="high:Q",
            color=policy_color(ids),
            opacity=alt.condition(picked, alt.value(0.13), alt.value(0.02)),
        )
    )
    line = _lines(base, ids, y, picked)
    tips = [
        alt.Tooltip("policy:N", title="Policy"),
        alt.Tooltip("load:Q", title="Load"),
        alt.Tooltip("shown:N", title="Share of the bound"),
    ]
    chart = alt.layer(band, line, _dots(base, ids, y, picked).encode(tooltip=tips))
    shares = [one.row(ids[0]).percent_of_bound for one in comparisons]
    text = (
        f"Lines: share of the bound by load for {', '.join(names(ids))}. "
        f"{wording.short_name(ids[0])} runs from {wording.percent(shares[0])} at load "
        f"{wording.load(comparisons[0])} to {wording.percent(shares[-1])} at load "
        f"{wording.load(comparisons[-1])}. All values are in the table below."
    )
    return Chart(
        name=name,
        title="Share of the best possible reward, by load",
        text=text,
        caption="100 % is the bound of each load. The shade is the 95 % interval. Choose names "
        "in the legend to bring them forward (with shift for several).",
        spec=finished(chart, 360, text),
    )


def sweep_reward_chart(comparisons: Sequence[Comparison], name: str) -> Chart:
    """Reward per step by load, and the bound above it."""
    ids = comparisons[0].settings.policy_ids
    rows: list[Row] = [
        {
            "load": _rounded(one.instance.load),
            "policy": wording.short_name(policy),
            "value": _rounded(one.row(policy).reward),
            "shown": f"{wording.number(one.row(policy).reward)} per step",
        }
        for one in comparisons
        for policy in ids
    ]
    bounds: list[Row] = [
        {
            "load": _rounded(one.instance.load),
            "value": _rounded(one.bound.value),
            "shown": f"{wording.number(one.bound.value)} per step",
            "what": "the bound",
        }
        for one in comparisons
    ]
    axis = alt.Axis(domain=False, ticks=False, tickCount=5)
    y = alt.Y("value:Q", title="reward per step", axis=axis, scale=alt.Scale(zero=True))
    x = _load_axis(comparisons)
    base = alt.Chart(rows_data(rows)).encode(x=x)
    tips = [
        alt.Tooltip("policy:N", title="Policy"),
        alt.Tooltip("load:Q", title="Load"),
        alt.Tooltip("shown:N", title="Reward"),
    ]
    bound = alt.Chart(rows_data(bounds)).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("what:N", title="Line"),
            alt.Tooltip("load:Q", title="Load"),
            alt.Tooltip("shown:N", title="Bound"),
        ],
    )
    picked = alt.selection_point(name="picked", fields=["policy"], bind="legend")
    chart = alt.layer(
        bound.mark_area(color=TRACK, opacity=0.8),
        bound.mark_line(color=INK, strokeWidth=2),
        _lines(base, ids, y, picked),
        _dots(base, ids, y, picked).encode(tooltip=tips),
    )
    text = (
        "Lines: reward per step by load, below the bound, which goes from "
        f"{bounds[0]['shown']} to {bounds[-1]['shown']}."
    )
    return Chart(
        name=name,
        title="Reward and bound, by load",
        text=text,
        caption="The black (in the dark: white) line is the bound: what no policy can pass.",
        spec=finished(chart, 300, text),
    )


def sweep_blocking_chart(comparisons: Sequence[Comparison], name: str) -> Chart:
    """Blocking by load: as used in the bound, as measured, and Erlang-B."""
    base_policy = wording.base_policy(comparisons[0])
    place = comparisons[0].settings.policy_ids.index(base_policy.policy)
    known, measured = "exact", f"measured, {wording.short_name(base_policy.policy)}"
    if any(one.blocking.method != "exact" for one in comparisons):
        known = "used in the bound"
    series = (known, measured, "Erlang-B")
    rows: list[Row] = []
    for one in comparisons:
        width = half_width(one.runs.blocking[:, place])
        own = one.row(base_policy.policy).blocking
        for what, value, spread in (
            (known, one.blocking.value, one.blocking.half_width),
            (measured, own, width),
            ("Erlang-B", one.blocking.erlang_b, 0.0),
        ):
            if value is None:
                continue
            low, high = _ends(100 * value, 100 * spread)
            shown = wording.share(value)
            if spread > 0:
                shown += f" {wording.interval(100 * spread)}"
            at = {"load": _rounded(one.instance.load), "what": what, "shown": shown}
            rows.append({**at, "value": _rounded(100 * value), "low": low, "high": high})
    axis = alt.Axis(domain=False, ticks=False, tickCount=5, labelExpr=PERCENT)
    y = alt.Y("value:Q", title="tasks turned away (%)", axis=axis)
    color = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=list(series), range=[INK, "var(--lag)", SOFT]),
        legend=alt.Legend(orient="bottom", labelLimit=220),
    )
    dash = alt.StrokeDash(
        "what:N",
        title=None,
        scale=alt.Scale(domain=list(series), range=[[1, 0], [1, 0], [5, 4]]),
    )
    base = alt.Chart(rows_data(rows)).encode(x=_load_axis(comparisons), color=color)
    only_measured = base.transform_filter(alt.datum.what == measured)
    tips = [
        alt.Tooltip("what:N", title="Line"),
        alt.Tooltip("load:Q", title="Load"),
        alt.Tooltip("shown:N", title="Tasks turned away"),
    ]
    chart = alt.layer(
        base.transform_filter(alt.datum.what != measured)
        .mark_line(strokeWidth=2)
        .encode(y=y, strokeDash=dash, tooltip=tips),
        only_measured.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2)
        .encode(y=alt.Y("low:Q"), y2="high:Q"),
        only_measured.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=tips),
    )
    ends = [wording.share(one.blocking.value) for one in (comparisons[0], comparisons[-1])]
    text = f"Lines: tasks turned away by load, from {ends[0]} to {ends[1]}, with Erlang-B."
    return Chart(
        name=name,
        title="Tasks turned away, by load",
        text=text,
        caption="A task is turned away when too few servers are free. Erlang-B: the textbook "
        "value for continuous time, as a reference.",
        spec=finished(chart, 300, text),
    )
