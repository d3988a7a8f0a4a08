"""The page that people look at: one HTML file with everything in it, which opens offline.

Scripts, style, charts and numbers are in the file; a content security policy in it forbids
every request to a network, so nothing is ever fetched. Needs the extra ``report``; reached only
when a report is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template

import vl_convert

from opportune import __version__
from opportune.errors import InputError, Problem
from opportune.experiments import page, report_sections, report_tables, wording
from opportune.experiments.chart_style import CONFIG, Chart
from opportune.experiments.comparison import Comparison
from opportune.experiments.excerpt import detailed
from opportune.experiments.page import Html

HERE = "opportune.experiments"
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def report_html(comparisons: Sequence[Comparison], title: str, command: str = "") -> str:
    """A page about one comparison, or a sweep of one instance over loads: its text.

    By ascending load; the middle load is shown at first.

    Args:
        comparisons: One, or several with the same instance and settings at different loads.
        title: Heading of the page.
        command: The command line that was typed, to be repeated; guessed if empty.

    Raises:
        InputError: If there is no comparison.
    """
    if not comparisons:
        raise InputError(Problem("comparisons", "none", "at least one"))
    comparisons = sorted(comparisons, key=lambda one: one.instance.load)
    shown: list[Chart] = []
    parts: list[str] = []
    sweep = len(comparisons) > 1
    if sweep:
        parts += [page.element("p", wording.sweep_headline(comparisons), class_="headline")]
        parts.append(report_sections.warnings(comparisons))
        parts.append(report_sections.sweep_section(comparisons, shown))
    places = detailed(comparisons)
    first = len(places) // 2
    if sweep:
        parts.append(_load_picker(comparisons, places, first))
    for i, place in enumerate(places):
        told = Html("") if sweep else report_sections.warnings(comparisons)
        panel = report_sections.panel(comparisons[place], f"c{place}", told, shown)
        hidden = {} if i == first else {"hidden": "hidden"}
        named = {"aria_label": f"Load {wording.load(comparisons[place])}"} if sweep else {}
        parts.append(page.element("article", panel, id=f"load-{place}", **named, **hidden))
    parts.append(report_sections.words())
    parts.append(
        page.section("How this was made", [report_tables.provenance(comparisons, command)])
    )
    line = report_sections.instance_line(comparisons[0])
    return whole_page(title, line, parts, shown)


def whole_page(title: str, line: Html, parts: Sequence[str], shown: Sequence[Chart]) -> str:
    """A page of these parts with its script, style and charts in it.

    Args:
        title: Heading.
        line: What it is about, in one line below the heading.
        parts: Sections.
        shown: Charts that the sections have places for.
    """
    script = _script()
    return Template(_read("report.html")).substitute(
        title=page.escaped(title),
        version=__version__,
        policy=_content_policy(script),
        style=_read("report.css"),
        instance=line,
        body=page.joined(parts),
        charts=_embedded({chart.name: chart.spec for chart in shown}),
        config=_embedded(CONFIG),
        script=script,
    )


def _load_picker(comparisons: Sequence[Comparison], places: list[int], first: int) -> Html:
    """One button a load; the script shows the article of the chosen one."""
    choices = []
    for i, place in enumerate(places):
        checked = {"checked": "checked"} if i == first else {}
        button = page.element(
            "input", "", type="radio", name="load", value=f"load-{place}", **checked
        ).removesuffix("</input>")
        text = page.element("span", wording.load(comparisons[place]))
        choices.append(page.element("label", Html(button + text)))
    left_out = ""
    if len(places) < len(comparisons):
        left_out = f"{len(places)} of {len(comparisons)} loads have details"
    legend = page.element("legend", "Details at load")
    note = page.element("span", left_out, class_="small")
    row = page.element("div", page.joined(choices, ""), class_="choices")
    return page.element("fieldset", page.joined([legend, row, note], ""), id="load-picker")


@cache
def _script() -> str:
    """Vega, Vega-Lite, Vega-Embed and our own script, as one text."""
    text = vl_convert.javascript_bundle(SNIPPET) + "\n" + _read("report.js")
    text = text.replace("\r\n", "\n").replace("</script", "<\\/script")
    return str(text.replace("<!--", "<\\!--"))


def _content_policy(script: str) -> str:
    """Only this script runs, and nothing is fetched from anywhere."""
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _embedded(value: object) -> str:
    """JSON that can stand inside a script element; NaN or infinity is an error."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _read(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")
