"""When CQB-eta-2 explores: the schedule of the theory, and fractions of the horizon.

Implements: CQB 3.1 to 3.3 and 3.7. Phase 1 (rounds up to tau_1) gives every fresh arrival to a
uniform server, phase 2 (up to tau_2) a share eta = epsilon / 4 of them, phase 3 none.

The exact schedule has tau_1 = ceil(2 n_1 / lambda) and tau_2 = T - 4 tau_1 / epsilon -
128 log(T) / epsilon^2 - 1, with n_1 exploration samples such that 2 beta_T ||phi||_{V^-1} <=
epsilon / 4 afterwards. It fits into no horizon of practice; the message says from which on it
does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opportune.errors import InputError, Problem, shorten
from opportune.learning.confidence import paper_radius, radius_after

LARGEST_HORIZON = 1e30
"""Beyond it no horizon is looked for."""


@dataclass(frozen=True)
class Phases:
    """Last rounds of phases 1 and 2."""

    tau_1: float
    tau_2: float


@dataclass(frozen=True)
class Setting:
    """What the exact schedule depends on, besides the horizon.

    Attributes:
        dimension: d.
        curvature: kappa.
        norm_bound: S.
        ridge: lambda_0.
        arrival_rate: lambda.
        slack: epsilon, above 0.
        diversity: sigma_0^2, above 0.
        scale: Factor of beta; 1 in the theory.

    Raises:
        InputError: If slack, arrival rate or diversity is not above 0.
    """

    dimension: int
    curvature: float
    norm_bound: float
    ridge: float
    arrival_rate: float
    slack: float
    diversity: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        problems = [
            Problem(name, shorten(value), "a number above 0 for the exact schedule")
            for name, value in (
                ("slack", self.slack),
                ("arrival_rate", self.arrival_rate),
                ("diversity", self.diversity),
            )
            if not value > 0
        ]
        if problems:
            raise InputError(problems)


def samples_by_random_matrices(
    setting: Setting, horizon: float, constants: tuple[float, float]
) -> float:
    """n_1 with the constants c_1, c_2 that the paper leaves open.

    ((c_1 sqrt(d) + c_2 sqrt(log(1/delta))) / sigma_0^2)^2 + 128 beta_T^2 / (sigma_0^2 epsilon^2),
    delta = T^-4. Implements: CQB 3.2, first display (reconstructed, after Li, Lu, Zhou 2017).
    """
    root = constants[0] * math.sqrt(setting.dimension)
    root += constants[1] * math.sqrt(4.0 * math.log(horizon))
    return (root / setting.diversity) ** 2 + _samples_for_widths(setting, horizon)


def samples_by_chernoff(setting: Setting, horizon: float) -> float:
    """n_1 without unknown constants.

    max(8 log(d/delta) / sigma_0^2, 128 beta_T^2 / (sigma_0^2 epsilon^2)), delta = T^-4.
    Implements: CQB 3.2, second display (derived there, by a matrix Chernoff bound).
    """
    least = 8.0 / setting.diversity * (math.log(setting.dimension) + 4.0 * math.log(horizon))
    return max(least, _samples_for_widths(setting, horizon))


def exact_ends(
    setting: Setting, horizon: float, constants: tuple[float, float] | None = None
) -> Phases:
    """tau_1 and tau_2 of the theory, feasible or not; ``constants`` choose the first display."""
    if constants is None:
        samples = samples_by_chernoff(setting, horizon)
    else:
        samples = samples_by_random_matrices(setting, horizon, constants)
    tau_1 = float(math.ceil(2.0 / setting.arrival_rate * samples))
    used = 4.0 * tau_1 / setting.slack + 128.0 * math.log(horizon) / setting.slack**2
    return Phases(tau_1, horizon - used - 1.0)


def exact_phases(
    setting: Setting, horizon: int, constants: tuple[float, float] | None = None
) -> Phases:
    """The schedule of the theory.

    Raises:
        InputError: If it does not fit into the horizon, with the horizon from which on it does.
    """
    phases = exact_ends(setting, horizon, constants)
    if phases.tau_1 < phases.tau_2:
        return phases
    first = first_feasible(setting, constants)
    needs = "no horizon that can be run" if first is None else f"a horizon of at least {first:.3g}"
    raise InputError(
        Problem(
            "horizon",
            f"{horizon}, too short for the exact schedule: tau_1 = {phases.tau_1:.3g}, "
            f"tau_2 = {phases.tau_2:.3g}",
            needs,
            "give the phases as fractions of the horizon, for example (0.2, 0.3)",
        )
    )


def first_feasible(setting: Setting, constants: tuple[float, float] | None = None) -> float | None:
    """The least horizon, to 1 %, from which on tau_1 < tau_2; None beyond ``LARGEST_HORIZON``."""

    def fits(horizon: float) -> bool:
        phases = exact_ends(setting, horizon, constants)
        return phases.tau_1 < phases.tau_2

    high = 16.0
    while not fits(high):
        high *= 2.0
        if high > LARGEST_HORIZON:
            return None
    low = high / 2.0
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def fractional_phases(fractions: tuple[float, float], horizon: int) -> Phases:
    """tau_1 and tau_2 as fractions of the horizon (the summary's experiments: 0.2 and 0.3).

    Raises:
        InputError: If they are not numbers from 0 to 1, the first up to the second.
    """
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in fractions)
    if len(fractions) != 2 or not numbers or not 0 <= fractions[0] <= fractions[1] <= 1:
        told = "two numbers from 0 to 1, the first up to the second"
        raise InputError(Problem("fractions", shorten(fractions), told))
    return Phases(math.floor(fractions[0] * horizon), math.floor(fractions[1] * horizon))


def exploration_share(slack: float) -> float:
    """eta = epsilon / 4 (CQB 3.1), in [0, 1]."""
    return min(1.0, max(0.0, slack / 4.0))


def _samples_for_widths(setting: Setting, horizon: float) -> float:
    """128 beta_T^2 / (sigma_0^2 epsilon^2), beta_T with delta = T^-4."""
    problem = (setting.dimension, setting.curvature, setting.ridge, setting.norm_bound)
    beta = radius_after(paper_radius(problem, horizon**-4.0, setting.scale), horizon)
    return 128.0 * beta**2 / (setting.diversity * setting.slack**2)
