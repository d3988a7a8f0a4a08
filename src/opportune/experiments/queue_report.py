"""The page of ``opportune queue --report``: one file with everything in it, which opens offline.

No script: the pictures are drawn beforehand. Needs the extra ``report``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from opportune import __version__
from opportune.experiments import page
from opportune.experiments.page import Html
from opportune.experiments.queue import ORACLE, QueueComparison, QueueRow
from opportune.experiments.queue_charts import cost_picture, queue_picture
from opportune.experiments.static_page import figure, static_page

ABOUT = (
    "Tasks wait in one queue; in each step one of them is tried by one server, which succeeds with "
    "a probability that depends on both and that nobody was told. All policies and the oracle, "
    "which knows the probabilities, see the same tasks and the same luck."
)


def report_html(result: QueueComparison, title: str, command: str = "") -> str:
    """The page as text."""
    pictures = [queue_picture(result), cost_picture(result)]
    told = [page.element("li", text) for text in (*result.warnings, *result.world.notes)]
    parts = [
        page.element("p", headline(result), class_="headline"),
        page.element("ul", page.joined(told), class_="warnings") if told else Html(""),
        page.section(pictures[0].title, [figure(pictures[0])]),
        page.section(pictures[1].title, [figure(pictures[1]), rows_table(result)]),
        page.section("Words", [page.definitions(WORDS, "glossary")]),
        page.section("How this was made", [page.definitions(_facts(result, command), "facts")]),
    ]
    return static_page(title, ABOUT, [part for part in parts if part], "Opportune report")


def headline(result: QueueComparison) -> str:
    """The best learner in one sentence, with both of its numbers."""
    learners = [row for row in result.rows if row.policy != ORACLE]
    if not learners:
        return f"The oracle's queue has {result.row(ORACLE).mean_queue:.3g} tasks on average."
    best = min(learners, key=lambda row: row.excess)
    return (
        f"{best.policy} kept {_told(best.excess, best.excess_error)} tasks more waiting than the "
        f"oracle on average, and {_told(best.queue_regret, best.standard_error)} at the end of "
        f"{result.horizon:,} steps."
    )


def rows_table(result: QueueComparison) -> Html:
    """Both numbers of every policy, and what its queue looked like."""
    head = (
        "policy",
        "Q(T) - Q*(T)",
        "mean excess",
        "transient cost",
        "mean queue",
        "final queue",
        "explored",
        "worst run",
        "<note",
    )
    body = [
        [
            row.policy,
            _told(row.queue_regret, row.standard_error),
            _told(row.excess, row.excess_error),
            _told(row.transient_cost, row.transient_error),
            f"{row.mean_queue:.3g}",
            f"{row.final_queue:.3g}",
            f"{100 * row.exploration_share:.1f} %",
            f"{row.worst}",
            row.note,
        ]
        for row in result.rows
    ]
    caption = "Tasks beside the oracle's, with one standard error of the differences run by run"
    return page.table(caption, head, body, _leading(result.rows))


WORDS = (
    ("Q(T) - Q*(T)", "queue length regret: waiting tasks beside the oracle's at the end"),
    ("mean excess", "the same averaged over all steps of the run"),
    (
        "transient cost",
        "the largest excess averaged up to a step: what a run that ends there would have paid",
    ),
    ("explored", "share of tries whose server was chosen at random"),
    ("oracle", "knows the success rates and always tries the pair that is most likely to work"),
)


def _leading(rows: Sequence[QueueRow]) -> list[int]:
    learners = [(row.excess, i) for i, row in enumerate(rows) if row.policy != ORACLE]
    return [min(learners)[1]] if learners else []


def _facts(result: QueueComparison, command: str) -> list[tuple[str, str]]:
    settings = result.settings
    ratio = [row.variance_ratio for row in result.rows if math.isfinite(row.variance_ratio)]
    facts = [
        ("Instance", result.world.name),
        ("Arrival rate", f"{result.world.arrival_rate:.4g} tasks per step"),
        ("Runs", f"{settings.replications}, coupled with the oracle"),
        ("Seed", str(settings.seed)),
    ]
    if ratio:
        told = f"{min(ratio):.3g} to {max(ratio):.3g} times fewer runs for the same precision"
        facts.append(("What coupling saves", told))
    if command:
        facts.append(("Command", command))
    return [*facts, ("Version", f"opportune {__version__}")]


def _told(value: float, error: float) -> str:
    told = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return f"{told} ± {error:.2g}" if math.isfinite(error) else told
