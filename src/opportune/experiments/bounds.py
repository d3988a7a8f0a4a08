"""Every bound that an instance admits, each with its label; the tightest says what is left.

OCC-LP(B) always (OCC-LP(<=) with forbidden pairs). Where the headcount is a chain that no policy
can change (memoryless durations of one mean, one k, no forbidden pair) also HC-LP, HC-group-LP
and, where the states are few, the exact optimum (``pricing/headcount*``, ``pricing/exact``).
"""

from __future__ import annotations

from dataclasses import dataclass

from opportune.experiments.prices import Blocking, demand_at
from opportune.model.loss import LossInstance
from opportune.pricing.bounds import QUICK, THOROUGH, bounds_for
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop


@dataclass(frozen=True)
class Bound:
    """An upper bound on the reward per step of every work-conserving policy.

    Attributes:
        name: ``occ-lp``, ``occ-lp-at-most``, ``hc-lp``, ``hc-group-lp``,
            ``pathwise`` or ``exact``.
        value: Reward per step, from a closed form in the prices (exact: upper end of the bracket).
        blocking: B that it was computed at, None if it needs none.
        gap: Relative gap to the primal solution (exact: width of the bracket).
        label: ``proven`` (certificate, B exact or not needed), ``statistical`` (B or the
            bound itself simulated),
            ``exact`` (dynamic program).
    """

    name: str
    value: float
    blocking: float | None
    gap: float
    label: str


def bound_at(
    instance: LossInstance, blocking: Blocking, stop: Stop | None = None
) -> tuple[Bound, Relaxation]:
    """The certified bound at a known blocking (OCC-LP(<=) with forbidden pairs), and its LP.

    Ended early by ``stop`` it is looser, and holds all the same.
    """
    demand = demand_at(instance, blocking)
    relaxation = price(instance, demand, stop=stop)
    needs_b = not demand.at_most
    label = "proven" if not needs_b or blocking.method == "exact" else "statistical"
    if instance.is_part_time:  # what servers finish after their shift is beyond the program
        label = "surrogate"
    return (
        Bound(
            name=demand.name,
            value=relaxation.dual_value,
            blocking=blocking.value if needs_b else None,
            gap=relaxation.gap,
            label=label,
        ),
        relaxation,
    )


def further_bounds(
    instance: LossInstance, thorough: bool = False, seed: int = 1
) -> tuple[Bound, ...]:
    """HC-LP, HC-group-LP, the pathwise bound and the exact optimum, as far as each applies.

    Args:
        instance: Any instance.
        thorough: Take up to a minute; otherwise only what takes a fraction of a second.
        seed: Seed of the paths of the statistical bound.
    """
    found = bounds_for(instance, THOROUGH if thorough else QUICK, seed)
    return tuple(Bound(one.name, one.value, None, one.gap, one.label) for one in found)
