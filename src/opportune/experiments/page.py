"""Pieces of a page: tables, figures, definition lists. Knows no result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opportune.markup import Html as Html
from opportune.markup import element as element
from opportune.markup import escaped as escaped
from opportune.markup import joined as joined

WIDE = 7
"""A table with more columns than this is set tighter."""


@dataclass(frozen=True)
class Sample:
    """An entry of a chart's key.

    Attributes:
        name: What it stands for.
        color: CSS color.
        dash: Dash of its line, None without a line.
        shape: Name of its point, None without a point.
    """

    name: str
    color: str
    dash: Sequence[int] | None
    shape: str | None


SHAPES = {
    "circle": "M11 7a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "square": "M11.5 3.5h7v7h-7z",
    "triangle-up": "M15 2.5l4.5 8h-9z",
    "diamond": "M15 1.8l4 5.2l-4 5.2l-4 -5.2z",
    "triangle-down": "M15 11.5l4.5 -8h-9z",
    "cross": "M13.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
}
"""The points of charts as paths around (15, 7)."""


def section(title: str, parts: Iterable[str], intro: str = "") -> Html:
    """A section with a heading, one sentence of what it is for, and its pieces."""
    head = element("h2", title)
    told = [element("p", intro, class_="intro")] if intro else []
    return element("section", joined([head, *told, *parts]))


def grid(parts: Sequence[str]) -> Html:
    """Pieces side by side where there is room."""
    return element("div", joined(parts), class_="grid")


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], strong: Iterable[int] = ()
) -> Html:
    """A table whose first column names the rows; other columns are right-aligned numbers.

    Args:
        caption: What it shows.
        head: Column headings; one that begins with ``<`` (a hint, not shown) is text instead.
        rows: Cells, as many as headings.
        strong: Positions of rows to bring forward.
    """
    marked = set(strong)
    kinds = ["words" if i == 0 or name.startswith("<") else "" for i, name in enumerate(head)]
    headings = joined(
        (
            element("th", name.removeprefix("<"), scope="col", **_class(kind))
            for name, kind in zip(head, kinds, strict=True)
        ),
        "",
    )
    body = joined(
        element(
            "tr",
            joined(
                (
                    element("th", cell, scope="row")
                    if i == 0
                    else element("td", cell, **_class(kinds[i]))
                    for i, cell in enumerate(row)
                ),
                "",
            ),
            **_class("strong" if place in marked else ""),
        )
        for place, row in enumerate(rows)
    )
    whole = joined(
        [
            element("caption", element("span", caption)),
            element("thead", element("tr", headings)),
            element("tbody", body),
        ]
    )
    return element(
        "div",
        element("table", whole, **_class("dense" if len(head) > WIDE else "")),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_label=caption,
    )


def figure(title: str, plot: Html, caption: str, keys: Html) -> Html:
    """A chart between its title, what its colors stand for, and its caption."""
    told = element("figcaption", caption)
    parts = [element("h3", title), keys, element("div", plot, class_="scroll"), told]
    return element("figure", joined(parts))


def plot(name: str, text: str, least_width: int = 0) -> Html:
    """A place for a chart, with its text for a screen reader."""
    style = {"style": f"min-width:{least_width}px"} if least_width else {}
    return element("div", "", class_="plot", id=name, role="img", aria_label=text, **style)


def key(samples: Sequence[Sample], pick: bool) -> Html:
    """What colors, dashes and shapes stand for; with ``pick``, buttons for the script."""
    entries = []
    for sample in samples:
        shown = joined([_drawn(sample), sample.name], "")
        if pick:
            button = {"type": "button", "aria_pressed": "false", "data_pick": sample.name}
            shown = element("button", shown, **button)
        entries.append(element("li", shown))
    return element("ul", joined(entries, ""), class_="key") if entries else Html("")


def _drawn(sample: Sample) -> Html:
    """A short line with a point on it."""
    parts = []
    if sample.dash is not None:
        dash = " ".join(map(str, sample.dash))
        parts.append(
            f'<path d="M1 7H29" fill="none" stroke-width="2" stroke-dasharray="{dash}" '
            f'style="stroke:{sample.color}"/>'
        )
    if sample.shape is not None:
        parts.append(f'<path d="{SHAPES[sample.shape]}" style="fill:{sample.color}"/>')
    line = 'width="30" height="14" viewBox="0 0 30 14"'
    only_point = 'width="14" height="14" viewBox="8 0 14 14"'
    size = only_point if sample.dash is None else line
    return Html(f'<svg {size} aria-hidden="true">{"".join(parts)}</svg>')


def definitions(pairs: Iterable[tuple[str, str]], kind: str, **more: str) -> Html:
    """Names and what they are or mean."""
    entries = joined(
        element("div", joined([element("dt", name), element("dd", text)], ""))
        for name, text in pairs
    )
    return element("dl", entries, class_=kind, **more)


def folded(summary: str, content: str) -> Html:
    """Content that opens on request; printed only if it is open."""
    return element("details", joined([element("summary", summary), content]))


def _class(kind: str) -> dict[str, str]:
    return {"class_": kind} if kind else {}
