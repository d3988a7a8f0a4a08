"""Decisions: the latest ones as a list, and the why of any."""

from __future__ import annotations

from itertools import islice

from opportune.markup import Html, element, joined
from opportune.service.answers import DecisionBody
from opportune.service.dashboard.figures import moment, name_of, number
from opportune.service.dashboard.tables import facts, note, scrolled, table
from opportune.service.events import Offered, Pick
from opportune.service.reading import decision_of, stored_decision
from opportune.service.state import State

MOST = 25
"""Decisions in the list."""

MOST_NAMES = 8
"""Servers of a decision that the list names."""

_RULES = {
    "list": "the plan's order",
    "list-ties": "the plan's order, ties at random",
    "weights": "at random, by the plan's weights",
    "context": "by the scores of the task's own context",
    "pins": "the servers that the task was pinned to",
}


def latest(state: State) -> Html:
    """The latest decisions, newest first."""
    rows = []
    for stored in islice(reversed(state.decisions), MOST):
        event = stored_decision(state, stored)
        task = None if event is None else state.tasks.get(event.task)
        if event is None or task is None:
            continue
        body = decision_of(state, task, event)
        rows.append(
            [
                _button(body),
                moment(body.time),
                name_of(body.task_type),
                _result(event.picks) if isinstance(event, Offered) else _dropped(),
                number("score_sum", _score(body)) if body.picks else Html(""),
                name_of(body.why.plan) if body.why.plan is not None else Html("none"),
            ]
        )
    if not rows:
        split = state.settings is not None and state.settings.partitions > 1
        where = "Decisions are on the pages of the pool's parts."
        return note(where if split else "Nothing has been decided yet.")
    head = ["Decision", "Time", "Type", "Result", "score_sum", "Plan"]
    return table("Latest decisions", head, rows)


def explained(body: DecisionBody, sees_all: bool) -> Html:
    """Why a decision came out as it did.

    Args:
        body: The decision.
        sees_all: Whether the reasons of exclusion are shown.
    """
    why = body.why
    pairs: list[tuple[str, str]] = [
        ("Decision", name_of(body.decision_id)),
        ("Task", name_of(body.task_id)),
        ("Task type", name_of(body.task_type)),
        ("Time", moment(body.time)),
        ("Plan", name_of(why.plan) if why.plan is not None else "none"),
        ("Rule", _RULES.get(why.rule, why.rule)),
        ("demand_price", number("demand_price", why.demand_price)),
        ("mean_duration", number("mean_duration", why.mean_duration)),
        ("n_permitted", number("n_permitted", why.n_permitted)),
        ("n_free", number("n_free", why.n_free)),
        ("headcount", number("headcount", why.headcount)),
        ("lost_by", number("lost_by", body.lost_by)),
    ]
    parts = []
    if why.degraded:
        parts.append(note(f"Degraded: {why.degraded}.", "warning"))
    if not body.picks:
        told: list[str] = ["Dropped: too few permitted servers were free."]
        if body.expected_free is not None:
            told += ["Enough were expected to be free at", moment(body.expected_free)]
        parts.append(note(joined(told, " "), "warning"))
    parts += [facts(pairs), _candidates(body), _shadow(body), _excluded(body, sees_all)]
    return joined(parts)


def _candidates(body: DecisionBody) -> Html:
    """Who was picked, and who would have been next."""
    title = element("h3", "Candidates")
    if not body.servers:
        return joined([title, note("No permitted server was free.")])
    rows = [
        [
            name_of(one.server),
            element("span", one.role, class_=f"role {one.role}"),
            number("index", one.index),
            number("score", one.score),
            number("opportunity_cost", one.opportunity_cost),
            number("demand_part", one.demand_price),
            number("capacity_part", one.capacity_cost),
            number("busy_seconds", one.busy_seconds),
            number("capacity_price", one.capacity_price),
            number("propensity", one.propensity),
        ]
        for one in body.servers
    ]
    head = [
        "Server",
        "Role",
        "index",
        "score",
        "opportunity_cost",
        "demand_part",
        "capacity_part",
        "busy_seconds",
        "capacity_price",
        "propensity",
    ]
    formula = (
        "Index = score − opportunity cost; opportunity cost = demand price + busy for × capacity "
        "price."
    )
    parts = [title, note(formula)]
    if any(one.by_prices is False for one in body.servers):
        told = "the score was changed after the plan was made, or the plan orders by something else"
        parts.append(note(f"Not so for every server here: {told}.", "warning"))
    listed = scrolled("Candidates", table("Candidates", head, rows))
    return joined([*parts, listed])


def _shadow(body: DecisionBody) -> Html:
    why = body.why
    if why.shadow is None:
        return Html("")
    same = sorted(why.shadow_picks) == sorted(pick.server for pick in body.picks)
    picks = (
        joined([name_of(one) for one in why.shadow_picks], ", ") if why.shadow_picks else "nobody"
    )
    verdict = "agreed: it would have picked" if same else "differed: it would have picked"
    told = ["Plan", name_of(why.shadow), verdict, picks]
    return joined([element("h3", "In the shadow"), note(joined(told, " "))])


def _excluded(body: DecisionBody, sees_all: bool) -> Html:
    title = element("h3", "Passed over")
    if not sees_all:
        told = "Who was passed over, and why, is shown to keys with the scope admin."
        return joined([title, note(told)])
    if not body.why.excluded:
        return joined([title, note("Nobody stood before the last pick in the plan's order.")])
    rows = [[name_of(one.server), element("span", one.reason)] for one in body.why.excluded]
    return joined([title, table("Passed over", ["Server", "Reason"], rows)])


def _button(body: DecisionBody) -> Html:
    """Opens the why."""
    return element(
        "button",
        body.decision_id,
        type="button",
        class_="why name",
        id=f"why-{body.decision_id}",
        data_decision=body.decision_id,
        aria_label=f"Why {body.decision_id}?",
        title="Why was this decided?",
    )


def _result(picks: list[Pick]) -> Html:
    shown: list[str] = [name_of(pick.server) for pick in picks[:MOST_NAMES]]
    return joined([*shown, "…"] if len(picks) > MOST_NAMES else shown, ", ")


def _dropped() -> Html:
    return element("span", "dropped", class_="dropped")


def _score(body: DecisionBody) -> float | None:
    known = [pick.score for pick in body.picks if pick.score is not None]
    return sum(known) if known else None
