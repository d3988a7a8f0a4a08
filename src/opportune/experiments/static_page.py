"""A page that runs and fetches nothing: its pictures are drawn beforehand; it opens offline.

Needs the extra ``report``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from string import Template

from opportune import __version__
from opportune.experiments import page
from opportune.experiments.drawing import svg
from opportune.experiments.page import Html
from opportune.experiments.pictures import Picture

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Nothing runs and nothing is fetched from anywhere."""


def static_page(
    title: str, about: str, parts: Sequence[str], brand: str = "Opportune paper reproduction"
) -> str:
    """A page that runs and fetches nothing, in the style of all pages.

    Args:
        title: Its heading.
        about: What it is, in a sentence or two.
        parts: Its sections.
        brand: Above the heading.
    """
    style = files("opportune.experiments").joinpath("report.css").read_text(encoding="utf-8")
    shell = files("opportune.experiments").joinpath("static_page.html")
    return Template(shell.read_text(encoding="utf-8")).substitute(
        title=page.escaped(title),
        brand=page.escaped(brand),
        about=page.escaped(about),
        policy=POLICY,
        style=style,
        version=__version__,
        body=page.joined(parts),
    )


def figure(picture: Picture) -> Html:
    """The panels side by side where there is room, each with its text for a screen reader."""
    plots = [
        page.element(
            "div",
            page.joined(
                [
                    page.element("h3", one.title),
                    page.element(
                        "div",
                        svg(one, f"{picture.name}-{place}"),
                        class_="plot",
                        role="img",
                        aria_label=one.text,
                    ),
                ]
            ),
            class_="panel",
        )
        for place, one in enumerate(picture.panels)
    ]
    caption = page.element("figcaption", picture.caption)
    inside = page.element("div", page.joined(plots), class_=f"panels by-{picture.columns}")
    return page.element("figure", page.joined([inside, caption]))
