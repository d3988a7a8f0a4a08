"""Charts of a split pool: reward beside one owner, and dropped tasks, by number of sub-pools.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from opportune.experiments import wording
from opportune.experiments.chart_style import (
    DASHES,
    KNOWN,
    PERCENT,
    ROWS,
    SHAPES,
    Chart,
    Row,
    color_of,
    ends,
    finished,
    plain_axis,
    rounded,
    tips,
)
from opportune.experiments.page import Sample
from opportune.experiments.split import SplitRow, Splitting

COLORS = ("lag", "greedy", "whittle", "random", "alg-sc-lp", "headcount", "optimal", "auto")
"""Policies whose colors the lines take, one after the other."""


def line_name(row: SplitRow) -> str:
    """What a line stands for: policy, deals, tries."""
    split = row.split
    every = (
        "dealt once"
        if split.redeal is None
        else f"re-dealt every {split.redeal:,} step{'s' if split.redeal > 1 else ''}"
    )
    asks = "" if split.tries == 1 else f", asks {split.tries}"
    return f"{wording.short_name(row.policy)}, {every}{asks}"


def lines_of(result: Splitting) -> list[str]:
    """The lines of a chart, in the order of the rows."""
    return list(dict.fromkeys(line_name(row) for row in result.rows if row.split.subpools > 1))


def split_reward_chart(result: Splitting, name: str) -> Chart:
    """Reward in percent of one owner's, by number of sub-pools."""
    text = "Lines: reward in percent of one owner's by number of sub-pools. " + "; ".join(
        f"{line_name(row)}: {row.percent_of_one_owner:.1f} % with {row.split.subpools}"
        for row in result.rows
        if row.split.subpools == max(result.grid.subpools)
    )
    return Chart(
        name=name,
        title="What is left of the reward",
        text=text,
        caption="100 % is one owner of all servers, on the same tasks. Shade: 95 % interval.",
        spec=_spec(
            result,
            lambda row: (row.percent_of_one_owner, row.half_width),
            ("reward in % of one owner's", text),
        ),
        key=_key(result),
        wide=True,
    )


def split_blocking_chart(result: Splitting, name: str) -> Chart:
    """Dropped tasks in percent, by number of sub-pools."""
    text = "Lines: tasks dropped, in percent, by number of sub-pools."
    return Chart(
        name=name,
        title="Tasks that are dropped",
        text=text,
        caption="A sub-pool drops a task when too few of its own servers are free, also while "
        "others have some.",
        spec=_spec(result, lambda row: (100.0 * row.blocking, 0.0), ("dropped (%)", text)),
        key=_key(result),
        wide=True,
    )


def _spec(
    result: Splitting, value: Callable[[SplitRow], tuple[float, float]], told: tuple[str, str]
) -> Row:
    lines = lines_of(result)
    rows: list[Row] = []
    alone = {row.policy: row for row in result.rows if row.split.subpools == 1}
    of_line = {line_name(row): row.policy for row in result.rows}
    drawn = [(line, alone[of_line[line]]) for line in lines]
    drawn += [(line_name(row), row) for row in result.rows if row.split.subpools > 1]
    for line, row in drawn:
        center, half = value(row)
        low, high = ends(center, half)
        at: Row = {"line": line, "m": row.split.subpools, "value": rounded(center)}
        rows.append({**at, "low": low, "high": high, "shown": f"{center:.2f} %"})
    title, text = told
    x = alt.X("m:O", title="sub-pools", axis=plain_axis(labelAngle=0))
    y = alt.Y("value:Q", title=title, axis=plain_axis(6, labelExpr=PERCENT), scale=_scale(rows))
    base = alt.Chart(ROWS).encode(x=x)
    color = _turns(lines, alt.Color, [color_of(COLORS[i % len(COLORS)]) for i in range(len(lines))])
    hints = tips("line:Split", "=m:Sub-pools", "shown:Value")
    band = base.transform_filter(KNOWN).mark_area(opacity=0.13)
    dash = _turns(lines, alt.StrokeDash, [DASHES[i % len(DASHES)] for i in range(len(lines))])
    shape = _turns(lines, alt.Shape, [SHAPES[i % len(SHAPES)] for i in range(len(lines))])
    marks = alt.layer(
        band.encode(y=alt.Y("low:Q", scale=_scale(rows)), y2="high:Q", color=color),
        base.mark_line(strokeWidth=2).encode(y=y, color=color, strokeDash=dash),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=y, color=color, shape=shape, tooltip=hints
        ),
    )
    return finished(marks, 340, text, rows=rows)


def _turns(lines: Sequence[str], channel: Any, values: list[Any]) -> Any:
    scale = alt.Scale(domain=list(lines), range=values)
    return channel("line:N", title=None, scale=scale, legend=None)


def _scale(rows: Sequence[Row]) -> alt.Scale:
    top = max((row["high"] for row in rows if row["high"] is not None), default=1.0)
    return alt.Scale(domain=[0, top], nice=True)


def _key(result: Splitting) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            line,
            color_of(COLORS[i % len(COLORS)]),
            DASHES[i % len(DASHES)],
            SHAPES[i % len(SHAPES)],
        )
        for i, line in enumerate(lines_of(result))
    )
