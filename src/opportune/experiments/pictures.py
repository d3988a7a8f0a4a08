"""A picture: one or several panels, drawn beforehand as files or as part of a page without script.

Needs the extra ``report``.
"""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt

from opportune.experiments.chart_style import Layers, Spec


@dataclass(frozen=True)
class Panel:
    """A chart on its own axes.

    Attributes:
        title: What it is of.
        text: The same for a person who cannot see it.
        spec: Vega-Lite of fixed size, without ``config``.
    """

    title: str
    text: str
    spec: Spec


@dataclass(frozen=True)
class Picture:
    """Panels that belong together.

    Attributes:
        name: Name of its files, letters and digits.
        title: What it shows.
        caption: How to read it.
        panels: The charts.
        columns: Panels beside each other.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int


def panel(title: str, text: str, chart: Layers, size: tuple[int, int | alt.Step]) -> Panel:
    """The validated Vega-Lite of a panel.

    Args:
        title: What it is of.
        text: For a person who cannot see it, without the title.
        chart: Marks and data.
        size: Width and height in pixels.

    Raises:
        altair.SchemaValidationError: If the chart is no valid Vega-Lite.
    """
    width, height = size
    spec: Spec = chart.properties(width=width, height=height).to_dict()
    del spec["$schema"], spec["config"]
    return Panel(title, f"{title}: {text}.", spec)
