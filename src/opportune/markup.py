"""Markup of pages, with text that cannot become markup.

Text is escaped unless it is :class:`Html`, which only code that writes markup makes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """The text with markup characters replaced; markup stays as it is."""
    return text if isinstance(text, Html) else Html(html.escape(text, quote=True))


def joined(parts: Iterable[str], between: str = "\n") -> Html:
    """Pieces one after the other."""
    return Html(between.join(escaped(part) for part in parts))


def element(tag: str, content: str, **attributes: str) -> Html:
    """An element; write ``class_`` and ``aria_label`` for ``class`` and ``aria-label``."""
    pairs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{pairs}>{escaped(content)}</{tag}>")
