"""The headcount index: what a server's time is worth depends on how busy the system is (ours).

I(v,r|n) = s_vr - (A W_r)(n) from HC-LP, n the tasks in service; the k free servers of highest
index serve. Servers whose indices tie go by pi (the less generally useful first) or by pi
reversed: whichever earns more, evaluated exactly, where the states are few; otherwise by pi.

Durations that are not memoryless with one mean are priced by their memoryless surrogate, whose
headcount forgets faster or slower than the real one. Then the index is the mean of I and LAG's
static L: measured on Low-rank (D = 43) I alone loses up to .17 % to LAG, the mean gains .1 to
.2 % at every load (``docs/explanation/headcount.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, OverloadError, Problem
from opportune.kernels.allocate import PlanTables
from opportune.kernels.group import GroupTables
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan
from opportune.policies.levels import headcount_list
from opportune.policies.loss.lag import tie_order
from opportune.pricing.evaluation import exact_value
from opportune.pricing.headcount import HeadcountPrices, headcount_prices, surrogate_note
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation

Float = NDArray[np.float64]
SomeTables = TypeVar("SomeTables", PlanTables, GroupTables)

FEW_STATES = 2_000
"""Ties are evaluated exactly up to this many states."""

MAX_WORK = 2e11
"""Arithmetic operations that prices for a plan may take: some ten seconds."""


@dataclass(frozen=True)
class Headcount:
    """Reward minus what a busy server loses, by tasks in service. Implements: ours.

    Attributes:
        share: Weight of the headcount index beside LAG's where the durations are a surrogate's.
    """

    id: ClassVar[str] = "headcount"
    title: ClassVar[str] = "LAG by headcount: prices that know how busy the system is"
    rank: ClassVar[int] = 12
    usual: ClassVar[bool] = False

    share: float = 0.5

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """One list per type and headcount.

        ``prices`` matter only with a surrogate; where none exist the headcount index stands alone.

        Raises:
            InputError: In the field "policy", if the headcount depends on the policy or the
                LP is too large.
        """
        found = prices_for(self.id, instance)
        index, note = found.index, surrogate_note(instance)
        static = self._static(instance, prices) if found.surrogate else None
        if static is not None:
            index = self.share * index + (1.0 - self.share) * static[:, :, None]
            note += f", index {1.0 - self.share:g} LAG + {self.share:g} headcount"
        mean = index @ (found.chain.take_law / found.chain.take_law.sum())
        return Plan(policy=self.id, tables=resolved(instance, index), index=mean, note=note)

    def _static(self, instance: LossInstance, prices: Relaxation | None) -> Float | None:
        """(V, R) LAG's index, if there is one."""
        if prices is None:
            try:
                prices = price(instance)
            except OverloadError:
                return None
        return prices.index


def prices_for(policy: str, instance: LossInstance) -> HeadcountPrices:
    """Prices by headcount for a policy.

    Raises:
        InputError: In the field "policy", if there are none.
    """
    try:
        return headcount_prices(instance, max_work=MAX_WORK)
    except InputError as error:
        raise not_applicable(policy, error) from error


def not_applicable(policy: str, error: InputError) -> InputError:
    """The same reasons, as a reason why a policy cannot be used."""
    return InputError(
        Problem("policy", f"{policy}: {problem.value}", problem.expected, problem.remedy)
        for problem in error.problems
    )


def resolved(instance: LossInstance, index: Float) -> PlanTables:
    """The lists of an index (V, R, M) with its ties resolved on purpose."""
    pi = tie_order(instance)
    unit = float(instance.match_reward.max()) or 1.0
    forward, backward = (headcount_list(index, way, unit) for way in (pi, -pi))
    if np.array_equal(forward.order, backward.order):
        return forward
    return better_of(instance, forward, backward)


def better_of(instance: LossInstance, forward: SomeTables, backward: SomeTables) -> SomeTables:
    """Of two plans that differ in their ties, the one worth more on the memoryless twin.

    The first where they are equal, or where the twin has too many states to tell.
    """
    twin = memoryless_twin(instance)
    try:
        values = [exact_value(twin, one, FEW_STATES).value for one in (forward, backward)]
    except InputError:
        return forward
    return backward if values[1] > values[0] * (1 + 1e-9) else forward


def memoryless_twin(instance: LossInstance) -> LossInstance:
    """The instance with every duration memoryless, of the same mean."""
    return replace(instance, duration=tuple(Geometric(one.mean) for one in instance.duration))
