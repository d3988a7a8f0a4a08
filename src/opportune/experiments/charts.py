"""Charts of one comparison: reward by policy, paired differences, blocking.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    INK,
    MARK_DOWN,
    PERCENT,
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
    policy_color,
    rounded,
    row_interval,
    row_of_policy,
    tips,
)
from opportune.experiments.comparison import Comparison, PolicyResult
from opportune.experiments.metrics import half_width

FAR = 2.5
"""A policy this many times further off than the next one is marked at the edge of the scale."""

ARROWS = ("triangle-left", "triangle-right")
"""Marks of what lies beyond the left and the right edge."""

FAINT: Row = {"strokeWidth": 3, "opacity": 0.55}
"""An interval behind a dot."""


def reward_chart(comparison: Comparison, name: str) -> Chart:
    """Share of the bound by policy, with 95 % intervals."""
    ranked = wording.ranked(comparison)
    rows: list[Row] = []
    for row in ranked:
        low, high = ends(row.percent_of_bound, row.half_width)
        told = wording.percent(row.percent_of_bound, row.half_width)
        rows.append(
            {
                "policy": wording.short_name(row.policy),
                "percent": rounded(row.percent_of_bound),
                "low": low,
                "high": high,
                "all": 100,
                "shown": told,
                "reward": f"{wording.number(row.reward)} per step",
                "left": f"at most {wording.points(row.left_to_gain)}",
            }
        )
    top = max([100.0, *(row["high"] for row in rows if row["high"] is not None)])
    scale = alt.Scale(domain=[0, top], nice=False)
    axis = plain_axis(values=[0, 25, 50, 75, 100], labelExpr=PERCENT)
    hints = tips("policy:Policy", "shown:Share of the bound", "reward:Reward", "left:Left to gain")
    base = alt.Chart(ROWS).encode(y=row_of_policy(), tooltip=hints)
    thick: Row = {"height": 12, "yOffset": MARK_DOWN, "cornerRadiusEnd": 2}
    x = alt.X("percent:Q", scale=scale, axis=axis, title="share of the bound (%)")
    marks = [
        base.mark_bar(color=TRACK, **thick).encode(x=alt.X("all:Q", scale=scale)),
        base.mark_bar(**thick).encode(x=x, color=policy_color([one.policy for one in ranked])),
        *_intervals(base, rows, strokeWidth=2, opacity=1),
    ]
    tight = _tightest(comparison)
    limit = {} if tight is None else {"limit": [{"at": rounded(tight)}]}
    if limit:
        line = alt.Chart(alt.NamedData(name="limit")).mark_rule(color=INK, strokeDash=[5, 4])
        marks.append(line.encode(x=alt.X("at:Q", scale=scale)))
    text = "Bars: share of the bound by policy. " + _told(rows)
    return Chart(
        name=name,
        title="Reward by policy",
        text=text,
        caption="Colored: earned. Gray: what is left up to the bound, which no policy can pass. "
        f"The whisker is the 95{wording.NBSP}% interval."
        + ("" if tight is None else f" Dashed: the tightest bound, {wording.percent(tight)}."),
        spec=finished(named_rows(base, marks), ROW * len(rows), text, rows=rows, **limit),
    )


def _tightest(comparison: Comparison) -> float | None:
    """The lowest true bound in percent of the one that shares refer to; None if it is that."""
    values = [bound.value for bound in comparison.bounds if bound.label != "surrogate"]
    base = comparison.bound.value
    lowest = min([base, *values])
    return 100 * lowest / base if 0 < lowest < base * (1 - 1e-9) else None


def difference_chart(comparison: Comparison, name: str) -> Chart | None:
    """Paired differences to the base policy, with 95 % intervals; None with one policy."""
    subject = wording.base_policy(comparison)
    ranked = [row for row in wording.ranked(comparison) if row.policy != subject.policy]
    if not ranked:
        return None
    rows = _difference_rows(ranked)
    other = wording.short_name(subject.policy)
    hints = tips("policy:Policy", f"shown:Minus {other}")
    base = alt.Chart(ROWS).encode(y=row_of_policy(), tooltip=hints)
    least, most = _near(rows)
    x = alt.X(
        "at:Q",
        axis=plain_axis(),
        title=f"points of the bound, minus {other}",
        scale=alt.Scale(domain=[least, most], clamp=True),
    )
    beyond = alt.Shape(
        "beyond:N",
        legend=None,
        scale=alt.Scale(domain=["no", "left", "right"], range=["circle", *ARROWS]),
    )
    for row in rows:
        row["beyond"] = "left" if row["at"] < least else "right" if row["at"] > most else "no"
    marks = [
        alt.Chart(alt.NamedData(name="zero")).mark_rule(color=INK).encode(x=alt.X("zero:Q")),
        *_intervals(base.transform_filter("datum.beyond == 'no'"), rows),
        base.mark_point(filled=True, size=90, opacity=1, yOffset=MARK_DOWN).encode(
            x=x, shape=beyond, color=policy_color([row.policy for row in ranked])
        ),
    ]
    far = [row["beyond"] != "no" for row in rows]
    text = f"Dots: share of the bound minus that of {other}, in points. " + _told(rows)
    return Chart(
        name=name,
        title=f"Difference to {other}",
        text=text,
        caption=f"Left of the line: earns less than {other}. All policies met the same tasks, so "
        "a difference is known better than a share. A whisker across the line: no clear "
        "difference." + (" An arrow: beyond the scale." if any(far) else ""),
        spec=finished(
            named_rows(base, marks), ROW * len(rows), text, rows=rows, zero=[{"zero": 0}]
        ),
    )


def _intervals(base: alt.Chart, rows: Sequence[Row], **mark: Any) -> list[alt.Chart]:
    """Whiskers, if any row has an interval: Vega warns of a scale without numbers."""
    if all(row["low"] is None for row in rows):
        return []
    return [row_interval(base, color=INK, **(FAINT | mark))]


def _difference_rows(ranked: Sequence[PolicyResult]) -> list[Row]:
    rows: list[Row] = []
    for row in ranked:
        low, high = ends(row.difference, row.difference_half_width)
        rows.append(
            {
                "policy": wording.short_name(row.policy),
                "at": rounded(row.difference),
                "low": low,
                "high": high,
                "shown": wording.apart(row),
            }
        )
    return rows


def _near(rows: Sequence[Row]) -> tuple[float, float]:
    """The part of the axis that is shown: one policy far from all others does not squeeze them."""
    spans = sorted(_span(row) for row in rows)
    while len(spans) > 2 and spans[-1] > FAR * spans[-2] > 0:
        spans.pop()
    kept = [row for row in rows if _span(row) <= spans[-1]]
    low = min(0.0, *(_end(row, "low") for row in kept), 0.0)
    high = max(0.0, *(_end(row, "high") for row in kept), 0.0)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def _span(row: Row) -> float:
    return max(abs(_end(row, "low")), abs(_end(row, "high")))


def _end(row: Row, end: str) -> float:
    """An end of the interval, or the value itself where there is none."""
    return float(row["at"] if row[end] is None else row[end])


def blocking_chart(comparison: Comparison, name: str) -> Chart:
    """Measured blocking, beside the exact value and Erlang-B.

    One row for all policies where they cannot differ, else one a policy.
    """
    rows = _measured_rows(comparison)
    rows += [
        {"policy": what, "blocking": rounded(100 * value), "shown": wording.share(value)}
        | dict(zip(("low", "high"), ends(100 * value, 100 * width), strict=True))
        for what, value, width in _references(comparison)
    ]
    hints = tips("policy:What", "shown:Tasks turned away")
    base = alt.Chart(ROWS).encode(y=row_of_policy(), tooltip=hints)
    axis = plain_axis(labelExpr=PERCENT)
    x = alt.X("blocking:Q", axis=axis, title="tasks turned away (% of arrivals)")
    dots = base.mark_point(filled=True, size=90, opacity=1, yOffset=MARK_DOWN)
    colors = {row["policy"]: row.pop("color", INK) for row in rows}
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    marks = [
        *_intervals(base, rows),
        dots.encode(x=x, color=alt.Color("policy:N", scale=scale, legend=None)),
    ]
    text = f"Dots: tasks turned away, in percent of arrivals. {_told(rows)}"
    return Chart(
        name=name,
        title="Tasks turned away",
        text=text,
        caption=_blocking_caption(comparison),
        spec=finished(named_rows(base, marks), ROW * len(rows), text, rows=rows),
    )


def _measured_rows(comparison: Comparison) -> list[Row]:
    instance, ids = comparison.instance, wording.policies(comparison)
    alike = instance.one_k is not None and not instance.has_forbidden_pairs
    rows: list[Row] = []
    for p, policy in enumerate(ids[:1] if alike else ids):
        measured = 100 * comparison.row(policy).blocking
        width = 100 * half_width(comparison.runs.blocking[:, p])
        low, high = ends(measured, width)
        rows.append(
            {
                "policy": "Measured, every policy" if alike else wording.short_name(policy),
                "blocking": rounded(measured),
                "low": low,
                "high": high,
                "shown": wording.percent(measured, width),
                "color": "var(--price)" if alike else color_of(policy),
            }
        )
    return rows


def _references(comparison: Comparison) -> list[tuple[str, float, float]]:
    """Name, value and half width: the exact blocking and Erlang-B, as far as they exist."""
    blocking = comparison.blocking
    found = [("Exact", blocking.value, 0.0)] if blocking.method == "exact" else []
    if blocking.erlang_b is not None:
        found.append(("Erlang-B, for reference", blocking.erlang_b, 0.0))
    return found


def _blocking_caption(comparison: Comparison) -> str:
    instance = comparison.instance
    if instance.has_forbidden_pairs or instance.one_k is None:
        first = "Types may use different servers or numbers of them, so blocking may differ by "
        first += "policy. "
    else:
        first = "Every policy here serves whenever it can, so all turn away the same tasks. "
    if comparison.blocking.erlang_b is None:
        return first + "Erlang-B has no meaning here: the servers per task differ by type."
    return first + (
        "Erlang-B is the textbook value for arrivals in continuous time, as a reference."
    )


def _told(rows: list[Row]) -> str:
    """Rows as a sentence, for a person who cannot see the chart."""
    return "; ".join(f"{row['policy']} {row['shown']}" for row in rows) + "."
