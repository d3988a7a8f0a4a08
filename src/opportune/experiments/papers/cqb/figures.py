"""Pictures: rates, queues over time, and what the choice of knobs decides. Needs ``report``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from opportune.experiments.chart_style import INK, SOFT, plain_axis, rows_data
from opportune.experiments.papers.cqb.claims import LOWER_BOUND, Found
from opportune.experiments.papers.cqb.merging import Measured, Slope
from opportune.experiments.papers.cqb.plan_of_work import Setting
from opportune.experiments.papers.cqb.tables import OURS
from opportune.experiments.pictures import Panel, Picture, panel
from opportune.experiments.queue_charts import color_of

Row = dict[str, Any]
WIDE, HIGH = 470, 330
LEAST = 1e-3
"""Smallest regret that a logarithmic axis shows."""

SIGN_RULE = "sign rule"


def rates_picture(
    settings: Sequence[Setting], found: Found, slopes: Mapping[tuple[str, str], Slope | None]
) -> Picture:
    """Regret over the horizon on both axes logarithmic: hard, joint, disjoint."""
    panels = []
    for family in ("hard", "joint", "disjoint"):
        own = [
            one
            for one in settings
            if one.section == "hard" == family
            or (one.section == "rates" and one.name.startswith(f"{family} "))
        ]
        points = [
            (one.horizon, name, arm)
            for one in own
            for name, arm in found[one.section, one.name].items()
        ]
        panels.append(_rates_panel(family, points, slopes))
    caption = (
        "Regret Q(T) - Q*(T) with two standard errors; a value that is not above two of them is "
        "left out. On the hard instance the lower line is the lower bound of Theorem 10 and the "
        "upper one 2.5 / sqrt T."
    )
    return Picture("rates", "How the final regret falls with the horizon", caption, (*panels,), 2)


def _rates_panel(
    family: str,
    points: Sequence[tuple[int, str, Measured]],
    slopes: Mapping[tuple[str, str], Slope | None],
) -> Panel:
    rows = [
        {
            "T": horizon,
            "policy": name,
            "value": arm.end.value,
            "low": max(LEAST, arm.end.value - 2 * arm.end.error),
            "high": arm.end.value + 2 * arm.end.error,
        }
        for horizon, name, arm in points
        if arm.end.value > max(LEAST, 2 * arm.end.error)
    ]
    names = list(dict.fromkeys(name for _, name, _ in points))
    x = alt.X("T:Q", title="horizon T", scale=alt.Scale(type="log"), axis=_powers())
    y = alt.Y("value:Q", title="regret", scale=alt.Scale(type="log"), axis=_powers())
    color = _color(names)
    base = alt.Chart(rows_data(rows)).encode(x=x, color=color)
    layers = [
        base.mark_rule(strokeWidth=4, opacity=0.3).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(strokeWidth=1.5).encode(y=y),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=y),
    ]
    if family == "hard":
        horizons = sorted({horizon for horizon, _, _ in points})
        for factor in (0.4 * LOWER_BOUND, 2.5):
            line = [{"T": t, "value": factor / math.sqrt(t)} for t in horizons]
            layers.append(
                alt.Chart(rows_data(line)).mark_line(color=SOFT, strokeDash=[5, 4]).encode(x=x, y=y)
            )
    told = []
    for name in names:
        slope = slopes.get((family, name))
        if slope is not None:
            told.append(f"{name} T^{slope.slope:.2f} ± {slope.half_width:.2f}")
    text = "fitted: " + (", ".join(told) or "too few points above noise")
    return panel(f"{family} instances", text, alt.layer(*layers), (WIDE, HIGH))


def queues_picture(settings: Sequence[Setting], found: Found, names: Sequence[str]) -> Picture:
    """Excess over the oracle averaged up to a step, for some arms of the default section."""
    panels = []
    for one in (one for one in settings if one.section == "default"):
        arms = found[one.section, one.name]
        shown = [name for name in names if name in arms]
        panels.append(_way_panel(one.name, [arms[name] for name in shown]))
    caption = (
        "How many tasks more than with the oracle waited on average up to a step; the highest "
        "point is the transient cost. Shade: two standard errors. Symmetric logarithmic axis."
    )
    return Picture("queues", "What is paid on the way", caption, tuple(panels), 2)


def _way_panel(title: str, arms: Sequence[Measured]) -> Panel:
    rows = [
        {
            "t": int(t),
            "policy": arm.name,
            "value": float(value),
            "low": float(value - 2 * error),
            "high": float(value + 2 * error),
        }
        for arm in arms
        for t, value, error in zip(arm.grid, arm.way, arm.way_error, strict=True)
    ]
    x = alt.X("t:Q", title="step", scale=alt.Scale(type="log", nice=False), axis=_powers())
    scale = alt.Scale(type="symlog", constant=1)
    base = alt.Chart(rows_data(rows)).encode(x=x, color=_color([arm.name for arm in arms]))
    y = alt.Y("value:Q", title="tasks more than the oracle", scale=scale, axis=plain_axis(6))
    chart = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
    )
    told = ", ".join(f"{arm.name} {arm.cost.value:.2f}" for arm in arms)
    return panel(title, f"transient cost {told}", chart, (WIDE, HIGH))


def knobs_picture(settings: Sequence[Setting], found: Found) -> Picture:
    """The end against the way, for every cell of CQB-eta-2 and the default learner."""
    panels = []
    for one in (one for one in settings if one.section == "default"):
        rows = [
            {
                "policy": name,
                "kind": "ours" if name == OURS else "cqb-eta-2",
                "end": arm.end.value,
                "way": arm.excess.value,
                "low": arm.end.value - 2 * arm.end.error,
                "high": arm.end.value + 2 * arm.end.error,
            }
            for name, arm in found[one.section, one.name].items()
            if name == OURS or name.startswith("cqb-eta-2")
        ]
        color = alt.Color(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=["ours", "cqb-eta-2"], range=["var(--lag)", "var(--greedy)"]),
            legend=alt.Legend(orient="bottom"),
        )
        base = alt.Chart(rows_data(rows)).encode(
            x=alt.X(
                "way:Q", title="time-averaged excess", scale=alt.Scale(type="log"), axis=_powers()
            ),
            color=color,
        )
        chart = alt.layer(
            base.mark_rule(strokeWidth=3, opacity=0.35).encode(y=alt.Y("low:Q"), y2="high:Q"),
            base.mark_point(filled=True, size=55, opacity=1).encode(
                y=alt.Y("end:Q", title="excess at the end", axis=plain_axis(6))
            ),
        )
        own = found[one.section, one.name][OURS]
        text = f"default {own.excess.value:.2f} on the way, {own.end.value:.2f} at the end"
        panels.append(panel(one.name, text, chart, (WIDE, HIGH)))
    caption = (
        "Each mark of CQB-eta-2 is a cell: fractions, factor of the radius and ridge. Left and low "
        "is good. Bars: two standard errors."
    )
    return Picture(
        "knobs", "The end and the way: both numbers of every cell", caption, (*panels,), 2
    )


def loads_picture(settings: Sequence[Setting], found: Found) -> Picture:
    """Recorded answers of nine models at several loads."""
    rows = []
    names: list[str] = []
    for one in (one for one in settings if one.section == "loads"):
        for name, arm in found[one.section, one.name].items():
            names.append(name)
            load = dict(one.place.choice)["load"]
            rows.append({"load": load, "policy": name, "value": max(0.01, arm.mean_queue)})
    names = list(dict.fromkeys(names))
    base = alt.Chart(rows_data(rows)).encode(
        x=alt.X("load:Q", title="load", axis=plain_axis(5, grid=False)),
        y=alt.Y(
            "value:Q", title="mean waiting prompts", scale=alt.Scale(type="log"), axis=_powers()
        ),
        color=_color(names),
    )
    chart = alt.layer(
        base.mark_line(strokeWidth=1.6), base.mark_point(filled=True, size=36, opacity=1)
    )
    told = ", ".join(f"{row['policy']} {row['value']:.3g} at load {row['load']:g}" for row in rows)
    one_panel = panel("dcrouter", f"mean queue: {told}", chart, (2 * WIDE, HIGH))
    caption = "Load: share of what trying models in the order of the fitted rates can serve."
    return Picture("loads", "Real prompts, nine models", caption, (one_panel,), 1)


def _powers() -> alt.Axis:
    return plain_axis(6, format="~g", grid=True)


def _color(names: Sequence[str]) -> alt.Color:
    spare = iter(("var(--spare-1)", "var(--spare-2)", "var(--headcount)", "var(--whittle)"))
    taken: dict[str, str] = {}
    for name in names:
        color = INK if name == SIGN_RULE else color_of(name)
        while color in taken.values():
            color = next(spare, "var(--spare-3)")
            if color == "var(--spare-3)":
                break
        taken[name] = color
    scale = alt.Scale(domain=list(taken), range=list(taken.values()))
    key = alt.Legend(title=None, orient="bottom", columns=3, labelLimit=260)
    return alt.Color("policy:N", scale=scale, sort=None, legend=key, title=None)
