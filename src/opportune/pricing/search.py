"""A solve under way: when to stop, and the best certified pair so far.

A pair is demand prices with their closed-form dual value, an upper bound whatever they are, and
feasible rates with their reward, a lower bound. Gears offer both as they find them; whatever
ends the solve, the best pair stands.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.pricing.pairs import Columns, PairProblem

Float = NDArray[np.float64]

Progress = Callable[[float, str], None]
"""Told now and then: the relative gap proven so far (infinite at first) and what is being done."""


@dataclass(frozen=True)
class Stop:
    """When a solve ends.

    Attributes:
        gap: Relative gap (dual value - value) / dual value that is small enough.
        seconds: Most time to take; what is being computed then is finished (at 1,000 x 2,000 a
            tenth of a second).
        progress: Called with the gap proven so far and a word.
        catch_interrupt: Whether an interrupt (Ctrl-C) ends the solve with the best pair so far
            instead of being passed on.
    """

    gap: float = 1e-9
    seconds: float = math.inf
    progress: Progress | None = None
    catch_interrupt: bool = True

    def __post_init__(self) -> None:
        problems = [
            Problem(f"stop.{name}", shorten(value), "a number of at least 0")
            for name, value in (("gap", self.gap), ("seconds", self.seconds))
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0
        ]
        if problems:
            raise InputError(problems)


@dataclass(eq=False)
class Search:
    """The state of a solve. Values are in units of the problem.

    Attributes:
        problem: What is solved.
        stop: When to end.
        began: Clock at the start.
        price: (types,) prices of the least dual value so far.
        capacity: (servers,) their capacity prices.
        dual_value: That dual value.
        columns: Pairs of the best feasible rates so far.
        rate: (m,) y = u / lambda on them.
        value: Their reward.
        gear: Name of what is at work.
        rounding: Prices l and q where the rounded dual was left, and its temperature.
    """

    problem: PairProblem
    stop: Stop
    began: float = field(default_factory=time.perf_counter)
    price: Float | None = None
    capacity: Float | None = None
    dual_value: float = math.inf
    columns: Columns | None = None
    rate: Float | None = None
    value: float = -math.inf
    gear: str = ""
    rounding: tuple[Float, Float, float] | None = None

    @property
    def best_prices(self) -> tuple[Float, Float]:
        """The prices l and q of the least dual value so far; some must have been offered."""
        assert self.price is not None
        assert self.capacity is not None
        return self.price, self.capacity

    @property
    def gap(self) -> float:
        """Relative gap of the best pair, infinite while there is none."""
        return relative_gap(self.dual_value, self.value)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.began

    @property
    def out_of_time(self) -> bool:
        """Whether the time is up."""
        return self.seconds >= self.stop.seconds

    @property
    def done(self) -> bool:
        """Whether the gap is small enough."""
        return self.gap <= self.stop.gap

    @property
    def infeasible(self) -> bool:
        """Whether the demand provably cannot be met: rewards are at least 0, the bound is below."""
        return self.dual_value < 0.0

    def offer_price(self, price: Float, capacity: Float) -> float:
        """D(l) of these prices; kept if it is the least so far.

        Args:
            price: (types,) demand prices, raised to 0 where only l >= 0 gives a bound.
            capacity: (servers,) a guess of q.
        """
        price, capacity = self.problem.admissible(price).copy(), capacity.copy()
        value = self.problem.dual_value(price, capacity)
        if value < self.dual_value:
            self.price, self.capacity, self.dual_value = price, capacity, value
        return value

    def offer_rates(self, columns: Columns, rate: Float) -> float:
        """Reward of feasible rates; kept if it is the largest so far."""
        pairs, market = columns.pairs, self.problem.market
        weight = market.arrival_rate[pairs.task_type] * market.copies[columns.server]
        value = math.fsum(weight * pairs.reward * rate)
        if value > self.value:
            self.columns, self.rate, self.value = columns, rate, value
        return value

    def tell(self, text: str) -> None:
        """Report progress."""
        if self.stop.progress is not None:
            self.stop.progress(self.gap, f"{self.gear}: {text}")


def relative_gap(dual_value: float, value: float) -> float:
    """(dual value - value) / dual value; 0 where both are the same."""
    if not math.isfinite(dual_value) or not math.isfinite(value):
        return math.inf
    return 0.0 if dual_value == value else abs(dual_value - value) / max(abs(dual_value), 1e-300)
