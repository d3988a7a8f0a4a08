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
from opportune.pricing.headcount import headcount_prices, interior_work
from opportune.pricing.headcount_arms import count_arm_states
from opportune.pricing.headcount_chain import headcount_chain, headcount_problem
from opportune.pricing.headcount_groups import MAX_VARIABLES, group_prices
from opportune.pricing.headcount_knots import knot_bound
from opportune.pricing.headcount_pathwise import pathwise_bound, pathwise_problem
from opportune.pricing.merged import arriving, merge
from opportune.pricing.states import memoryless_problem


@dataclass(frozen=True)
class Effort:
    """How much work the bounds may be.

    Attributes:
        states: Most states for the exact optimum.
        work: Most arithmetic operations for HC-LP.
        variables: Most variables for HC-group-LP.
        knots: Whether a larger HC-LP is bounded with few price knots (seconds), or left out.
        pathwise: Whether to compute the statistical bound for deterministic durations (some
            15 seconds).
    """

    states: int
    work: float
    variables: int
    knots: bool
    pathwise: bool


QUICK = Effort(states=4_000, work=2e9, variables=4_000, knots=False, pathwise=False)
"""Each bound in a fraction of a second."""

MODERATE = Effort(states=20_000, work=2e11, variables=MAX_VARIABLES, knots=True, pathwise=False)
"""Some seconds each."""

THOROUGH = Effort(states=50_000, work=2e11, variables=MAX_VARIABLES, knots=True, pathwise=True)
"""All that there is: up to a minute."""


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
    instance: LossInstance, effort: Effort = MODERATE, seed: int = 1
) -> tuple[CertifiedBound, ...]:
    """Every bound that applies, in the order hc-lp, hc-group-lp, pathwise, exact.

    Args:
        instance: Any instance; an empty tuple means that none applies.
        effort: What is too much work and left out.
        seed: Seed of the paths of the statistical bound.
    """
    if not instance.arrival_rate.any():
        return ()
    found = []
    if headcount_problem(instance) is None:
        found += _by_headcount(instance, effort)
    if effort.pathwise and pathwise_problem(instance) is None:
        made = pathwise_bound(instance, seed)
        mean, error = made.mean, made.standard_error
        note = f"mean {mean:.6g}, standard error {error:.2g}"
        found.append(CertifiedBound("pathwise", made.value, 0.0, "statistical", note))
    if memoryless_problem(instance) is None:
        try:
            best = optimum(instance, effort.states)
        except InputError:
            return tuple(found)
        note = f"{best.space.n_states} states"
        gap = best.span / best.upper if best.upper > 0 else 0.0
        found.append(CertifiedBound("exact", best.upper, gap, "exact", note))
    return tuple(found)


def _by_headcount(instance: LossInstance, effort: Effort) -> list[CertifiedBound]:
    found = []
    merged, chain = arriving(merge(instance)), headcount_chain(instance)
    if interior_work(merged, chain) <= effort.work:
        made = headcount_prices(instance)
        found.append(CertifiedBound("hc-lp", made.bound, made.gap, "proven"))
    elif effort.knots:
        try:
            rough = knot_bound(instance)
        except InputError:
            return found
        note = f"prices on {rough.knots} headcounts; the gap is the gain of the last round"
        found.append(CertifiedBound("hc-lp", rough.bound, rough.last_gain, "proven", note))
    if merged.n_groups < instance.n_servers:
        states = sum(count_arm_states(int(copies), chain) for copies in merged.copies)
        if states * (1 + merged.n_classes * (chain.k + 1)) <= effort.variables:
            try:
                group = group_prices(instance)
                found.append(CertifiedBound("hc-group-lp", group.bound, group.gap, "proven"))
            except (InputError, SolverError):
                pass  # too large, or not solved to optimality: HC-LP stands
    return found
