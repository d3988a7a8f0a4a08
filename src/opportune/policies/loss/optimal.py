"""The exact optimum over all work-conserving policies, by dynamic programming (ours).

Memoryless durations; means, servers per task and permitted pairs may differ between types. The
plan is a table from the state (running tasks of each kind) to what an arriving task gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.kernels.group import STATES, StateTables
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan
from opportune.policies.loss.headcount import not_applicable
from opportune.policies.loss.lag import tie_order
from opportune.pricing.exact import ExactValue, optimum
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.states import MAX_STATES

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Optimal:
    """Dynamic programming on all states. Implements: ours.

    Attributes:
        limit: Largest number of states.
    """

    id: ClassVar[str] = "optimal"
    title: ClassVar[str] = "Exact optimum by dynamic programming (small systems)"
    rank: ClassVar[int] = 14
    usual: ClassVar[bool] = False

    limit: int = MAX_STATES

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """The optimal table; ``prices`` are not needed.

        Raises:
            InputError: In the field "policy", if a duration is not memoryless or there are
                too many states.
        """
        try:
            best = optimum(instance, self.limit)
        except InputError as error:
            raise not_applicable(self.id, error) from error
        return optimal_plan(self.id, instance, best, "")


def optimal_plan(policy: str, instance: LossInstance, best: ExactValue, note: str) -> Plan:
    """A plan that follows a table of optimal actions."""
    space = best.space
    if best.action is None:
        raise ValueError("the value of a given policy has no actions")
    tables = StateTables(
        action=np.ascontiguousarray(best.action[:, space.merged.class_of]),
        up=space.moves.up,
        down=space.moves.down,
        team=space.team,
        group_of=space.merged.group_of,
        rule=STATES,
    )
    when_empty = _worth_when_empty(instance, best)
    plan = list_plan(policy, instance, when_empty, tie_order(instance), note)
    return Plan(policy, plan.tables, plan.index, note, tables)


def _worth_when_empty(instance: LossInstance, best: ExactValue) -> Float:
    """(V, R) in an empty system: value of the best team with server r, minus the best of all."""
    space, offers = best.space, best.space.offers
    after, (row, swift) = space.begun(best.bias / space.unit)
    worth = np.full(instance.match_reward.shape, -np.inf)
    for v, c in enumerate(space.merged.class_of):
        own = slice(offers.start[c], offers.start[c + 1])
        kinds = offers.kind[own]
        end = space.moves.end[kinds]
        with np.errstate(divide="ignore", invalid="ignore"):
            later = (after[space.moves.up[0, kinds]] - end * after[0]) / (1.0 - end)
        at_once = row[kinds] >= 0
        later[at_once] = swift[row[kinds][at_once], 0]
        value = (offers.reward[own] + later) * space.unit
        for g in range(space.merged.n_groups):
            with_group = space.team[kinds, g] > 0
            if with_group.any():
                gap = value[with_group].max() - value.max()
                worth[v, space.merged.group_of == g] = gap
    return worth
