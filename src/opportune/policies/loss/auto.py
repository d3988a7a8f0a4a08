"""Pick the policy that the size of the system allows, and say why.

Exact optimum where the states are few; the group or the headcount index where the LP by headcount
is moderate (the group index only where durations are memoryless with one mean: it is the sharper
tool for exactly that system); LAG in large pools, where static prices lose little (the mean-field
regime), and with forbidden pairs, where the headcount depends on the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from opportune.errors import InputError
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan
from opportune.policies.loss.headcount import Headcount
from opportune.policies.loss.headcount_group import HeadcountGroup
from opportune.policies.loss.lag import Lag
from opportune.policies.loss.optimal import optimal_plan
from opportune.pricing.exact import optimum
from opportune.pricing.headcount_chain import headcount_problem
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.states import memoryless_problem

MAX_STATES = 20_000
"""Most states for which the exact optimum is computed without being asked for by name."""


@dataclass(frozen=True)
class Auto:
    """The best policy that can be had in a few seconds. The note gives the reason."""

    id: ClassVar[str] = "auto"
    title: ClassVar[str] = "The best policy for the size of the system, with its reason"
    rank: ClassVar[int] = 15
    usual: ClassVar[bool] = False

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """The plan of the policy chosen, under this policy's id.

        Raises:
            OverloadError: If LAG is chosen, no prices are given and none exist.
        """
        plan, reason = choose(instance, prices)
        note = f"{plan.policy}: {reason}" + (f"; {plan.note}" if plan.note else "")
        return replace(plan, policy=self.id, note=note)


def choose(instance: LossInstance, prices: Relaxation | None) -> tuple[Plan, str]:
    """The plan and why its policy was chosen."""
    reasons = []
    if memoryless_problem(instance) is None:
        try:
            best = optimum(instance, MAX_STATES)
        except InputError as error:
            reasons.append(error.problems[0].value)
        else:
            plan = optimal_plan("optimal", instance, best, "")
            return plan, f"exact, {best.space.n_states} states"
    by_group = [(HeadcountGroup(), "equal servers, a moderate LP by group")]
    for policy, why in (
        *(by_group if headcount_problem(instance) is None else ()),
        (Headcount(), "a moderate LP by headcount"),
    ):
        try:
            return policy.plan(instance, prices), why
        except InputError as error:
            reasons.append(error.problems[0].value.removeprefix(f"{policy.id}: "))
    return Lag().plan(instance, prices), "; ".join(dict.fromkeys(reasons))
