"""The page about a fit: what was learned from a log, how sure it is, and what to beware of.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from opportune import __version__
from opportune.experiments import fit_charts, fit_score_charts, page, report_sections, wording
from opportune.experiments.chart_style import Chart
from opportune.experiments.page import Html
from opportune.experiments.report import whole_page
from opportune.learning.fit.cautions import probability
from opportune.learning.fit.instance import Fit
from opportune.model.spelling import counted

ROWS = 60
"""Rows of a table; the files have all."""


def report_html(fit: Fit, title: str, command: str = "") -> str:
    """The page as text."""
    shown: list[Chart] = []
    instance = fit.instance
    line = page.escaped(
        f"{instance.name}: {counted(instance.n_types, 'task type')}, "
        f"{counted(instance.n_servers, 'server')}, load {instance.load:.3g}"
    )
    parts = [
        page.element("p", headline(fit), class_="headline"),
        listed(fit.cautions, "warnings"),
        _arrivals_section(fit, shown),
        _durations_section(fit, shown),
        _scores_section(fit, shown),
        page.section("Does anything change over the log?", [_drift_table(fit)], DRIFT_INTRO),
        page.section(
            "What was odd in the log",
            [listed(fit.findings, "") if fit.findings else page.element("p", "Nothing.")],
            "Every oddity, how often it occurs, and what was done about it.",
        ),
        page.section("How this was made", [page.definitions(_facts(fit, command), "facts")]),
    ]
    return whole_page(title, line, parts, shown)


DRIFT_INTRO = (
    "Partial sums of each series, in order of time, against those of one level throughout. "
    "Changes that stay small after a correction for the number of tests are marked."
)


def headline(fit: Fit) -> str:
    """What the log had and what came of it, in one sentence."""
    log, instance = fit.log, fit.instance
    outcomes = int(fit.pair_count.sum()) if fit.scores is not None else 0
    told = f", {outcomes:,} of them with an outcome" if outcomes else ""
    return (
        f"{log.n_tasks:,} tasks and {len(log.task):,} services{told}: "
        f"{instance.arrival_rate.sum():.3g} arrivals per step, mean duration "
        f"{_work_mean(fit):.3g} steps, load {instance.load:.3g}."
    )


def _work_mean(fit: Fit) -> float:
    rate = fit.instance.arrival_rate
    return float((rate * fit.instance.mean_duration).sum() / rate.sum())


def _arrivals_section(fit: Fit, shown: list[Chart]) -> Html:
    profile = fit_charts.profile_chart(fit, "fit-profile")
    level = fit_charts.level_chart(fit, "fit-level")
    charts = [level] if profile is None else [profile, level]
    arrivals = fit.arrivals
    rows = [
        [
            name,
            f"{arrivals.count[v]:,}",
            wording.number(float(arrivals.rate[v])),
            f"{arrivals.low[v]:.4g} to {arrivals.high[v]:.4g}",
            f"{fit.instance.servers_per_task[v]}",
        ]
        for v, name in enumerate(fit.instance.task_types[:ROWS])
    ]
    head = ["Task type", "Tasks", "Arrivals per step", "95 %", "Servers per task"]
    intro = f"One step is {fit.step.length:g} of the log's units of time: {fit.step.reason}."
    table = page.table("Arrival rates", head, rows)
    return page.section(
        "Arrivals", [page.grid(report_sections.figures(charts, shown)), table], intro
    )


def _durations_section(fit: Fit, shown: list[Chart]) -> Html:
    chart = fit_charts.duration_chart(fit, "fit-durations")
    rows = [
        [
            name,
            wording.number(one.mean),
            f"{one.low:.4g} to {one.high:.4g}",
            type(one.law).__name__.lower(),
            f"{one.n:,}",
            f"{one.censored:,}",
            _p(one.p_memoryless),
        ]
        for name, one in zip(fit.instance.task_types[:ROWS], fit.services.types, strict=False)
    ]
    head = ["Task type", "Mean steps", "95 %", "<Law", "Ended", "Not ended", "p of memoryless"]
    parts = [*report_sections.figures([] if chart is None else [chart], shown)]
    parts.append(page.table("Durations", head, rows))
    differ = fit.services.p_servers
    if differ is not None:
        verdict = "they differ" if fit.services.servers_differ else "no sign of it"
        parts.append(
            page.element(
                "p",
                f"Do servers differ in speed for the same type? {verdict} "
                f"(Kruskal and Wallis, {probability(differ)}).",
                class_="small",
            )
        )
    return page.section("Durations", parts)


def _scores_section(fit: Fit, shown: list[Chart]) -> Html:
    maps = [
        fit_score_charts.score_chart(fit, "fit-scores"),
        fit_score_charts.support_chart(fit, "fit-support"),
    ]
    more = [
        fit_score_charts.shrinkage_chart(fit, "fit-shrinkage"),
        fit_score_charts.types_chart(fit, "fit-types"),
    ]
    scores = fit.scores
    if scores is not None and scores.calibration is not None:
        more.insert(1, fit_score_charts.calibration_chart(scores.calibration, "fit-calibration"))
    known = [chart for chart in more if chart is not None]
    parts: list[Html] = [page.grid(report_sections.figures(maps, shown))]
    if known:
        parts.append(page.grid(report_sections.figures(known, shown)))
    if scores is not None and scores.losses:
        rows = [
            [model, f"{loss:.5f}", f"{error:.5f}"] for model, (loss, error) in scores.losses.items()
        ]
        taken = [place for place, row in enumerate(rows) if row[0] == scores.model]
        head = ["Model", "Held-out loss", "Standard error beside the best"]
        parts.append(page.table("Models of the scores", head, rows, taken))
    kind = {"outcome": "", "speed": "Made up of speeds.", "none": "All 1."}
    return page.section("Scores", parts, kind[fit.settings.score])


def _drift_table(fit: Fit) -> Html:
    noticed = fit.drifted
    tests = sorted(fit.drift, key=lambda test: test.p_value)[:ROWS]
    rows = [
        [
            test.what,
            f"{test.n:,}",
            _p(test.p_value),
            wording.share(test.place),
            wording.number(test.before),
            wording.number(test.after),
        ]
        for test in tests
    ]
    if not rows:
        return page.element("p", "Too little data to say.")
    head = ["Series", "Values", "p", "Largest change after", "Mean before", "Mean after"]
    strong = [place for place, test in enumerate(tests) if test in noticed]
    return page.table("Tests of drift", head, rows, strong)


def _facts(fit: Fit, command: str) -> list[tuple[str, str]]:
    log = fit.log
    facts = [
        ("Log", f"{log.name}, {log.n_rows:,} rows, SHA-256 {log.digest}"),
        ("Instance", f"{fit.instance.name}, hash {fit.instance.digest}"),
        ("Seed", f"{fit.settings.seed}"),
        ("Program", f"opportune {__version__}"),
        ("Labels", "all estimators are ours or textbook ones; intervals are 95 %, approximate"),
    ]
    return [*facts, ("Command", command)] if command else facts


def _p(value: float) -> str:
    return probability(value).removeprefix("p ").removeprefix("= ")


def listed(texts: Sequence[str], kind: str) -> Html:
    """Sentences as a list of a class; nothing if there are none."""
    if not texts:
        return Html("")
    items = page.joined(page.element("li", text) for text in texts)
    return page.element("ul", items, class_=kind) if kind else page.element("ul", items)
