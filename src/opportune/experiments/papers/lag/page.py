"""The page of the reproduction: one file with everything in it, which opens offline.

No script: the pictures are drawn beforehand. Needs the extra ``report``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opportune.experiments import page
from opportune.experiments.page import Html
from opportune.experiments.papers.lag import sections
from opportune.experiments.papers.lag.causes import CAUSES
from opportune.experiments.papers.lag.sections import Tables
from opportune.experiments.pictures import Picture
from opportune.experiments.static_page import figure, static_page

TITLE = "The LAG paper, reproduced"

ABOUT = (
    "Every table and figure of LAG: A Mean-Field Optimal Policy for Online Assignment with "
    "Reusable Resources (arXiv 2610.19038) beside our own run. Percentages are of OCC-UB, the "
    "value of the occupancy LP at the blocking that every policy meets."
)


def page_html(
    tables: Tables,
    pictures: Mapping[str, Picture],
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> str:
    """The page as text.

    Args:
        tables: The rows of every table.
        pictures: By name; those of tables without rows are missing.
        facts: What made the numbers, for the last section.
        notes: What a reader must know first, such as instances that were not run.
    """
    parts = [
        page.element("p", sections.headline(tables.sweep), class_="headline"),
        sections.please_note(notes),
        page.section("What the text says", [sections.claims_table(tables.claims)]),
        _section(pictures, "table2", sections.summary_table(tables.summary)),
        *(_section(pictures, f"figure{number}") for number in (3, 4, 5)),
        _section(pictures, "table3", sections.sweep_tables(tables.sweep)),
        page.section("Where numbers differ, and why", _differences(tables)),
        _section(pictures, "samples", sections.samples_table(tables.sample_summary)),
        _section(pictures, "blocking", sections.blocking_table(tables.blocking)),
        _section(
            pictures,
            "figure6",
            sections.convergence_table(tables.convergence),
            sections.convergence_note(tables.convergence),
        ),
        _section(pictures, "fluid", sections.fluid_table(tables.fluid)),
        page.section("How this was made", [page.definitions(facts, "facts")]),
    ]
    return static_page(TITLE, ABOUT, [part for part in parts if part])


def _differences(tables: Tables) -> list[Html]:
    keys = [key for key in CAUSES if any(cell.cause == key for cell in tables.sweep)]
    listed = [sections.differences_table(tables.sweep, key) for key in keys if key]
    return [sections.causes_table(tables.sweep), *listed]


def _section(pictures: Mapping[str, Picture], name: str, *more: Html) -> Html:
    """A picture and the tables that belong to it; nothing if there is no such picture."""
    if name not in pictures:
        return Html("")
    return page.section(pictures[name].title, [figure(pictures[name]), *more])
