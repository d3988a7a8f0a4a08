"""What is replayed, whatever it is: calls, what changes while they come in, what is to be expected.

Everything is in steps of the instance; ``step`` says how many seconds of the call center one is.
``flat_world`` has hours of one rate, ``day_world`` a day of changing rates and shifts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from opportune import LossInstance, Plan
from opportune.pricing.relaxation import Relaxation

Int = NDArray[np.int64]


class Calls(NamedTuple):
    """Calls in order of arrival."""

    at: Int  # (n,) step in which each arrives
    task_type: NDArray[np.int32]  # (n,) its type
    duration: Int  # (n,) steps that it takes


class Turn(NamedTuple):
    """What changes at a step: rates, plan, who is there."""

    step: int
    period: str
    rate: NDArray[np.float64]  # (V,) calls per step from here on
    plan: str  # name of the plan that is made for this period; "" keeps the one before
    leave: tuple[str, ...]  # agents that take no more calls
    come: tuple[str, ...]  # agents that take calls from here on


class Made(NamedTuple):
    """A plan and the prices that it follows."""

    plan: Plan
    prices: Relaxation


@dataclass(frozen=True)
class Expected:
    """What the simulator says of such a stretch.

    Attributes:
        share: 2.5 %, 50 % and 97.5 % of the reward over the bound, over independent stretches.
        blocking: The same of the share of calls that are dropped.
        stretches: How many were simulated.
        same_share: Reward over the bound on exactly these calls.
        chosen: (n,) server of each of these calls, -1 where it is dropped.
    """

    share: tuple[float, float, float]
    blocking: tuple[float, float, float]
    stretches: int
    same_share: float
    chosen: Int


class World(Protocol):
    """What ``live`` plays and ``replay`` judges."""

    @property
    def instance(self) -> LossInstance:
        """Rates per step (those of the mean day), scores, durations in steps."""

    @property
    def step(self) -> float:
        """Seconds of a step."""

    @property
    def steps(self) -> int:
        """Length of the stretch."""

    @property
    def calls(self) -> Calls:
        """The calls that are played."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What changes when; empty if nothing does."""

    @property
    def plans(self) -> dict[str, Made]:
        """The plans that the turns name."""

    @property
    def certified(self) -> str:
        """What the bound is a bound on, in words."""

    def bound(self, steps: int) -> float:
        """The certified bound on the reward of the first ``steps`` steps."""

    def expect(self, steps: int, stretches: int) -> Expected:
        """Simulate the plans over independent stretches, and over exactly these calls.

        Args:
            steps: Length of each, from an empty call center on.
            stretches: How many.
        """


def quantiles(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """2.5 %, 50 % and 97.5 %."""
    low, middle, high = np.quantile(values, (0.025, 0.5, 0.975)).tolist()
    return low, middle, high
