"""How the index of each server in a decision comes about: score less opportunity cost, in parts.

Implements: LAG Def. 3.3 (quoted): L(v,r) = s_vr - (l_v + E[D_vr] q_r), with l_v the demand price,
q_r the capacity price and E[D_vr] the mean seconds of service.
"""

from __future__ import annotations

import math

from msgspec import Struct

from opportune.service.events import Offered, Pick, Reasons, TaskDropped

PICKED, RUNNER_UP, ALTERNATE = "picked", "runner-up", "alternate"

SAME = 1e-6
"""Up to this, in shares of the larger one, a plan's index is score minus cost."""


class ExplainedServer(Struct, frozen=True, kw_only=True):
    """A server in a decision: score - (demand price + capacity cost) = index.

    Attributes:
        server: Its name.
        role: ``picked``, ``runner-up`` (the first that was free and not picked) or ``alternate``.
        score: Match reward.
        demand_price: l_v: what serving one more task of the type is worth.
        busy_seconds: E[D_vr] that the cost counts with; the type's own where time costs nothing.
        capacity_price: q_r in reward per second.
        capacity_cost: E[D_vr] q_r: what the server's time is worth.
        opportunity_cost: Demand price plus capacity cost.
        index: What the plan orders by.
        by_prices: Whether index is score minus opportunity cost. Not so if the score was changed
            after the plan was made, or the plan orders by something else.
        propensity: Probability of the pick.
    """

    server: str
    role: str
    score: float | None
    demand_price: float | None
    busy_seconds: float | None
    capacity_price: float | None
    capacity_cost: float | None
    opportunity_cost: float | None
    index: float | None
    by_prices: bool | None
    propensity: float


def explained(event: Offered | TaskDropped) -> list[ExplainedServer]:
    """The picks, then who would have been next; of a drop those that were free."""
    why = event.why
    picks = event.picks if isinstance(event, Offered) else []
    found = [_explained(pick, why, PICKED) for pick in picks]
    for i, pick in enumerate(why.alternates):
        found.append(_explained(pick, why, RUNNER_UP if i == 0 and picks else ALTERNATE))
    return found


def lost_by(event: Offered | TaskDropped) -> float | None:
    """Index of the last pick minus index of the runner-up; None without one.

    It may be negative where the order is not by the index: pins, weights, a draw at random, or
    servers that the plan does not know.
    """
    if not isinstance(event, Offered) or not event.picks or not event.why.alternates:
        return None
    last, following = event.picks[-1].index, event.why.alternates[0].index
    return None if last is None or following is None else last - following


def _explained(pick: Pick, why: Reasons, role: str) -> ExplainedServer:
    cost, demand = pick.opportunity_cost, why.demand_price
    capacity = None if cost is None or demand is None else cost - demand
    return ExplainedServer(
        server=pick.server,
        role=role,
        score=pick.score,
        demand_price=demand,
        busy_seconds=_busy_seconds(capacity, pick.capacity_price, why.mean_duration),
        capacity_price=pick.capacity_price,
        capacity_cost=capacity,
        opportunity_cost=cost,
        index=pick.index,
        by_prices=_by_prices(pick),
        propensity=pick.propensity,
    )


def _busy_seconds(cost: float | None, price: float | None, mean: float | None) -> float | None:
    """E[D_vr] from the cost: a pair may have its own; the type's own where they agree."""
    if cost is None or not price:
        return mean
    seconds = cost / price
    return mean if mean is not None and math.isclose(seconds, mean, rel_tol=SAME) else seconds


def _by_prices(pick: Pick) -> bool | None:
    if pick.index is None or pick.score is None or pick.opportunity_cost is None:
        return None
    scale = max(abs(pick.score), abs(pick.opportunity_cost), 1e-12)
    return abs(pick.score - pick.opportunity_cost - pick.index) <= SAME * scale
