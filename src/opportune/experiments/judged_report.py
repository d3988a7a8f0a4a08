"""Sections of the page of a replay: simulated, recorded and off-policy side by side.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

import altair as alt
import numpy as np

from opportune.experiments import page, report_sections, wording
from opportune.experiments.chart_style import (
    INK,
    MARK_DOWN,
    ROW,
    ROWS,
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
from opportune.experiments.off_policy import OffPolicy
from opportune.experiments.page import Html, Sample
from opportune.experiments.recorded import Recorded
from opportune.experiments.replay import Replay, ReplayRow
from opportune.learning.evaluation.estimates import Mean
from opportune.model.spelling import counted

SHAPES = {"simulated": "circle", "recorded": "square", "off-policy": "diamond"}
"""The point of each way of asking."""

STATES = (
    "Off-policy estimates are about single decisions at the log's own states: the servers that "
    "were busy then. A policy that is followed makes other servers busy, which no estimate from "
    "the log can see: one that saves good servers for later gets no credit here, one that takes "
    "them at once is not charged for it. That is what the simulation is for."
)


def width(half_width: float) -> str:
    """A half width in the digits of the rewards, or that there is none: one run has none."""
    return f"±{wording.NBSP}{half_width:.4f}" if np.isfinite(half_width) else "no interval"


def judged_sections(result: Replay, shown: list[Chart]) -> list[Html]:
    """What the log itself says of each policy; nothing if it holds neither way.

    Args:
        result: The replay.
        shown: Charts of the page; those of the sections are added.
    """
    off = result.off_policy
    if result.recorded is None and (off is None or not off.n):
        return []
    parts = [*report_sections.figures([side_by_side(result)], shown)]
    if result.recorded is not None:
        parts.append(_recorded_table(result.recorded))
    if off is not None and off.n:
        parts += [_off_policy_table(off), _support_table(off)]
        parts.append(page.element("p", STATES))
    intro = (
        "Three ways to ask, as far as the log holds what they need. Plans that are judged by its "
        f"outcomes were {_made_on(result)}."
    )
    return [page.section("What the log itself says of them", parts, intro)]


def side_by_side(result: Replay) -> Chart:
    """Reward per task that was served, each policy in up to three ways."""
    rows = _rows(result)
    base = alt.Chart(ROWS).encode(
        y=row_of_policy(), tooltip=tips("policy:Policy", "shown:Reward per served task")
    )
    x = alt.X(
        "reward:Q", title="reward per served task", axis=plain_axis(), scale=alt.Scale(zero=False)
    )
    shape = alt.Shape(
        "way:N", scale=alt.Scale(domain=[*SHAPES], range=[*SHAPES.values()]), legend=None
    )
    dots = base.mark_point(filled=True, size=90, opacity=1, yOffset=MARK_DOWN).encode(
        x=x, color=alt.Color("color:N", scale=None, legend=None), shape=shape
    )
    told = "; ".join(f"{row['policy']} {row['shown']}" for row in rows)
    text = f"Marks: reward per served task. {told}."
    used = {row["way"] for row in rows}
    return Chart(
        name="side-by-side",
        title="Simulated, recorded, off-policy",
        text=text,
        caption="Lines: 95 % intervals. Simulated: noise of the simulation and of the scores. "
        "Recorded and off-policy (doubly robust): blocks of consecutive tasks. Tasks that nobody "
        "served are left out, since a decision that was not made cannot be judged.",
        spec=finished(
            named_rows(base, [row_interval(base, color=INK, strokeWidth=2), dots]),
            ROW * len(rows),
            text,
            rows=rows,
        ),
        key=tuple(Sample(way, INK, None, SHAPES[way]) for way in SHAPES if way in used),
        wide=True,
    )


def _rows(result: Replay) -> list[Row]:
    off, record = result.off_policy, result.recorded
    estimates = {} if off is None else {row.policy: row.estimates for row in off.rows}
    records = {} if record is None else {row.policy: row for row in record.rows}
    rows = []
    if off is not None and off.n:
        rows.append(_row("The log", "off-policy", off.logged, INK))
    for one in result.simulated:
        name, color = wording.short_name(one.policy), color_of(one.policy)
        rows.append(_row(name, "simulated", _per_served(one), color))
        if one.policy in records:
            found = records[one.policy]
            served = max(1.0 - found.unserved, 1e-12)
            mean = Mean(found.reward.value / served, found.reward.half_width / served)
            rows.append(_row(name, "recorded", mean, color))
        if one.policy in estimates and estimates[one.policy].supported:
            rows.append(_row(name, "off-policy", estimates[one.policy].dr, color))
    return rows


def _row(name: str, way: str, mean: Mean, color: str) -> Row:
    low, high = ends(mean.value, mean.half_width)
    return {
        "policy": f"{name}, same decisions" if color == INK else f"{name}, {way}",
        "way": way,
        "reward": rounded(mean.value),
        "low": low,
        "high": high,
        "shown": f"{mean.value:.4f} {width(mean.half_width)}",
        "color": color,
    }


def _per_served(row: ReplayRow) -> Mean:
    served = max(1.0 - row.unserved, 1e-12)
    half = float(np.hypot(row.half_width, row.score_half_width))
    return Mean(row.reward / served, half / served)


def _made_on(result: Replay) -> str:
    share = result.rules.train
    return (
        "made on all of them" if share == 0 else f"made on its first {100 * share:g}{wording.NBSP}%"
    )


def _recorded_table(result: Recorded) -> Html:
    first = wording.short_name(result.rows[0].policy)
    rows = []
    if result.logged is not None:
        rows.append(["The log itself", *_cells(result.logged), "", "", "", "", ""])
    for place, row in enumerate(result.rows):
        beside = ["", ""] if row.difference is None else _cells(row.difference, "+")
        rival = ["", ""] if place == 0 else _cells(row.rival, "+")
        name = wording.short_name(row.policy)
        rows.append([name, *_cells(row.reward), wording.share(row.unserved), *beside, *rival])
    head = ["Policy", "Reward per task", "95 %", "Unserved", "Beside the log", "95 %"]
    head += [f"Beside {first}", "95 %"]
    caption = (
        f"On recorded outcomes: {counted(result.n, 'task')} as they came, paired; intervals from "
        f"blocks of {counted(result.block, 'task')}"
    )
    return page.table(caption, head, rows)


def _off_policy_table(result: OffPolicy) -> Html:
    rows = [["The log itself", *_cells(result.logged), *[""] * 6]]
    for row in result.rows:
        found, name = row.estimates, wording.short_name(row.policy)
        if not found.supported:
            rows.append([name, "no support", *[""] * 7])
            continue
        means = [cell for one in (found.ips, found.snips, found.dr) for cell in _cells(one)]
        rows.append([name, *means, *_cells(found.difference, "+")])
    head = ["Policy", "IPS", "95 %", "SNIPS", "95 %", "DR", "95 %", "DR beside the log", "95 %"]
    caption = (
        f"Off-policy: outcome per decision at the log's states, {counted(result.n, 'decision')}; "
        f"intervals from blocks of {counted(result.block, 'decision')}"
    )
    return page.table(caption, head, rows)


def _support_table(result: OffPolicy) -> Html:
    rows = [
        [
            wording.short_name(row.policy),
            f"{row.estimates.weight.value:.3f}",
            width(row.estimates.weight.half_width),
            f"{row.estimates.effective:.0f}",
            f"{row.estimates.largest:.1f}",
            wording.share(row.estimates.agree),
            wording.share(row.estimates.clipped),
        ]
        for row in result.rows
    ]
    head = [
        "Policy",
        "Mean weight",
        "95 %",
        "Effective decisions",
        "Largest weight",
        "Agree",
        "Cut",
    ]
    clip = result.rules.clip
    told = "no weight is cut" if clip is None else f"weights are cut at {clip:g}"
    caption = f"What the estimates rest on: a mean weight of 1 is full support; {told}"
    return page.table(caption, head, rows)


def _cells(mean: Mean, sign: str = "") -> list[str]:
    value = f"{mean.value:{sign}.4f}"
    return [wording.signed(value) if sign else value, width(mean.half_width)]
