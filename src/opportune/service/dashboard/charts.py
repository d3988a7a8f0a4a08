"""Charts of the dashboard as Vega-Lite, without data: the page puts ``rows`` in and colors.

A color is written ``var(--name)``; the page replaces it by the value of its style, light or dark.
"""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

SOFT, LINE, INK = "var(--ink-soft)", "var(--line)", "var(--ink)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"

CONFIG: Spec = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelLimit": 110,
        "labelOverlap": True,
        "labelSeparation": 8,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelLimit": 260,
    },
}
"""Shared by all charts."""


NAMES: Spec = {"ticks": False, "domain": False}
VALUES: Spec = {"tickCount": 5, "domain": False, "ticks": False, "format": ".3~g"}
"""Axes."""

FRAME: Spec = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "data": {"name": "rows"},
}
"""As wide as its place, with the rows that the page puts in."""


def charts() -> dict[str, Spec]:
    """All charts by the name of their place in the page."""
    return {
        "reward-chart": _over_time(
            "Reward per second",
            [
                ("rate", "score of picks", "line-rate", [1, 0]),
                ("mean", "mean", "line-mean", [1, 0]),
                ("bound", "bound", "line-bound", [7, 4]),
            ],
        ),
        "blocking-chart": _over_time(
            "Blocked, % of tasks",
            [
                ("share", "blocked", "line-rate", [1, 0]),
                ("mean", "mean", "line-mean", [1, 0]),
                ("theory", "theory", "line-bound", [7, 4]),
            ],
        ),
        "heat-chart": _heat(),
        "capacity-chart": _bars("place", "price", "Price, reward/s", "server"),
        "demand-chart": _demand(),
    }


def _over_time(title: str, lines: list[tuple[str, str, str, list[int]]]) -> Spec:
    """Lines over time; a field, its name, color and dash each."""
    names = [name for _, name, *_ in lines]
    colors = [f"var(--{color})" for _, _, color, *_ in lines]
    dashes = [dash for *_, dash in lines]
    return {
        **FRAME,
        "height": 210,
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2, "clip": True},
        "encoding": {
            "x": {
                "field": "time",
                "type": "temporal",
                "title": None,
                "axis": {"grid": False, "tickCount": 5},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": title,
                "axis": VALUES,
                "scale": {"zero": True, "nice": True},
            },
            "color": {
                "field": "line",
                "type": "nominal",
                "scale": {"domain": names, "range": colors},
                "legend": {"orient": "top", "title": None, "symbolStrokeWidth": 3},
            },
            "strokeDash": {
                "field": "line",
                "type": "nominal",
                "scale": {"domain": names, "range": dashes},
                "legend": {"orient": "top", "title": None},
            },
            "tooltip": [
                {"field": "line", "type": "nominal", "title": "Line"},
                {
                    "field": "time",
                    "type": "temporal",
                    "title": "From",
                    "format": "%H:%M:%S",
                },
                {"field": "value", "type": "quantitative", "title": title, "format": ".4~g"},
            ],
        },
    }


def _heat() -> Spec:
    return {
        **FRAME,
        "height": {"step": 22},
        "mark": {"type": "rect", "stroke": "var(--card)", "strokeWidth": 1},
        "encoding": {
            "x": {
                "field": "place",
                "type": "ordinal",
                "title": "Servers, lowest capacity price first",
                "axis": {"labels": False, "ticks": False, "domain": False},
            },
            "y": {
                "field": "type",
                "type": "nominal",
                "sort": None,
                "title": None,
                "axis": NAMES,
            },
            "color": {
                "field": "index",
                "type": "quantitative",
                "title": "Index, reward",
                "scale": {
                    "range": ["var(--heat-low)", "var(--heat-mid)", "var(--heat-high)"],
                    "interpolate": "lab",
                },
                "legend": {"orient": "top", "gradientLength": 180, "tickCount": 3},
            },
            "tooltip": [
                {"field": "type", "type": "nominal", "title": "Task type"},
                {"field": "server", "type": "nominal", "title": "Server"},
                *[
                    {"field": field, "type": "quantitative", "title": title, "format": ".4~g"}
                    for field, title in (
                        ("index", "Index, reward"),
                        ("score", "Score, reward"),
                        ("cost", "Opportunity cost, reward"),
                        ("permitted", "Permitted servers"),
                    )
                ],
            ],
        },
        "transform": [{"filter": "datum.permitted > 0"}],
    }


def _bars(x: str, y: str, title: str, name: str) -> Spec:
    """Bars side by side."""
    return {
        **FRAME,
        "height": 130,
        "mark": {"type": "bar", "color": "var(--price)"},
        "encoding": {
            "x": {
                "field": x,
                "type": "ordinal",
                "title": "Servers, lowest capacity price first",
                "axis": {"labels": False, "ticks": False},
            },
            "y": {
                "field": y,
                "type": "quantitative",
                "title": title,
                "axis": VALUES,
            },
            "tooltip": [
                {"field": name, "type": "nominal", "title": "Server"},
                {"field": y, "type": "quantitative", "title": title, "format": ".4~g"},
            ],
        },
    }


def _demand() -> Spec:
    """One bar a task type, from zero to either side."""
    return {
        **FRAME,
        "height": {"step": 20},
        "mark": {"type": "bar", "color": "var(--price)"},
        "encoding": {
            "x": {
                "field": "price",
                "type": "quantitative",
                "title": "Demand price, reward",
                "axis": {"tickCount": 4, "format": ".3~g"},
            },
            "y": {
                "field": "type",
                "type": "nominal",
                "sort": None,
                "title": None,
                "axis": NAMES,
            },
            "tooltip": [
                {"field": "type", "type": "nominal", "title": "Task type"},
                {
                    "field": "price",
                    "type": "quantitative",
                    "title": "Demand price, reward",
                    "format": ".4~g",
                },
            ],
        },
    }
