"""Reward against the bound, and blocking against theory, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from opportune.markup import Html, joined
from opportune.service.dashboard.figures import moment, number
from opportune.service.dashboard.history import WINDOWS, Bin, History
from opportune.service.dashboard.tables import facts, note, table
from opportune.service.dashboard.theory import REFERENCE, Arrived, blocking, bound_reasons
from opportune.service.state import State

BY_CHANCE = "It bounds the mean of a long time; that of a short time may lie above it by chance."

LISTED = 15
"""Stretches of time in the tables, the latest ones."""

SETTLED = 5.0
"""Seconds under a plan before its mean reward is shown: the first tasks say nothing."""

Row = dict[str, Any]


class Course(NamedTuple):
    """A pool over time, ready for the page.

    Attributes:
        parts: Markup by the name of its place.
        charts: Rows by the name of the chart.
    """

    parts: dict[str, Html]
    charts: dict[str, list[Row]]


def course(state: State, history: History, window: str, now: float) -> Course:
    """Reward and blocking in a window of time.

    Args:
        state: The pool.
        history: Its counts.
        window: Key of ``history.WINDOWS``.
        now: Seconds of the node's clock.
    """
    if state.settings is not None and state.settings.partitions > 1:
        told = note("The pool is split: this is on the pages of its parts.")
        parts = ("reward", "reward-table", "blocking", "blocking-table")
        return Course(dict.fromkeys(parts, told), {"reward-chart": [], "blocking-chart": []})
    seconds = WINDOWS[window][0]
    bins = history.bins(window, now)
    reward, reward_rows, reward_table = _reward(state, history, bins, (seconds, now))
    blocked, blocked_rows, blocked_table = _blocked(state, history, bins, now)
    since = _since(history, bins)
    return Course(
        parts={
            "reward": joined([reward, since]),
            "reward-table": reward_table,
            "blocking": joined([blocked, since]),
            "blocking-table": blocked_table,
        },
        charts={"reward-chart": reward_rows, "blocking-chart": blocked_rows},
    )


def _reward(
    state: State, history: History, bins: Sequence[Bin], clock: tuple[float, float]
) -> tuple[Html, list[Row], Html]:
    """Numbers, rows and table of the reward; its mean begins anew with another plan.

    ``clock``: seconds of a bin, and now.
    """
    seconds, now = clock
    rows: list[Row] = []
    listed: list[list[Html]] = []
    plan, total, length, n_arrived = None, 0.0, 0.0, 0
    bound: float | None = None
    mean: float | None = None
    for one in bins:
        end = min(one.start + seconds, now)
        if one.plan != plan:
            plan, total, length = one.plan, one.own, end - one.since
            n_arrived = one.own_created
        else:
            total, length = total + one.score, length + end - max(one.start, one.since)
            n_arrived += one.created
        mean = total / length if length >= SETTLED and plan is not None else None
        document = None if plan is None else state.plans.get(plan)
        bound = None if document is None else document.bound
        rate = one.score / seconds if end == one.start + seconds else None
        for line, value in (("score of picks", rate), ("mean", mean), ("bound", bound)):
            if value is not None:
                rows.append(_row(one.start, line, value))
        listed.append(
            [
                moment(one.start),
                number("rate", rate),
                number("mean_rate", mean),
                number("bound", bound),
            ]
        )
    ratio = mean / bound if mean is not None and bound else None
    shown = facts(
        [
            ("mean_rate", number("mean_rate", mean)),
            ("bound", number("bound", bound)),
            ("bound_ratio", number("bound_ratio", ratio)),
        ]
    )
    status = note("No plan with a bound is in force.")
    if bound is not None:
        arrived = Arrived(n_arrived, length)
        reasons = bound_reasons(state, history.asides, arrived)
        status = _status(reasons, "bound")
        if not reasons and ratio is not None and ratio > 1.0:
            status = note(f"The pool does what the bound assumes. {BY_CHANCE}")
    head = ["From", "rate", "mean_rate", "bound"]
    return joined([status, shown]), rows, _latest("Reward over time", head, listed)


def _blocked(
    state: State, history: History, bins: Sequence[Bin], now: float
) -> tuple[Html, list[Row], Html]:
    """Numbers, rows and table of the share of dropped tasks; its mean begins anew with new rates.

    Theory knows the rates and servers of now, so it is shown from where these hold.
    """
    since = max((one.declared for one in bins if one.declared is not None), default=0.0)
    rows: list[Row] = []
    listed: list[list[Html]] = []
    created = dropped = 0
    waits = state.settings is not None and state.settings.mode == "queue"
    first = 0.0
    for one in bins:
        if one.declared is None:
            created, dropped = created + one.created, dropped + one.dropped
        else:
            created, dropped, first = one.fresh_created, one.fresh_dropped, one.start
        share = one.dropped / one.created if one.created else None
        mean = dropped / created if created else None
        for line, value in (("blocked", share), ("mean", mean)):
            if value is not None and not waits:
                rows.append(_row(one.start, line, 100.0 * value))
        listed.append(
            [
                moment(one.start),
                number("arrived", one.created),
                number("lost", one.dropped),
                number("share", share),
            ]
        )
    begun = max(since, bins[0].start, history.since or 0.0) if bins else now
    known = blocking(state, history.asides, Arrived(created, now - begun))
    if known.value is not None and not waits:
        theory = 100.0 * known.value
        rows += [_row(one.start, "theory", theory) for one in bins if one.start >= first]
    parts = [_status(known.reasons, "theory")]
    if known.value is None:
        parts = [note("No theory to compare with: " + "; ".join(known.reasons) + ".")]
    shown = facts(
        [
            ("arrived", number("arrived", created)),
            ("lost", number("lost", dropped)),
            ("share", number("share", dropped / created if created else None)),
            ("theory", number("theory", known.value)),
        ]
    )
    if sum(one.created for one in bins) > created:
        anew = ["Counted since", moment(since), "when rates, durations or servers changed."]
        parts.append(note(joined(anew, " ")))
    head = ["From", "arrived", "lost", "share"]
    return joined([*parts, shown]), rows, _latest("Blocking over time", head, listed)


def _status(reasons: Sequence[str], what: str) -> Html:
    """Whether the pool does what the number assumes."""
    if not reasons:
        return note(f"The pool does what the {what} assumes.")
    told = f"{REFERENCE[0].upper()}{REFERENCE[1:]}: {'; '.join(reasons)}."
    return note(told, "reference")


def _since(history: History, bins: Sequence[Bin]) -> Html:
    """Since when there are numbers."""
    if not bins or history.since is None:
        return note("Nothing has happened yet.")
    if history.complete:
        return Html("")
    told = ["Counted since", moment(history.since), "older records of the journal are not read."]
    return note(joined(told, " "))


def _row(start: float, line: str, value: float) -> Row:
    return {"time": round(start * 1000), "line": line, "value": float(f"{value:.6g}")}


def _latest(caption: str, head: Sequence[str], listed: list[list[Html]]) -> Html:
    if not listed:
        return note("Nothing has happened yet.")
    return table(caption, head, list(reversed(listed))[:LISTED])
