"""Every bound that an instance admits, each with its label; the tightest says what is left.

OCC-LP(B) always (OCC-LP(<=) with forbidden pairs). Where the headcount is a chain that no policy
can change (memoryless durations of one mean, one k, no forbidden pair) also HC-LP, HC-group-LP
and, where the states are few, the exact optimum (``pricing/headcount*``, ``pricing/exact``).
"""

from __future__ import annotations

from dataclasses import dataclass

from opportune.errors import InputError
from opportune.experiments.prices import Blocking, demand_at
from opportune.model.loss import LossInstance
from opportune.pricing.exact import optimum
from opportune.pricing.headcount import headcount_prices, interior_work
from opportune.pricing.headcount_arms import count_arm_states
from opportune.pricing.headcount_chain import headcount_chain, headcount_problem
from opportune.pricing.headcount_groups import group_prices
from opportune.pricing.merged import arriving, merge
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation

INTERIOR_WORK = 2e9
"""Arithmetic operations that HC-LP may take here: about a quarter of a second."""

GROUP_VARIABLES = 4_000
"""Variables that HC-group-LP may have here: about a quarter of a second."""

EXACT_STATES = 4_000
"""States that the exact optimum may have here."""


@dataclass(frozen=True)
class Bound:
    """An upper bound on the reward per step of every work-conserving policy.

    Attributes:
        name: ``occ-lp``, ``occ-lp-at-most``, ``hc-lp``, ``hc-group-lp`` or ``exact``.
        value: Reward per step, from a closed form in the prices (exact: upper end of the bracket).
        blocking: B that it was computed at, None if it needs none.
        gap: Relative gap to the primal solution (exact: width of the bracket).
        label: ``proven`` (certificate, B exact or not needed), ``statistical`` (B simulated),
            ``exact`` (dynamic program).
    """

    name: str
    value: float
    blocking: float | None
    gap: float
    label: str


def bound_at(instance: LossInstance, blocking: Blocking) -> tuple[Bound, Relaxation]:
    """The certified bound at a known blocking (OCC-LP(<=) with forbidden pairs), and its LP."""
    demand = demand_at(instance, blocking)
    relaxation = price(instance, demand)
    needs_b = not demand.at_most
    proven = not needs_b or blocking.method == "exact"
    return (
        Bound(
            name=demand.name,
            value=relaxation.dual_value,
            blocking=blocking.value if needs_b else None,
            gap=relaxation.gap,
            label="proven" if proven else "statistical",
        ),
        relaxation,
    )


def headcount_bounds(instance: LossInstance) -> tuple[Bound, ...]:
    """HC-LP, HC-group-LP and the exact optimum, as far as each applies and is quick.

    Quick: the limits above, so that a comparison stays a matter of seconds. ``--policies
    headcount,optimal`` and the library take longer ones.
    """
    if not instance.arrival_rate.any():
        return ()
    found = _headcount_programs(instance) if headcount_problem(instance) is None else []
    try:
        best = optimum(instance, EXACT_STATES)
    except InputError:  # durations with a memory, or more states than that
        return tuple(found)
    width = best.span / best.value if best.value > 0 else 0.0
    return (*found, Bound("exact", best.upper, None, width, "exact"))


def _headcount_programs(instance: LossInstance) -> list[Bound]:
    found = []
    merged, chain = arriving(merge(instance)), headcount_chain(instance)
    if interior_work(merged, chain) <= INTERIOR_WORK:
        single = headcount_prices(instance)
        found.append(Bound("hc-lp", single.bound, None, single.gap, "proven"))
    if chain.k == 1:
        states = sum(count_arm_states(int(copies), chain) for copies in merged.copies)
        if states * (1 + 2 * merged.n_classes) <= GROUP_VARIABLES:
            group = group_prices(instance)
            found.append(Bound("hc-group-lp", group.bound, None, group.gap, "proven"))
    return found
