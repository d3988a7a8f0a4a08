"""Tables of queue policies: what their files have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from opportune.errors import InputError, Problem, shorten
from opportune.kernels.logistic_fit import NO_ESTIMATOR, Fitting
from opportune.kernels.queue import INDEX, QueueTables, Radius, Schedule
from opportune.learning.confidence import constant_radius, paper_radius
from opportune.learning.estimator import GROWTH, fitting
from opportune.learning.phases import (
    Phases,
    Setting,
    exact_phases,
    exploration_share,
    fractional_phases,
)
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan

HEURISTIC = "heuristic: no regret bound is proved for it"
"""Note of a plan that is ours, or that has knobs other than those of a proof."""

NO_EXPLORATION = Schedule(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, True, False, 0.0)


@dataclass(frozen=True)
class Learning:
    """How a policy estimates.

    Attributes:
        ridge: lambda_0.
        norm_bound: S, infinite for no constraint.
        estimator: ``exact``, ``growth``, ``online`` or ``ecolog``.
        by_design: Widths by V, else by the observed information.
        design_start: V_0.
        logit: Index on the logit scale, else on that of probabilities.
        count_copies: Learn from every copy of a repeated report.
    """

    ridge: float
    norm_bound: float = math.inf
    estimator: str = "growth"
    by_design: bool = False
    design_start: float = 1.0
    logit: bool = True
    count_copies: bool = False


def learner_tables(
    learning: Learning, radius: Radius, schedule: Schedule = NO_EXPLORATION, rule: int = INDEX
) -> QueueTables:
    """The tables of a learner.

    Raises:
        InputError: If ridge, norm bound or estimator are none.
    """
    estimator, settings = fitting(learning.ridge, learning.norm_bound, learning.estimator, GROWTH)
    return QueueTables(
        rule=rule,
        logit=learning.logit,
        by_design=learning.by_design,
        estimator=estimator,
        design_start=float(learning.design_start),
        count_copies=learning.count_copies,
        schedule=schedule,
        radius=radius,
        fitting=settings,
    )


def plain_tables(rule: int, schedule: Schedule = NO_EXPLORATION) -> QueueTables:
    """The tables of a policy that estimates nothing."""
    return QueueTables(
        rule=rule,
        logit=False,
        by_design=False,
        estimator=NO_ESTIMATOR,
        design_start=1.0,
        count_copies=False,
        schedule=schedule,
        radius=constant_radius(0.0),
        fitting=Fitting(1.0, math.inf, 1.0, math.inf, 1),
    )


@dataclass(frozen=True)
class PaperKnobs:
    """What the policies of the CQB papers share: estimate, radius, and what they are told.

    kappa and S are those of the instance; V_0 = kappa lambda_0.

    Attributes:
        scale: Factor of the radius; 1 in the proofs, 0.1 in the summary's experiments.
        ridge: lambda_0.
        delta: Probability of an error; None for 1 / T.
        tight: d/4 in the radius, else the summary's d/2.
        estimator: ``exact``, ``growth`` or ``online``.
    """

    scale: float = 0.1
    ridge: float = 1.0
    delta: float | None = None
    tight: bool = True
    estimator: str = "growth"

    def tables(
        self, world: QueueWorld, horizon: int, schedule: Schedule, rule: int = INDEX
    ) -> QueueTables:
        """mu(<phi, theta>) + beta ||phi||_{V^-1} with this radius, or Thompson's draw by it.

        Raises:
            InputError: If a knob is out of range.
        """
        problem = (world.dimension, world.curvature, self.ridge, world.norm_bound)
        delta = 1.0 / horizon if self.delta is None else self.delta
        radius = paper_radius(problem, delta, self.scale, self.tight)
        learning = Learning(
            ridge=self.ridge,
            norm_bound=world.norm_bound,
            estimator=self.estimator,
            by_design=True,
            design_start=world.curvature * self.ridge,
            logit=False,
        )
        return learner_tables(learning, radius, schedule, rule)

    def setting(self, world: QueueWorld) -> Setting:
        """What the exact schedule depends on."""
        return Setting(
            dimension=world.dimension,
            curvature=world.curvature,
            norm_bound=world.norm_bound,
            ridge=self.ridge,
            arrival_rate=world.arrival_rate,
            slack=world.slack,
            diversity=world.diversity,
            scale=self.scale,
        )

    def phases(
        self,
        world: QueueWorld,
        horizon: int,
        fractions: tuple[float, float] | None,
        constants: tuple[float, float] | None,
    ) -> Phases:
        """By fractions of the horizon, or the exact ones.

        Raises:
            InputError: If fractions are none, or the exact schedule does not fit the horizon.
        """
        if fractions is None:
            return exact_phases(self.setting(world), horizon, constants)
        return fractional_phases(fractions, horizon)


def three_phases(phases: Phases, slack: float, eta: float | None) -> Schedule:
    """p_t = 1, then eta, then 0 (CQB 3.1); eta None for epsilon / 4."""
    between = exploration_share(slack) if eta is None else probability("eta", eta)
    return NO_EXPLORATION._replace(
        tau_1=float(phases.tau_1), tau_2=float(phases.tau_2), first=1.0, between=between
    )


def decaying(scale: float, power: float) -> Schedule:
    """p_t = min(1, scale t^-power) for fresh arrivals.

    Raises:
        InputError: If a number is negative or none.
    """
    for name, value in (("exploration", scale), ("power", power)):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value < math.inf:
            raise InputError(Problem(name, shorten(value), "a number of at least 0"))
    return NO_EXPLORATION._replace(decay=float(scale), power=float(power))


def probability(name: str, value: float) -> float:
    """A number from 0 to 1.

    Raises:
        InputError: For anything else.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise InputError(Problem(name, shorten(value), "a number from 0 to 1"))
    return float(value)


def noted(plan: QueuePlan, note: str) -> QueuePlan:
    """The plan with another note."""
    return replace(plan, note=note)
