"""The page of ``opportune learn --report``: one file with everything in it, which opens offline.

No script: the pictures are drawn beforehand. Needs the extra ``report``.
"""

from __future__ import annotations

import math

from opportune import __version__
from opportune.experiments import page
from opportune.experiments.learned import SHARES, LearnedComparison, LearnedRow
from opportune.experiments.learned_charts import curve_picture, half_picture
from opportune.experiments.learned_record import claims
from opportune.experiments.page import Html
from opportune.experiments.static_page import figure, static_page

ABOUT = (
    "Nobody knows how well each server suits each type of task; it shows when a service ends. "
    "Every policy learns from the outcomes of its own decisions and is set beside the plan that "
    "knows the scores, on the same tasks, durations and luck."
)

WORDS = (
    ("ceiling", "LAG on the true scores, with one tie rule: not the optimum, so it can be passed"),
    ("second half", "reward of the second half of the tasks, in percent of the ceiling's"),
    (
        "to 95 %",
        "tasks until the mean reward stays above 95 % of the ceiling's in every later window",
    ),
    ("regret", "reward lost over the whole run, in tasks' worth of the ceiling's mean reward"),
    ("optimism", "posterior standard deviations added to an estimate before pricing"),
    ("p99", "99 of 100 tasks waited at most so many steps"),
)


def report_html(result: LearnedComparison, title: str, command: str = "") -> str:
    """The page as text."""
    curves, half = curve_picture(result), half_picture(result)
    told = [page.element("li", text) for text in claims(result)]
    parts = [
        page.element("p", headline(result), class_="headline"),
        page.section(curves.title, [figure(curves)]),
        page.section(half.title, [figure(half), rows_table(result)]),
        page.section("What prices are worth", [page.element("ul", page.joined(told))])
        if told
        else Html(""),
        page.section("Words", [page.definitions(WORDS, "glossary")]),
        page.section("How this was made", [page.definitions(_facts(result, command), "facts")]),
    ]
    return static_page(title, ABOUT, [part for part in parts if part], "Opportune: learning")


def headline(result: LearnedComparison) -> str:
    """The best learner in one sentence."""
    learners = [row for row in result.rows if row.solves > 1]
    if not learners:
        return "No policy of this run learns."
    best = max(learners, key=lambda row: row.second_half)
    near = best.tasks_to[1]
    reached = (
        "is not above 95 % for good by then"
        if near is None
        else f"is above 95 % for good from task {near} on"
    )
    return (
        f"{best.policy} earns {_told(best.second_half, best.half_width)} % of what "
        f"{result.names[0]} earns in the second half of {result.tasks:,} tasks, and {reached}."
    )


def rows_table(result: LearnedComparison) -> Html:
    """Every policy in numbers."""
    queue = result.settings.run.mode == "queue"
    ending = ("mean wait", "p99 wait") if queue else ("dropped",)
    head = ("policy", "per 100 tasks", "second half", *(f"to {one} %" for one in SHARES))
    body = [[*_cells(row), *_ending(row, queue)] for row in result.rows]
    caption = "Reward, percent of the ceiling, tasks to come near it, regret; 95 % intervals"
    return page.table(caption, (*head, "regret", "re-planned", *ending), body)


def _cells(row: LearnedRow) -> list[str]:
    return [
        row.policy,
        f"{row.reward:.4g}",
        f"{_told(row.second_half, row.half_width)} %",
        *("never" if one is None else f"{one:,}" for one in row.tasks_to),
        _told(row.regret, row.regret_half_width, 0),
        f"{row.solves:.0f}",
    ]


def _ending(row: LearnedRow, queue: bool) -> tuple[str, ...]:
    if queue:
        return f"{row.wait:.3f}", f"{row.wait_p99:.1f}"
    return (f"{100 * row.dropped:.2f} %",)


def _facts(result: LearnedComparison, command: str) -> list[tuple[str, str]]:
    settings, instance = result.settings, result.world.instance
    run = settings.run
    waiting = "first come, first served" if run.fifo else "largest index first"
    facts = [
        ("Instance", f"{instance.name} at load {instance.load:.4g}"),
        ("Tasks", f"{result.tasks:,} in each of {settings.replications} replications"),
        ("Mode", "loss: a task without free servers is dropped"),
        ("Rates and durations", "known" if run.known_pace else "learned from the same stream"),
        ("Re-planned", f"when the tasks seen grew by {run.growth:g}, at least {run.least} later"),
        ("Seed", str(settings.seed)),
    ]
    if run.mode == "queue":
        facts[2] = ("Mode", f"queue: tasks wait, {waiting}")
    if command:
        facts.append(("Command", command))
    return [*facts, ("Version", f"opportune {__version__}")]


def _told(value: float, width: float, digits: int = 2) -> str:
    told = f"{value:.{digits}f}"
    return f"{told} ± {width:.{digits}f}" if math.isfinite(width) and width > 0 else told
