"""Tables of the dashboard: headings that explain themselves, rows that are capped."""

from __future__ import annotations

from collections.abc import Sequence

from opportune.markup import Html, element, joined
from opportune.service.dashboard.figures import FIGURES, name_of, number, term


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Html]]) -> Html:
    """A table; the first column names its rows.

    Args:
        caption: What it shows; for screen readers, since a heading stands above.
        head: Keys of ``figures.FIGURES`` for numbers, one followed by ``:`` and a name for the
            numbers of what is named so, other text for words.
        rows: Cells, as many as headings.
    """
    kinds = ["figure" if name.partition(":")[0] in FIGURES else "words" for name in head]
    headings = joined(
        [
            element("th", _heading(name), scope="col", class_=kind)
            for name, kind in zip(head, kinds, strict=True)
        ],
        "",
    )
    body = joined(
        [
            element(
                "tr",
                joined(
                    [
                        element("th", cell, scope="row", class_=kinds[i])
                        if i == 0
                        else element("td", cell, class_=kinds[i])
                        for i, cell in enumerate(row)
                    ],
                    "",
                ),
            )
            for row in rows
        ]
    )
    parts = [
        element("caption", caption, class_="hidden"),
        element("thead", element("tr", headings)),
        element("tbody", body),
    ]
    return element("table", joined(parts))


def _heading(name: str) -> Html:
    """A heading; with its unit for numbers."""
    figure, _, of = name.partition(":")
    if figure not in FIGURES:
        return element("span", name)
    unit = element("span", FIGURES[figure].unit, class_="in")
    return joined([term(figure), *([name_of(of)] if of else []), unit], " ")


def scrolled(label: str, content: Html) -> Html:
    """Something wide in a region of its own that scrolls, by the keyboard too."""
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def tile(name: str, value: float | None, more: str = "") -> Html:
    """A number on its own, with its label."""
    parts = [element("dt", term(name)), element("dd", joined([number(name, value), more], " "))]
    return element("div", joined(parts, ""))


def tiles(parts: Sequence[Html]) -> Html:
    """Numbers beside each other."""
    return element("dl", joined(parts), class_="tiles")


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """Names and what they are; a name of ``figures.FIGURES`` explains itself."""
    entries = [
        element(
            "div",
            joined(
                [
                    element("dt", term(name) if name in FIGURES else name),
                    element("dd", value),
                ],
                "",
            ),
        )
        for name, value in pairs
    ]
    return element("dl", joined(entries), class_="facts")


def note(text: str, kind: str = "note") -> Html:
    """A remark."""
    return element("p", text, class_=kind)


def capped(shown: int, total: int, remedy: str, what: str = "listed") -> Html:
    """What a capped table leaves out; nothing if it has all. ``what`` is counted."""
    if shown >= total:
        return Html("")
    told = [number(what, shown), "of", number(what, total), f"are shown. {remedy}"]
    return note(joined(told, " "))
