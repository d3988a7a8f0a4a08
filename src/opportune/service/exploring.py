"""The share of tasks that go to servers at random, and what picks are then to be weighed with.

With probability eps (``learner.exploration``) the k servers are a uniform sample of the free,
permitted servers whose pair may still be good (``learned.upper_of`` reaches ``learner.floor``);
otherwise, and where fewer than k of them are free, the plan picks. Nothing is picked that the task
may not have.

Propensities are those of the mixture, whichever of the two picked:

- a list, with or without ties: P(r is among the picks) = (1 - eps) P_plan(r) + eps k / n over the n
  servers that qualify. It is a marginal: those of one decision sum to k;
- by weight: P(the j-th pick | the picks before it, in their order). Of two ways to come to the same
  beginning, each counts by how likely it made it. For k = 1 the two are one.

Implements: ours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from opportune.kernels.allocate import SAMPLE, PlanTables, index_below
from opportune.service.resources import PoolSettings
from opportune.service.routing import Routing
from opportune.service.state import State
from opportune.service.turn import Turn


class Explored(NamedTuple):
    """What becomes of a decision with a share of exploration.

    Attributes:
        picks: The servers; ``propensity``: of each.
        draws: Words that were used.
        drawn: Whether the servers were drawn at random.
        given_up: Index of the plan's picks minus index of these.
    """

    picks: list[int]
    propensity: list[float]
    draws: list[int]
    drawn: bool
    given_up: float

    @property
    def told(self) -> dict[str, Any]:
        """What the reasons of the decision say of it."""
        return {"explored": True, "given_up": self.given_up} if self.drawn else {}


class Place(NamedTuple):
    """Which row of a plan decides: task type, headcount, servers wanted."""

    v: int
    h: int
    k: int


def share_of(settings: PoolSettings) -> float:
    """eps of a pool; 0 where learning is not on."""
    return settings.learner.exploration if settings.learning == "on" else 0.0


def explore(turn: Turn, routing: Routing, place: Place, share: float) -> Explored | None:
    """Pick by the mixture; None where too few servers qualify: the plan's picks and propensities.

    Args:
        turn: The pool, and its draws.
        routing: The plan has just picked: ``routing.explained`` holds its servers.
        place: Whose servers.
        share: eps, above 0.
    """
    state, (v, _, k) = turn.state, place
    n_servers = len(state.servers)
    may = routing.allowed[v] & (state.closed[:n_servers] == 0)
    if routing.explorable is not None:
        may &= routing.explorable[v]
    candidates = np.flatnonzero(may).tolist()
    if len(candidates) < k:
        return None
    planned = routing.explained.picks[:k].tolist()
    words = turn.draw(1 + k)
    drawn = float(words[0, 0]) < share * 2.0**32
    picks = list(planned)
    if drawn:
        left = list(candidates)
        for j in range(k):
            at = j + int(index_below(words[0, 1 + j], len(left) - j))
            left[j], left[at] = left[at], left[j]
        picks = left[:k]
    tables = routing.tables
    if tables.rule == SAMPLE:
        propensity = _sequential(state, tables, place, (picks, candidates), share)
    else:
        plan = _inclusion(state, tables, place)
        uniform = dict.fromkeys(candidates, k / len(candidates))
        propensity = [(1.0 - share) * plan.get(r, 0.0) + share * uniform.get(r, 0.0) for r in picks]
    index = np.nan_to_num(routing.index[v], nan=0.0, neginf=0.0)
    given_up = float(index[planned].sum() - index[picks].sum()) if drawn else 0.0
    return Explored(picks, propensity, words[0].tolist(), drawn, given_up)


def _inclusion(state: State, tables: PlanTables, place: Place) -> dict[int, float]:
    """P_plan(r is among the picks) by the list, of those for which it is above 0."""
    v, h, k = place
    found: dict[int, float] = {}
    left, level = k, -1
    tie: list[int] = []
    for position in range(int(tables.n_allowed[v])):
        r, its = int(tables.order[v, h, position]), int(tables.level[v, h, position])
        if its != level:
            found.update(dict.fromkeys(tie, min(left / max(len(tie), 1), 1.0)))
            left -= min(left, len(tie))
            tie, level = [], its
            if left == 0:
                return found
        if state.closed[r] == 0:
            tie.append(r)
    found.update(dict.fromkeys(tie, min(left / max(len(tie), 1), 1.0)))
    return found


def _sequential(
    state: State,
    tables: PlanTables,
    place: Place,
    drawn: tuple[list[int], list[int]],
    share: float,
) -> list[float]:
    """P(pick j | picks before) of the mixture of a sample by weight and a uniform one."""
    (v, h, _), (picks, candidates) = place, drawn
    order = [int(r) for r in tables.order[v, h, : int(tables.n_allowed[v])]]
    level = dict(zip(order, tables.level[v, h].tolist(), strict=False))
    left = [r for r in order if state.closed[r] == 0]
    by_plan, by_chance = 1.0 - share, share
    found = []
    for j, r in enumerate(picks):
        total = float(sum(tables.weight[v, one] for one in left))
        if total > 0.0:
            chance = float(tables.weight[v, r]) / total
        else:  # no weight is left: by the list, ties by chance
            tie = [one for one in left if level[one] == level[left[0]]]
            chance = 1.0 / len(tie) if r in tie else 0.0
        before = by_plan + by_chance
        by_plan *= chance
        by_chance *= 1.0 / (len(candidates) - j) if r in candidates else 0.0
        found.append(min((by_plan + by_chance) / before, 1.0))
        left.remove(r)
    return found
