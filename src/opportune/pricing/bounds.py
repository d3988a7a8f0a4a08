"""All upper bounds that an instance has beyond the occupancy LP, each with its label.

``exact`` is the optimum itself (dynamic programming), ``proven`` has a closed-form certificate,
``statistical`` holds up to sampling error. Values about a memoryless surrogate are no bounds and
are not listed. OCC-LP(B) and OCC-LP(<=) are made elsewhere (``pricing.occupancy``).
"""

from __future__ import annotations

from dataclasses import dataclass

from opportune.errors import InputError, SolverError
from opportune.model.loss import LossInstance
from opportune.pricing.exact import optimum
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.headcount_chain import headcount_problem
from opportune.pricing.headcount_groups import group_prices
from opportune.pricing.headcount_knots import knot_bound
from opportune.pricing.headcount_pathwise import pathwise_bound, pathwise_problem
from opportune.pricing.states import memoryless_problem

EXACT_STATES = 20_000
"""Most states for which the optimum is computed without being asked for."""

MODERATE_WORK = 2e11
"""Arithmetic operations of HC-LP up to which it is solved to the end; beyond, by knots."""


@dataclass(frozen=True)
class CertifiedBound:
    """An upper bound on the reward per step of every work-conserving policy.

    Attributes:
        name: ``hc-lp``, ``hc-group-lp``, ``exact`` or ``pathwise``.
        value: Reward per step.
        gap: Relative gap to the value that the solver reached; 0 where there is none.
        label: ``exact``, ``proven`` or ``statistical``.
        note: What a reader should know, for example the number of states.
    """

    name: str
    value: float
    gap: float
    label: str
    note: str = ""


def bounds_for(
    instance: LossInstance,
    states: int = EXACT_STATES,
    work: float = MODERATE_WORK,
    pathwise: bool = False,
    seed: int = 1,
) -> tuple[CertifiedBound, ...]:
    """Every bound that applies, in the order hc-lp, hc-group-lp, pathwise, exact.

    Args:
        instance: Any instance; an empty tuple means that none applies.
        states: Limit of the states for the exact optimum.
        work: Limit of the arithmetic for HC-LP; larger ones get a looser bound by knots.
        pathwise: Whether to compute the statistical bound for deterministic durations (some
            15 seconds).
        seed: Seed of its paths.
    """
    found = []
    if headcount_problem(instance) is None:
        found += _by_headcount(instance, work)
    if pathwise and pathwise_problem(instance) is None:
        made = pathwise_bound(instance, seed)
        mean, error = made.mean, made.standard_error
        note = f"mean {mean:.6g}, standard error {error:.2g}"
        found.append(CertifiedBound("pathwise", made.value, 0.0, "statistical", note))
    if memoryless_problem(instance) is None:
        try:
            best = optimum(instance, states)
        except InputError:
            return tuple(found)
        note = f"{best.space.n_states} states"
        gap = best.span / best.upper if best.upper > 0 else 0.0
        found.append(CertifiedBound("exact", best.upper, gap, "exact", note))
    return tuple(found)


def _by_headcount(instance: LossInstance, work: float) -> list[CertifiedBound]:
    found = []
    try:
        made = headcount_prices(instance, max_work=work)
        found.append(CertifiedBound("hc-lp", made.bound, made.gap, "proven"))
    except InputError:
        try:
            rough = knot_bound(instance)
        except InputError:
            return found
        note = f"prices on {rough.knots} headcounts; the gap is the gain of the last round"
        found.append(CertifiedBound("hc-lp", rough.bound, rough.last_gain, "proven", note))
    columns = {column.tobytes() for column in instance.match_reward.T}
    if len(columns) < instance.n_servers:
        try:
            group = group_prices(instance)
            found.append(CertifiedBound("hc-group-lp", group.bound, group.gap, "proven"))
        except (InputError, SolverError):
            pass  # too large: HC-LP stands
    return found
