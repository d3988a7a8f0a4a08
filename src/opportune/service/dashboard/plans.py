"""Plans on the dashboard: the one in force, the one in the shadow, and the stored ones."""

from __future__ import annotations

from opportune.markup import Html, element, joined
from opportune.service.answers import PoolBody
from opportune.service.dashboard.figures import moment, name_of, number
from opportune.service.dashboard.tables import capped, facts, note, scrolled, table
from opportune.service.plan_bodies import PlanBody
from opportune.service.plan_reading import plan_bodies
from opportune.service.shadowing import WORSE
from opportune.service.state import State

MOST = 10
"""Plans that are listed."""

_VERDICTS = {
    "worse": "worse at both plans' prices",
    "better": "better at both plans' prices",
    "open": "open: the intervals do not tell",
}
_SOURCES = {"plan": "prices of the pool", "priors": "prices of the declared priors"}


def plans(state: State, pool: PoolBody) -> Html:
    """The active plan, the shadow beside it, and the latest ones of all."""
    bodies = plan_bodies(state)
    active = next((body for body in bodies if body.active), None)
    own = [_active(active, pool)]
    if bodies:
        own.append(_stored(bodies))
    both = [element("div", joined(own)), element("div", _shadow(bodies))]
    return element("div", joined(both), class_="halves")


def _active(body: PlanBody | None, pool: PoolBody) -> Html:
    if body is None:
        how = element("code", "POST /v1/pools/{pool}/plans")
        told = joined(["No plan is in force: servers are tried by score. Make one:", how], " ")
        return note(told, "warning")
    pairs: list[tuple[str, str]] = [
        ("In force", name_of(body.id)),
        ("Policy", name_of(body.policy)),
        ("Made from", _SOURCES.get(body.source, body.source)),
        ("plan_age", number("plan_age", pool.plan_age)),
        ("bound", number("bound", body.bound)),
        ("gap", number("gap", body.gap)),
    ]
    if body.note:
        pairs.append(("Note", name_of(body.note)))
    return facts(pairs)


def _shadow(bodies: list[PlanBody]) -> Html:
    """The plan in the shadow, or the one that was there last, and what came of it."""
    stays = [(body, body.in_shadow) for body in bodies if body.in_shadow is not None]
    if not stays:
        return note("No plan has decided in the shadow.")
    body, stay = max(stays, key=lambda one: (one[0].shadow, one[1].since))
    pairs: list[tuple[str, str]] = [
        ("In the shadow" if body.shadow else "Was in the shadow", name_of(body.id)),
        ("Against", "none" if stay.against is None else name_of(stay.against)),
        ("shadow_decisions", number("shadow_decisions", stay.decisions)),
        ("disagreement", number("disagreement", stay.disagreement)),
        ("Verdict", _VERDICTS.get(stay.verdict, stay.verdict)),
    ]
    rows = [
        [element("span", name), number("gain", one.mean), number("half_width", one.half_width)]
        for name, one in (
            ("Score at once", stay.score),
            ("At the active plan's prices", stay.at_active_prices),
            ("At the shadow's prices", stay.at_shadow_prices),
        )
    ]
    head = ["Shadow minus active", "gain", "half_width"]
    compared = scrolled("Shadow minus active", table("Shadow minus active", head, rows))
    parts = [element("h3", "Shadow"), facts(pairs), compared]
    if stay.verdict == WORSE:
        parts.insert(1, note("Worse at both plans' prices: do not activate it.", "warning"))
    return joined(parts)


def _stored(bodies: list[PlanBody]) -> Html:
    shown = list(reversed(bodies))[:MOST]
    rows = [
        [
            name_of(body.id),
            name_of(body.policy),
            _state(body),
            number("bound", body.bound),
            Html("") if body.activated_at is None else moment(body.activated_at),
        ]
        for body in shown
    ]
    told = capped(len(rows), len(bodies), "They are the latest.")
    head = ["Plan", "Policy", "State", "bound", "Put in force"]
    listed = scrolled("List of plans", table("Plans", head, rows))
    return joined([element("h3", "All plans"), told, listed])


def _state(body: PlanBody) -> Html:
    """The state of a plan, and why it is in it."""
    told = [text for text in (body.reason, body.detail) if text]
    state = element("span", body.state)
    return joined([state, name_of(f"({'; '.join(told)})")], " ") if told else state
