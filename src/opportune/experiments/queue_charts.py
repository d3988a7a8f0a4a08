"""Pictures of queue policies: waiting tasks, and what learning costs. Needs ``report``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from opportune.experiments.chart_style import (
    DASHES,
    INK,
    SOFT,
    Row,
    plain_axis,
    rounded,
    rows_data,
)
from opportune.experiments.pictures import Panel, Picture, panel
from opportune.experiments.queue import ORACLE, QueueComparison

COLORS = {
    "optimistic": "var(--lag)",
    "greedy-decay": "var(--lag-cheapest)",
    "cqb-eta-2": "var(--greedy)",
    "cqb-eps": "var(--whittle)",
    "cqb-opt": "var(--spare-1)",
    "acqb-ts": "var(--alg-sc-lp)",
    "acqb-ucb": "var(--alg-sc-lp-vertex)",
    "eta-forever": "var(--headcount)",
    "ucb": "var(--spare-2)",
    "q-ucb": "var(--whittle-load-aware)",
    "q-ths": "var(--auto)",
    "fifo-random": "var(--spare-3)",
    "random": "var(--random)",
    ORACLE: INK,
}
"""Color of each policy; others take the last spare one."""

WIDE, HIGH = 470, 330
"""Size of a panel in pixels."""

BAND = 2.0
"""Standard errors that a band reaches to either side."""


def color_of(policy: str) -> str:
    """The color of a policy, by the first word of a plan's name."""
    return COLORS.get(policy.split(" ")[0], "var(--spare-3)")


def queue_picture(result: QueueComparison) -> Picture:
    """Mean waiting tasks over time, and the excess over the oracle averaged up to there."""
    return Picture(
        "queues",
        "Waiting tasks over time",
        "Left: mean queue length of all runs. Right: how many tasks more than with the oracle "
        "waited on average up to then; its highest point is the transient cost. Shade: two "
        "standard errors, of the differences run by run. Both axes are logarithmic on the left.",
        (_curves(result), _excess(result)),
        2,
    )


def cost_picture(result: QueueComparison) -> Picture:
    """The end and the way: two numbers of each policy beside each other."""
    end = [(row.policy, row.queue_regret, row.standard_error) for row in result.rows]
    way = [(row.policy, row.excess, row.excess_error) for row in result.rows]
    return Picture(
        "costs",
        "What learning costs: at the end, and on the way",
        "Tasks more than with the oracle, with two standard errors. A policy that explores long "
        "can look good at the end of a run although many tasks waited on the way.",
        (
            _dots("At the end: Q(T) - Q*(T)", end),
            _dots("On the way: time average of Q(t) - Q*(t)", way),
        ),
        2,
    )


def shown_policies(result: QueueComparison) -> list[str]:
    """Policies of the curves: those asked for, then the oracle."""
    ids = [row.policy for row in result.rows if row.policy != ORACLE]
    return [*ids, ORACLE]


def _curves(result: QueueComparison) -> Panel:
    rows: list[Row] = []
    for policy in shown_policies(result):
        trace = result.traces[policy]
        mean = trace.curve.mean(axis=0)
        rows += [
            {"policy": policy, "t": int(t), "value": rounded(float(q) + 0.1)}
            for t, q in zip(trace.grid, mean, strict=True)
        ]
    chart = (
        alt.Chart(rows_data(rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=_time_axis(),
            y=alt.Y(
                "value:Q",
                title="waiting tasks + 0.1",
                axis=plain_axis(6),
                scale=alt.Scale(type="log"),
            ),
            color=_color(shown_policies(result)),
            strokeDash=_dash(shown_policies(result)),
        )
    )
    last = ", ".join(f"{row.policy} {row.final_queue:.3g}" for row in result.rows)
    return panel("Mean queue", f"waiting at the end: {last}", alt.layer(chart), (WIDE, HIGH))


def _excess(result: QueueComparison) -> Panel:
    ids = [one for one in shown_policies(result) if one != ORACLE]
    grid = result.traces[ORACLE].grid
    rows: list[Row] = []
    for policy in ids:
        apart = result.traces[policy].average - result.traces[ORACLE].average
        mean, error = _mean_and_error(apart)
        for t, value, spread in zip(grid, mean, error, strict=True):
            low, high = value - BAND * spread, value + BAND * spread
            rows.append(
                {
                    "policy": policy,
                    "t": int(t),
                    "value": rounded(value),
                    "low": rounded(low),
                    "high": rounded(high),
                }
            )
    base = alt.Chart(rows_data(rows)).encode(x=_time_axis(), color=_color(ids))
    scale = alt.Scale(type="symlog", constant=1)
    y = alt.Y("value:Q", title="tasks more than the oracle, mean so far", scale=scale)
    y = y.axis(plain_axis(6))
    chart = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=_dash(ids)),
    )
    told = ", ".join(
        f"{row.policy} {row.transient_cost:.3g} at step {row.transient_round}"
        for row in result.rows
        if row.policy != ORACLE
    )
    return panel("Excess over the oracle so far", f"highest: {told}", chart, (WIDE, HIGH))


def _dots(title: str, values: Sequence[tuple[str, float, float]]) -> Panel:
    rows: list[Row] = []
    for policy, value, error in values:
        spread = BAND * error if math.isfinite(error) else 0.0
        rows.append(
            {
                "policy": policy,
                "value": rounded(value),
                "low": rounded(value - spread),
                "high": rounded(value + spread),
            }
        )
    ids = [one[0] for one in values]
    base = alt.Chart(rows_data(rows)).encode(
        y=alt.Y("policy:N", sort=None, title=None), color=_color(ids, legend=False)
    )
    scale = alt.Scale(type="symlog", constant=0.1)
    chart = alt.layer(
        alt.Chart(rows_data([{"value": 0}])).mark_rule(color=SOFT).encode(x="value:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.4).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q"
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=alt.X("value:Q", scale=scale, title="tasks", axis=plain_axis(6))
        ),
    )
    told = ", ".join(f"{policy} {value:.3g}" for policy, value, _ in values)
    return panel(title, told, chart, (WIDE, alt.Step(26)))


def _mean_and_error(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(values.shape[1])
    return values.mean(axis=0), error


def _time_axis() -> alt.X:
    scale = alt.Scale(type="log", nice=False)
    return alt.X("t:Q", title="step", scale=scale, axis=plain_axis(5, grid=False, format="~s"))


def _color(policies: Sequence[str], legend: bool = True) -> alt.Color:
    scale = alt.Scale(domain=list(policies), range=[color_of(one) for one in policies])
    key = alt.Legend(title=None, orient="bottom", columns=4) if legend else None
    return alt.Color("policy:N", scale=scale, sort=None, legend=key, title=None)


def _dash(policies: Sequence[str]) -> alt.StrokeDash:
    dashes = [DASHES[i % len(DASHES)] for i in range(len(policies))]
    scale = alt.Scale(domain=list(policies), range=dashes)
    return alt.StrokeDash("policy:N", scale=scale, legend=None, title=None)
