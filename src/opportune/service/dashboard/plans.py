"""Plans on the dashboard: the one in force, the one in the shadow, and the stored ones."""

from __future__ import annotations

from opportune.markup import Html, element, joined
from opportune.service.answers import PoolBody
from opportune.service.dashboard.figures import moment, name_of, number
from opportune.service.dashboard.tables import capped, facts, note, table
from opportune.service.plan_bodies import PlanBody
from opportune.service.plan_reading import plan_bodies
from opportune.service.state import State

MOST = 10
"""Stored plans that are listed."""

_SOURCES = {"plan": "prices of the pool", "priors": "prices of the declared priors"}


def plans(state: State, pool: PoolBody) -> Html:
    """The active plan, the shadow beside it, and the latest stored ones."""
    bodies = plan_bodies(state)
    active = next((body for body in bodies if body.active), None)
    shadow = next((body for body in bodies if body.shadow), None)
    parts = [_active(active, pool), _shadow(shadow, pool)]
    if bodies:
        parts.append(_stored(bodies))
    return joined(parts)


def _active(body: PlanBody | None, pool: PoolBody) -> Html:
    if body is None:
        told = "No plan is in force: servers are tried by score."
        return note(f"{told} Make one: POST /v1/pools/{{pool}}/plans.", "warning")
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


def _shadow(body: PlanBody | None, pool: PoolBody) -> Html:
    agreed = pool.counts.get("shadow_agreed", 0)
    differed = pool.counts.get("shadow_differed", 0)
    if body is None and not agreed + differed:
        return note("No plan decides in the shadow.")
    pairs: list[tuple[str, str]] = [
        ("In the shadow", "none now" if body is None else name_of(body.id)),
        ("shadow_agreed", number("shadow_agreed", agreed)),
        ("shadow_differed", number("shadow_differed", differed)),
        (
            "disagreement",
            number("disagreement", differed / (agreed + differed) if agreed + differed else None),
        ),
    ]
    return facts(pairs)


def _stored(bodies: list[PlanBody]) -> Html:
    shown = list(reversed(bodies))[:MOST]
    rows = [
        [
            name_of(body.id),
            name_of(body.policy),
            element("span", "active" if body.active else "shadow" if body.shadow else "stored"),
            number("bound", body.bound),
            Html("") if body.activated_at is None else moment(body.activated_at),
        ]
        for body in shown
    ]
    told = capped(len(rows), len(bodies), "The latest ones.")
    head = ["Plan", "Policy", "State", "bound", "Put in force"]
    scrolled = element(
        "div",
        table("Stored plans", head, rows),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Stored plans",
    )
    return joined([told, scrolled])
