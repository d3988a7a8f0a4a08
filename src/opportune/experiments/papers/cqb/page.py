"""The page of the study: one file with everything in it, which opens offline. Needs ``report``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opportune.experiments import page
from opportune.experiments.page import Html
from opportune.experiments.papers.cqb.claims import Verdict
from opportune.experiments.pictures import Picture
from opportune.experiments.static_page import figure, static_page

Row = dict[str, Any]
Made = tuple[Mapping[str, Sequence[Row]], Sequence[Verdict]]

TITLE = "Contextual queueing bandits, measured"
ABOUT = (
    "Rates, ablations and claims of arXiv 2606.09668 (CQB-eta-2) and 2601.19300 (CQB-eps, "
    "CQB-Opt), each policy coupled with the oracle, and a learner without knobs beside them. "
    "The published table is a summary's; its numbers have no second source."
)


def page_html(
    made: Made,
    pictures: Sequence[Picture],
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> str:
    """The page as text.

    Args:
        made: Rows of every table by name, and the verdicts.
        pictures: In the order of the page.
        facts: What made the numbers.
        notes: What a reader must know first.
    """
    tables, verdicts = made
    drawn = {one.name: one for one in pictures}
    told = [page.element("p", note, class_="small") for note in notes]
    parts = [
        page.element("p", headline(verdicts, tables["default"]), class_="headline"),
        *told,
        page.section("What is claimed, and what we find", [_verdicts(verdicts)]),
        page.section("The summary's tables", [_published(tables["summary"])]),
        _shown(drawn, "rates", _hard(tables["hard"]), _slopes(tables["slopes"])),
        _shown(drawn, "knobs", _default(tables["default"])),
        _shown(drawn, "queues"),
        _shown(drawn, "loads", *_measured("Recorded answers", tables["loads"])),
        page.section(
            "The set-ups of both papers",
            [
                *_measured("2606.09668: d = 10, K = 5, T = 2000", tables["setup_2606"]),
                *_measured("2601.19300: d = 5 a server, K = 5, T = 5000", tables["setup_2601"]),
            ],
        ),
        page.section(
            "Every number of the default's comparison",
            [
                page.folded("Telling", page.joined(_measured("Telling", tables["default_all"]))),
                page.folded("Choosing", page.joined(_measured("Choosing", tables["choosing"]))),
                page.folded("Rates", page.joined(_measured("Rates", tables["rates"]))),
            ],
        ),
        page.section("How this was made", [page.definitions(facts, "facts")]),
    ]
    return static_page(TITLE, ABOUT, [part for part in parts if part])


def headline(verdicts: Sequence[Verdict], default: Sequence[Row]) -> str:
    """How many claims hold, and how the default learner does."""
    known = [one for one in verdicts if one.verdict != "not run"]
    holding = sum(one.verdict == "holds" for one in known)
    parts = [f"{holding} of {len(known)} claims hold in our runs."]
    parts += [
        f"On {row['place']} the default learner keeps {row['excess']:.2f} tasks more waiting than "
        f"the oracle, {row['times_smaller_excess']:.1f} times fewer than the summary's fractions."
        for row in default
        if row["place"] in ("joint", "disjoint")
    ]
    return " ".join(parts)


def _shown(drawn: Mapping[str, Picture], name: str, *more: Html) -> Html:
    if name not in drawn:
        return Html("")
    return page.section(drawn[name].title, [figure(drawn[name]), *more])


def _verdicts(verdicts: Sequence[Verdict]) -> Html:
    body = [[one.said, one.source, one.ours, one.verdict] for one in verdicts]
    caption = "Claims and verdicts; two standard errors count as a difference"
    return page.table(caption, ("claim", "<source", "<ours", "<verdict"), body)


def _published(rows: Sequence[Row]) -> Html:
    head = ("policy", "<setting", "summary", "ours, x 0.1", "ours, x 0.01", "<agrees at x 0.1")
    body = [
        [
            row["policy"],
            row["setting"],
            f"{row['published']:.2f} ± {row['published_error']:.2f}",
            _pair(row, "ours_x_0.1", "error_x_0.1"),
            _pair(row, "ours_x_0.01", "error_x_0.01"),
            row["verdict"],
        ]
        for row in rows
    ]
    return page.table("Q(T) - Q*(T) at T = 2000: the summary's ± is unexplained", head, body)


def _hard(rows: Sequence[Row]) -> Html:
    names = list(dict.fromkeys(row["policy"] for row in rows))
    at = {(row["horizon"], row["policy"]): row for row in rows}
    horizons = list(dict.fromkeys(row["horizon"] for row in rows))

    def runs_at(horizon: int) -> list[int]:
        return list(dict.fromkeys(row["runs"] for row in rows if row["horizon"] == horizon))

    body = [
        [
            f"{horizon:,}",
            ", ".join(f"{n:,}" for n in runs_at(horizon)),
            *(
                _pair(at[horizon, name], "regret_root_T", "error") if (horizon, name) in at else ""
                for name in names
            ),
        ]
        for horizon in horizons
    ]
    caption = "Hard instance, d = 1, K = 2, arrival rate 0.4: regret times the root of T"
    return page.table(caption, ("T", "runs", *names), body)


def _slopes(rows: Sequence[Row]) -> Html:
    body = [
        [
            row["instances"],
            row["policy"],
            "too few points" if row["slope"] is None else f"{row['slope']:.3f}",
            "" if row["slope"] is None else f"{row['half_width']:.3f}",
            str(row["horizons"]),
        ]
        for row in rows
    ]
    head = ("instances", "<policy", "exponent", "95 % half width", "horizons")
    return page.table("Fitted exponent of the final regret in T", head, body)


def _default(rows: Sequence[Row]) -> Html:
    head = (
        "place",
        "runs",
        "mean excess",
        "limit",
        "transient cost",
        "limit",
        "at the end",
        "worst run",
        "<best cell, chosen on other streams",
        "its excess",
        "ours minus its",
        "ours minus its, at the end",
        "(.2, .3) x .01: times more",
    )
    body = [
        [
            row["place"],
            f"{row['runs']:,}",
            _pair(row, "excess", "excess_error"),
            _limit(row["excess_limit"]),
            f"{row['transient_cost']:.2f}",
            _limit(row["transient_limit"]),
            _pair(row, "regret", "regret_error"),
            str(row["worst_run"]),
            row["best_cell"],
            f"{row['best_cell_excess']:.3f}",
            _pair(row, "excess_minus_best", "excess_minus_best_error"),
            _pair(row, "regret_minus_best", "regret_minus_best_error"),
            f"{row['times_smaller_excess']:.1f}, cost {row['times_smaller_cost']:.1f}",
        ]
        for row in rows
    ]
    return page.table("The default learner at T = 2000", head, body)


def _measured(caption: str, rows: Sequence[Row]) -> list[Html]:
    if not rows:
        return []
    head = (
        "setting",
        "<policy",
        "runs",
        "at the end",
        "mean excess",
        "transient cost",
        "mean queue",
        "explored",
        "worst",
    )
    body = [
        [
            row["setting"],
            row["policy"],
            f"{row['runs']:,}",
            _pair(row, "regret", "regret_error"),
            _pair(row, "excess", "excess_error"),
            _pair(row, "transient_cost", "transient_error"),
            f"{row['mean_queue']:.2f}",
            f"{100 * row['exploration_share']:.1f} %",
            str(row["worst_run"]),
        ]
        for row in rows
    ]
    return [page.table(caption, head, body)]


def _limit(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _pair(row: Row, value: str, error: str) -> str:
    if row[value] is None:
        return ""
    digits = 3 if row[error] < 0.05 else 2 if row[error] < 0.5 else 1
    return f"{row[value]:.{digits}f} ± {row[error]:.{digits}f}"
