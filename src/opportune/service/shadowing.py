"""What a plan in the shadow would have done: how often otherwise, and what that would be worth.

A shadow plan decides on the states that the active plan leads to: who is free is the active plan's
doing. In every decision the servers that the shadow would have picked are compared with those that
were picked, in three ways, each in reward per decision, the shadow's minus the active plan's:

- ``score``: sum of match rewards. What the choice pays at once; that a server is then busy costs
  nothing here, so greed always looks good.
- ``at_active``: sum of s_vr - E[D_vr] q_r with the capacity prices q of the active plan: what the
  choice pays, less what the server's time is worth by the active plan. A plan that orders by this
  index is never beaten at its own prices.
- ``at_shadow``: the same with the capacity prices of the shadow.

The demand price l_v is paid by both and falls out. With the right prices the mean is the
first-order change of reward per decision when the shadow takes over (one deviation at a time, the
states being the active plan's); it is no forecast of the states that the shadow itself would lead
to. Negative at both prices: worse by anybody's prices. Positive at both: better.

Implements: ours; intervals by batch means (quoted, e.g. Law 2015, section 9.5.3).
"""

from __future__ import annotations

import math

from msgspec import Struct
from scipy.special import stdtrit

MOST_BATCHES = 64
"""When there are so many, neighbors are joined and batches are twice as long."""

LEAST_BATCHES = 10
"""Fewest batches for an interval."""

CONFIDENCE = 0.95

BETTER, WORSE, OPEN = "better", "worse", "open"


class ShadowGain(Struct, frozen=True, gc=False, omit_defaults=True):
    """One decision: the shadow's picks against the picks, in reward.

    Attributes:
        score: Difference of the sums of match rewards; None if a pick has none.
        at_active: The same less the value of the servers' time by the active plan; None if it has
            no prices.
        at_shadow: The same by the shadow plan.
    """

    score: float | None = None
    at_active: float | None = None
    at_shadow: float | None = None


class BatchMeans(Struct, array_like=True):
    """Mean of a series that comes one by one, with an interval that allows for dependence.

    Attributes:
        n: Values so far.
        size: Values of a batch; doubles as the series grows.
        sums: Sums of the full batches.
        rest: Sum of the values behind them.
    """

    n: int = 0
    size: int = 1
    sums: list[float] = []
    rest: float = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self.n += 1
        self.rest += value
        if self.n % self.size == 0:
            self.sums.append(self.rest)
            self.rest = 0.0
            if len(self.sums) == MOST_BATCHES:
                self.sums = [a + b for a, b in zip(self.sums[::2], self.sums[1::2], strict=True)]
                self.size *= 2

    @property
    def mean(self) -> float | None:
        """Mean of all values; None of nothing."""
        return (math.fsum(self.sums) + self.rest) / self.n if self.n else None

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of the mean by the full batches; None with too few."""
        b = len(self.sums)
        if b < LEAST_BATCHES:
            return None
        means = [total / self.size for total in self.sums]
        middle = math.fsum(means) / b
        variance = math.fsum((one - middle) ** 2 for one in means) / (b - 1)
        quantile = float(stdtrit(b - 1, 0.5 + CONFIDENCE / 2))
        return quantile * math.sqrt(variance / b)


class ShadowRecord(Struct, array_like=True):
    """A plan's stay in the shadow of one active plan.

    Attributes:
        against: The active plan, None for what stood in for one.
        since, until: Seconds of the pool's clock; ``until`` None while it goes on.
        decisions: Decisions that it was asked for and that picked servers.
        differed: Those in which it would have picked other servers.
        score, at_active, at_shadow: Means of ``ShadowGain``.
    """

    against: str | None
    since: float
    until: float | None
    decisions: int
    differed: int
    score: BatchMeans
    at_active: BatchMeans
    at_shadow: BatchMeans

    def note(self, differed: bool, gain: ShadowGain | None) -> None:
        """One more decision."""
        self.decisions += 1
        self.differed += differed
        for series, value in (
            (self.score, None if gain is None else gain.score),
            (self.at_active, None if gain is None else gain.at_active),
            (self.at_shadow, None if gain is None else gain.at_shadow),
        ):
            if value is not None:
                series.add(value)


def new_record(against: str | None, since: float) -> ShadowRecord:
    """The record of a stay that begins."""
    return ShadowRecord(against, since, None, 0, 0, BatchMeans(), BatchMeans(), BatchMeans())


def verdict(record: ShadowRecord) -> str:
    """``worse`` if the interval lies below 0 at both prices, ``better`` if above; else ``open``.

    Where only one of the plans has prices those decide; where none has, the scores.
    """
    priced = [one for one in (record.at_active, record.at_shadow) if one.n]
    signs = {_sign(one) for one in priced or [record.score]}
    if signs == {-1}:
        return WORSE
    return BETTER if signs == {1} else OPEN


def _sign(series: BatchMeans) -> int:
    mean, half = series.mean, series.half_width
    if mean is None or half is None or abs(mean) <= half:
        return 0
    return 1 if mean > 0 else -1
