"""Durations of a log: one law per task type, and whether servers differ (ours).

A type's law is deterministic if all its services took the same number of steps, memoryless unless
the test of a constant hazard rejects that, else the Kaplan-Meier histogram. What is left beyond
the longest duration seen goes to one point, a mean residual life (of the memoryless law) further.
A type borrows from all: its law is the mixture w own + (1 - w) pooled, w = n / (n + tau), tau the
variance within types by the variance between their means; with services enough and few types it
keeps its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from opportune.errors import InputError, Problem
from opportune.learning.fit.score_table import Cells, ScoreTable, fit_table
from opportune.learning.fit.steps import whole_steps
from opportune.learning.fit.survival import (
    Survival,
    geometric_mean,
    kaplan_meier,
    memoryless_test,
)
from opportune.model.duration import (
    MAX_STEPS,
    Deterministic,
    Duration,
    Empirical,
    Geometric,
)

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

MEMORYLESS_SMALL = 0.05
"""The memoryless law is rejected when the test's probability is below."""

LEAST_FOR_LAW = 30
"""With fewer ended services of a type nothing is tested: it gets the kind of law of all types."""

LEAST_PER_SERVER = 5
"""Fewest services of a server of a type for the test whether servers differ."""

SERVERS_SMALL = 0.01
"""Servers differ when equal ones would do so with less than this probability."""

MOST_POINTS = 200
"""Points of a histogram; a longer one is joined to so many, with the same mean."""

ENOUGH = 0.995
"""A type with at least this weight of its own law keeps it pure."""


@dataclass(frozen=True, eq=False)
class TypeDuration:
    """Durations of one type, in steps.

    Attributes:
        law: The law of the instance.
        mean: Its mean.
        low: Lower end of the mean's 95 % interval.
        high: Upper end.
        n: Services with an end.
        censored: Services without one.
        beyond: Probability put beyond the longest duration seen.
        p_memoryless: Probability of so uneven a hazard under the memoryless law.
        weight: Weight of the type's own services.
        survival: The product-limit estimate, None without an ended service.
    """

    law: Duration
    mean: float
    low: float
    high: float
    n: int
    censored: int
    beyond: float
    p_memoryless: float
    weight: float
    survival: Survival | None


@dataclass(frozen=True, eq=False)
class Services:
    """Durations of all types.

    Attributes:
        types: One entry per type.
        p_servers: Probability of so different servers if they were equal; None if untested.
        by_server: Mean duration by type and server relative to the type's, None if untested.
    """

    types: tuple[TypeDuration, ...]
    p_servers: float | None
    by_server: ScoreTable | None

    @property
    def laws(self) -> tuple[Duration, ...]:
        """One law per type."""
        return tuple(one.law for one in self.types)

    @property
    def servers_differ(self) -> bool:
        """Whether the test says that servers differ."""
        return self.p_servers is not None and self.p_servers < SERVERS_SMALL


@dataclass(frozen=True, eq=False)
class Observed:
    """Services with a duration, in steps.

    Attributes:
        task_type: (n,) type of the task.
        server: (n,) server, -1 unknown.
        steps: (n,) duration; of a censored one the whole steps survived.
        complete: (n,) whether it ended.
    """

    task_type: Int
    server: Int
    steps: Int
    complete: Bool


def observed(task_type: Int, server: Int, duration: Float, complete: Bool, step: float) -> Observed:
    """The services that teach a duration: those that ended, or were seen for a step at least.

    Raises:
        InputError: If one is longer than an instance can have.
    """
    longest = float(np.nanmax(duration, initial=0.0)) / step
    if longest > MAX_STEPS:
        raise InputError(
            Problem(
                "--step",
                f"{step:g} makes a duration of {longest:.3g} steps",
                f"at most {MAX_STEPS} steps",
                "choose a longer step",
            )
        )
    survived = np.where(np.isnan(duration), 0.0, np.floor(duration / step + 1e-9))
    use = ~np.isnan(duration) & (complete | (survived >= 1))
    steps = np.where(complete, whole_steps(np.nan_to_num(duration), step), survived)
    return Observed(task_type[use], server[use], steps[use].astype(np.int64), complete[use])


def fit_services(data: Observed, n_types: int, n_servers: int) -> Services:
    """One law per type.

    Raises:
        InputError: If no service ended.
    """
    if not data.complete.any():
        raise InputError(
            Problem(
                "log.duration",
                "no service that ended",
                "durations, or the ends of services",
                "give --columns duration=... or end=..., or a duration in the columns file",
            )
        )
    pooled = fit_type(data.steps, data.complete)
    own = [
        fit_type(data.steps[rows], data.complete[rows]) if data.complete[rows].any() else None
        for rows in (data.task_type == v for v in range(n_types))
    ]
    likeness = _likeness(data, n_types)
    types = tuple(_mixed(one, pooled, likeness) for one in own)
    means = np.array([one.mean for one in types])
    p_servers, by_server = _servers(data, means, n_servers)
    return Services(types, p_servers, by_server)


def given_services(laws: Sequence[Duration]) -> Services:
    """Laws that were given, for a log without durations."""
    types = [
        TypeDuration(law, law.mean, law.mean, law.mean, 0, 0, 0.0, 1.0, 1.0, None) for law in laws
    ]
    return Services(tuple(types), None, None)


def fit_type(steps: Int, complete: Bool) -> TypeDuration:
    """The law of one type from its own services alone; at least one must have ended."""
    n, censored = int(complete.sum()), int((~complete).sum())
    survival = kaplan_meier(steps, complete)
    mean, low, high = geometric_mean(steps, complete)
    p_value = memoryless_test(steps, complete) if n >= LEAST_FOR_LAW else 1.0
    value = int(survival.steps[-1])
    if len(survival.steps) == 1 and survival.last == value and (n >= LEAST_FOR_LAW or value == 1):
        law: Duration = Deterministic(value)
        return TypeDuration(law, law.mean, law.mean, law.mean, n, censored, 0.0, 0.0, 1.0, survival)
    if p_value >= MEMORYLESS_SMALL:
        law = Geometric(mean)
        return TypeDuration(law, mean, low, high, n, censored, 0.0, p_value, 1.0, survival)
    law = Empirical(*thinned(*_whole_mass(survival, mean)))
    half = 1.96 * survival.error
    low, high = max(law.mean - half, 1.0), law.mean + half
    return TypeDuration(
        law, law.mean, low, high, n, censored, survival.beyond, p_value, 1.0, survival
    )


def _whole_mass(survival: Survival, residual: float) -> tuple[Int, Float]:
    """The histogram with what is left beyond the longest duration at one point further."""
    if not survival.beyond > 0:
        return survival.steps, survival.mass
    beyond = survival.last + int(np.ceil(residual))
    return np.append(survival.steps, beyond), np.append(survival.mass, survival.beyond)


def thinned(points: Int, weight: Float, most: int = MOST_POINTS) -> tuple[Int, Float]:
    """A histogram of at most ``most`` points with the same mean.

    Neighbors of about equal joint weight become their mean, split between the two whole numbers
    next to it.
    """
    if len(points) <= most:
        return points, weight
    upper = np.cumsum(weight) / weight.sum()
    group = np.minimum((upper * (most // 2) - 1e-12).astype(np.int64), most // 2 - 1)
    mass = np.bincount(group, weights=weight, minlength=most // 2)
    total = np.bincount(group, weights=weight * points, minlength=most // 2)
    mean = total[mass > 0] / mass[mass > 0]
    mass = mass[mass > 0]
    floor = np.floor(mean)
    both = np.concatenate([floor, floor + 1]).astype(np.int64)
    parts = np.concatenate([mass * (1 - (mean - floor)), mass * (mean - floor)])
    return both[parts > 0], parts[parts > 0]


def rank_statistic(groups: Sequence[Int]) -> float:
    """H of groups of durations: chi-square with len(groups) - 1 degrees if they are alike.

    Implements: Kruskal and Wallis (1952), quoted, with their correction for ties.
    """
    values = np.concatenate(groups)
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    n = len(values)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[place]
    ends = np.cumsum([len(group) for group in groups])[:-1]
    spread = sum(float(part.sum()) ** 2 / len(part) for part in np.split(rank, ends))
    statistic = 12.0 / (n * (n + 1.0)) * spread - 3.0 * (n + 1.0)
    ties = float((count.astype(np.float64) ** 3 - count).sum()) / (n**3.0 - n)
    return float(statistic / (1.0 - ties))


@dataclass(frozen=True)
class _Likeness:
    """How alike types are.

    Attributes:
        within: Variance of durations within types.
        between: Variance between their means, 0 if they are alike.
        unsure: Standard error of ``between``.
        n_types: Types with a service that ended.
    """

    within: float
    between: float
    unsure: float
    n_types: int

    def variance(self, n: int, scale: float) -> float:
        """Squared error of the shrunk mean of a type with n services.

        Args:
            n: Services.
            scale: The variance within this type by that of all: it grows with the mean.

        The variance between types is taken one standard error larger than it looks: with few
        types it often looks like 0.
        """
        between = self.between + self.unsure
        noise = self.within * scale / n
        return between * noise / (between + noise) if between + noise > 0 else 0.0

    def weight(self, n: int) -> float:
        """Weight of the own mean of a type with n services.

        Few types say little about how alike they are: with C of them a type with services enough
        gives up (C - 3) / (C - 1) of what it would (Morris 1983), so nothing with up to three.
        """
        if n == 0:
            return 0.0
        own = n / (n + self.within / self.between) if self.between > 0 else 0.0
        if n < LEAST_FOR_LAW:
            return own
        shared = (self.n_types - 3) / (self.n_types - 1) if self.n_types > 3 else 0.0
        return 1.0 - shared * (1.0 - own)


def _likeness(data: Observed, n_types: int) -> _Likeness:
    """Variances within and between types by the moments of one-way analysis (textbook)."""
    ended = data.complete
    n = np.bincount(data.task_type[ended], minlength=n_types).astype(np.float64)
    total = np.bincount(data.task_type[ended], weights=data.steps[ended], minlength=n_types)
    squares = np.bincount(
        data.task_type[ended], weights=data.steps[ended].astype(np.float64) ** 2, minlength=n_types
    )
    has = n > 0
    types = int(has.sum())
    if types < 2 or n.sum() <= types:
        return _Likeness(0.0, 1.0, 0.0, types)
    within = float((squares[has] - total[has] ** 2 / n[has]).sum() / (n.sum() - types))
    grand = total.sum() / n.sum()
    spread = float((n[has] * (total[has] / n[has] - grand) ** 2).sum())
    room = n.sum() - float((n**2).sum()) / n.sum()
    between = (spread - (types - 1) * within) / room
    unsure = float(np.sqrt(2.0 * (types - 1))) * within / room
    return _Likeness(max(within, 0.0), max(float(between), 0.0), unsure, types)


def _mixed(own: TypeDuration | None, pooled: TypeDuration, likeness: _Likeness) -> TypeDuration:
    if own is None:
        return replace(pooled, n=0, censored=0, weight=0.0, survival=None)
    weight = likeness.weight(own.n)
    if weight >= ENOUGH or own.n >= pooled.n:
        return own
    mean = weight * own.mean + (1 - weight) * pooled.mean
    if own.n >= LEAST_FOR_LAW:  # its own interval is honest whatever the others are
        low, high = min(own.low, mean), max(own.high, mean)
    else:
        error = likeness.variance(own.n, (max(mean, own.mean) / pooled.mean) ** 2)
        error += ((1 - weight) * (pooled.high - pooled.low) / 3.92) ** 2
        low, high = max(mean - 1.96 * error**0.5, 1.0), mean + 1.96 * error**0.5
    laws = (own.law, pooled.law)
    if own.n < LEAST_FOR_LAW and not isinstance(pooled.law, Geometric) and own.survival is not None:
        survival = own.survival  # too few for a law of their own, and not memoryless together
        laws = (Empirical(*_whole_mass(survival, pooled.mean)), pooled.law)
        if set(survival.steps.tolist()) == {pooled.mean}:
            laws = (pooled.law, pooled.law)
    if all(isinstance(law, Geometric) for law in laws):
        return replace(own, law=Geometric(mean), mean=mean, low=low, high=high, weight=weight)
    if laws[0] == laws[1]:
        return replace(own, law=pooled.law, mean=pooled.mean, low=low, high=high, weight=weight)
    parts = [_histogram(law) for law in laws]
    points = np.concatenate([parts[0][0], parts[1][0]])
    mass = np.concatenate([weight * parts[0][1], (1 - weight) * parts[1][1]])
    whole = Empirical(points, mass)
    law = Empirical(*thinned(whole.steps, whole.weight))
    return replace(own, law=law, mean=law.mean, low=low, high=high, weight=weight)


def _histogram(law: Duration) -> tuple[Int, Float]:
    if isinstance(law, Empirical):
        return law.steps, law.weight
    if isinstance(law, Deterministic):
        return np.array([law.steps]), np.array([1.0])
    share = (np.arange(MOST_POINTS) + 0.5) / MOST_POINTS
    stay = np.log1p(-1.0 / law.mean) if law.mean > 1 else -np.inf
    points = np.maximum(np.ceil(np.log1p(-share) / stay), 1.0)
    whole = Empirical(points.astype(np.int64), np.ones(MOST_POINTS))
    return whole.steps, whole.weight


def _servers(
    data: Observed, means: Float, n_servers: int
) -> tuple[float | None, ScoreTable | None]:
    """Do servers differ within a type? Kruskal and Wallis (1952) for each type, joined.

    Ended services only: a censored one has no rank.
    """
    statistic, degrees = 0.0, 0
    use = data.complete & (data.server >= 0)
    for v in range(len(means)):
        rows = use & (data.task_type == v)
        groups = [data.steps[rows & (data.server == r)] for r in np.unique(data.server[rows])]
        groups = [group for group in groups if len(group) >= LEAST_PER_SERVER]
        if len(groups) < 2 or len(np.unique(np.concatenate(groups))) < 2:
            continue
        statistic += rank_statistic(groups)
        degrees += len(groups) - 1
    if degrees == 0:
        return None, None
    ratio = data.steps[use] / means[data.task_type[use]]
    cells = Cells.of(
        data.task_type[use], data.server[use], ratio, (len(means), n_servers), bounded=False
    )
    return float(chdtrc(degrees, statistic)), fit_table(cells)
