"""How many steps a task keeps its servers: deterministic, geometric or empirical.

A duration D lives on 1, 2, ... steps. A server taken at step t is busy at steps
t+1, ..., t+D and free again at t+D+1 (LAG section 1, quoted).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.axes import Quantity
from opportune.model.checks import ROUNDING, number_problem, plain_array

Float = NDArray[np.float64]
Int = NDArray[np.int64]

MAX_STEPS = 2**40
"""Longest duration taken, in steps: beyond it the clock of a long run could overflow."""


@dataclass(frozen=True)
class Deterministic:
    """Every task takes exactly ``steps`` steps.

    Args:
        steps: Duration, a whole number of steps, at least 1.
    """

    steps: Annotated[int, Quantity("D_v", "", "steps", "duration")]

    def __post_init__(self) -> None:
        if (
            isinstance(self.steps, bool)
            or not isinstance(self.steps, (int, np.integer))
            or not 1 <= self.steps <= MAX_STEPS
        ):
            raise InputError(
                Problem(
                    "duration.steps",
                    shorten(self.steps),
                    f"a whole number of steps, at least 1 and at most {MAX_STEPS}",
                    "round durations up to whole steps; 0 is never a duration",
                )
            )
        object.__setattr__(self, "steps", int(self.steps))

    @property
    def mean(self) -> float:
        """Mean duration E[D] in steps."""
        return float(self.steps)

    def tail(self, steps: Int) -> Float:
        """P(D >= i) for each i in ``steps``."""
        return (np.asarray(steps) <= self.steps).astype(np.float64)


@dataclass(frozen=True)
class Geometric:
    """Memoryless: a busy server ends with probability ``1 / mean`` at each step.

    Args:
        mean: Mean duration in steps, at least 1.
    """

    mean: Annotated[float, Quantity("E[D_v]", "", "steps", "mean duration")]

    def __post_init__(self) -> None:
        number = isinstance(self.mean, (int, float, np.integer, np.floating))
        if isinstance(self.mean, bool) or not number or not 1.0 <= self.mean <= MAX_STEPS:
            raise InputError(
                Problem(
                    "duration.mean",
                    shorten(self.mean),
                    f"a number of steps, at least 1 and at most {MAX_STEPS}",
                    "a task takes at least one step; shorten the step if tasks are faster",
                )
            )
        object.__setattr__(self, "mean", float(self.mean))

    def tail(self, steps: Int) -> Float:
        """P(D >= i) for each i in ``steps``."""
        return np.asarray((1.0 - 1.0 / self.mean) ** np.maximum(np.asarray(steps) - 1.0, 0.0))


@dataclass(frozen=True, eq=False)
class Empirical:
    """A histogram of durations.

    Args:
        steps: (n,) distinct whole numbers of steps, at least 1; sorted on construction.
        weight: (n,) nonnegative weights. They are probabilities or counts: divided by their sum.
    """

    steps: Annotated[Int, Quantity("d", "d", "steps", "possible durations")]
    weight: Annotated[Float, Quantity("P(D=d)", "d", "probability", "their probabilities")]
    mean: float = field(init=False)

    def __post_init__(self) -> None:
        problems = _empirical_problems(self.steps, self.weight)
        if problems:
            raise InputError(problems)
        steps = plain_array(self.steps)
        weight = plain_array(self.weight).astype(np.float64)
        if weight.max() > 1.0:  # counts, however large
            weight = weight / weight.max()
        distinct, place = np.unique(steps.astype(np.int64), return_inverse=True)
        mass: Float = np.bincount(place, weights=weight).astype(np.float64)
        total = math.fsum(mass)
        if not abs(total - 1.0) <= ROUNDING:  # what has been divided once stays as it is
            mass = mass / total
        distinct, mass = distinct[mass > 0], mass[mass > 0]
        distinct.setflags(write=False)
        mass.setflags(write=False)
        object.__setattr__(self, "steps", distinct)
        object.__setattr__(self, "weight", mass)
        object.__setattr__(self, "mean", math.fsum(distinct * mass))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Empirical)
            and np.array_equal(self.steps, other.steps)
            and np.array_equal(self.weight, other.weight)
        )

    def __hash__(self) -> int:
        return hash((self.steps.tobytes(), self.weight.tobytes()))

    def tail(self, steps: Int) -> Float:
        """P(D >= i) for each i in ``steps``."""
        upper = np.concatenate([np.cumsum(self.weight[::-1])[::-1], [0.0]])
        return np.asarray(upper[np.searchsorted(self.steps, np.asarray(steps), side="left")])


Duration = Deterministic | Geometric | Empirical


def memoryless_mean(durations: tuple[Duration, ...]) -> float | None:
    """The common mean if all durations are memoryless with one mean, else None.

    Deterministic durations of one step count: they are geometric with mean 1.
    """
    means = set()
    for duration in durations:
        if not isinstance(duration, Geometric) and duration.tail(np.array([2]))[0] > 0:
            return None
        means.add(float(duration.mean))
    return means.pop() if len(means) == 1 else None


def _empirical_problems(steps: Any, weight: Any) -> list[Problem]:
    texts = [number_problem("duration.steps", steps), number_problem("duration.weight", weight)]
    problems = [problem for problem in texts if problem]
    if problems:
        return problems
    steps, weight = plain_array(steps), plain_array(weight)
    if steps.ndim != 1 or steps.shape != weight.shape or steps.size == 0:
        return [
            Problem(
                "duration",
                f"steps of shape {steps.shape}, weights of shape {weight.shape}",
                "two lists of one length, not empty",
            )
        ]
    bad = np.flatnonzero(~((steps >= 1) & (steps <= MAX_STEPS) & (steps == np.floor(steps))))
    if bad.size:
        problems.append(
            Problem(
                f"duration.steps[{bad[0]}]",
                shorten(steps[bad[0]]),
                "a whole number of steps, at least 1",
                f"{bad.size} of {steps.size} entries are not; round up to whole steps, "
                "0 is never a duration",
            )
        )
    bad = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))
    if bad.size:
        problems.append(
            Problem(
                f"duration.weight[{bad[0]}]",
                shorten(weight[bad[0]]),
                "a finite number, at least 0",
            )
        )
    elif not weight.max() > 0:
        problems.append(Problem("duration.weight", "all zero", "a positive sum"))
    return problems
