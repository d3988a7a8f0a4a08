"""Arrival rates of a log: per type, by the time of day, with intervals (ours).

A count N over T steps gives the rate N / T. The profile of a day starts from the product of the
type's rate and the day's common curve; each (period, type) cell is a Poisson count N with that
mean E, and its factor is shrunk to (N + a) / (E + a), the posterior mean of a gamma prior with
mean 1 whose strength a comes from the counts' moments: Var[N] = E + E^2 / a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtrc, gammaincinv

from opportune.errors import InputError, Problem
from opportune.learning.fit.drift import Drift, drift_test
from opportune.learning.fit.log import Log
from opportune.learning.fit.presence import time_by_period
from opportune.learning.fit.steps import Step
from opportune.model.axes import Quantity

Float = NDArray[np.float64]
Int = NDArray[np.int64]

LEVEL = 0.95
"""Of all intervals."""

PROFILE_SMALL = 0.01
"""A day's profile is used when equal rates in all periods are less likely than this."""

LEAST_DAYS = 2.0
"""A profile needs so many days."""

DRIFT_BLOCKS = 64
"""Blocks whose counts are tested for drift where the log has no days."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Rates, and how sure they are.

    Attributes:
        rate: Arrivals per step by type, over the whole log.
        low: Lower end of its 95 % interval.
        high: Upper end.
        count: (V,) tasks by type.
        steps: Steps that the log covers.
        multiplier: (P, V) rate of a period of the day by the rate, None without a profile.
        raw: (P, V) the same before shrinkage.
        period_count: (P, V) tasks by period.
        period_steps: Steps of a period, 0 without a profile.
        strength: a of the shrinkage; infinite where types share one curve.
        p_profile: Probability of so uneven periods if the rate were constant, None untested.
        dispersion: Variance of day counts by their mean within a period: 1 for Poisson.
        drift: Test of the level over the log.
    """

    rate: Annotated[Float, Quantity("lambda_v", "V", "probability per step", "fitted rate")]
    low: Annotated[Float, Quantity("lambda_v-", "V", "probability per step", "its lower end")]
    high: Annotated[Float, Quantity("lambda_v+", "V", "probability per step", "its upper end")]
    count: Int
    steps: float
    multiplier: Float | None
    raw: Float | None
    period_count: Int | None
    period_steps: int
    strength: float
    p_profile: float | None
    dispersion: float
    drift: Drift | None


def fit_arrivals(log: Log, task_type: Int, n_types: int, step: Step, periods: int) -> Arrivals:
    """Rates of a log.

    Args:
        log: The log; its tasks arrived at two times at least.
        task_type: (n,) type of each task.
        n_types: Number of types.
        step: The step.
        periods: Periods of a day; 1 for no profile.

    Raises:
        InputError: If there is more than one arrival a step, or a period is not of whole steps.
    """
    span = float(log.arrival[-1] - log.arrival[0])
    window = span * log.n_tasks / (log.n_tasks - 1)  # the last gap has not been seen to its end
    steps = window / step.length
    count = np.bincount(task_type, minlength=n_types)
    if steps < log.n_tasks:
        factor = log.n_tasks / steps
        raise InputError(
            Problem(
                "--step",
                f"{step.length:g} holds {factor:.3g} arrivals on average",
                "at most one arrival per step",
                f"give a step of {step.length / factor / 3:.3g}",
            )
        )
    low, high = rate_interval(count, steps)
    profile = _profile(log, task_type, n_types, periods) if periods > 1 else None
    multiplier = raw = period_count = None
    strength, p_value, dispersion, period_steps = np.inf, None, 1.0, 0
    if profile is not None:
        period_count, exposure = profile
        p_value, dispersion = _uneven(log, period_count, exposure)
        length = (log.day or 0.0) / periods / step.length
        if p_value < PROFILE_SMALL:
            _check_whole(length, step, periods)
            raw, multiplier, strength = shrunk_profile(period_count, exposure)
            period_steps = round(length)
    return Arrivals(
        rate=count / steps,
        low=low,
        high=high,
        count=count,
        steps=steps,
        multiplier=multiplier,
        raw=raw,
        period_count=period_count,
        period_steps=period_steps,
        strength=strength,
        p_profile=p_value,
        dispersion=dispersion,
        drift=_drift(log, window),
    )


def rate_interval(count: Int, steps: float) -> tuple[Float, Float]:
    """The exact 95 % interval of a probability per step after ``count`` of ``steps``.

    Implements: Clopper and Pearson (1934), quoted; steps need not be whole.
    """
    tail = (1.0 - LEVEL) / 2.0
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), steps - count + 1, tail), 0.0)
    room = np.maximum(steps - count, 1e-9)
    high = np.where(count < steps, betaincinv(count + 1, room, 1 - tail), 1.0)
    return low, high


def shrunk_profile(count: Int, exposure: Float) -> tuple[Float, Float, float]:
    """Factors of the types' rates by period: raw, shrunk, and the strength of the shrinkage.

    Args:
        count: (P, V) tasks by period and type.
        exposure: (P,) share of the log's time in each period.

    Returns:
        (P, V) raw and shrunk factors, whose mean weighted by ``exposure`` is 1 for each type.
    """
    total = count.sum()
    share = count.sum(axis=0) / total
    by_period = count.sum(axis=1)
    expected = by_period[:, None] * share[None, :]
    curve = np.divide(by_period, total * exposure, out=np.zeros(len(exposure)), where=exposure > 0)
    seen = expected > 0
    excess = float((((count - expected) ** 2)[seen] - expected[seen]).sum())
    strength = np.inf if excess <= 0 else float((expected[seen] ** 2).sum()) / excess
    factor = np.ones_like(expected)
    if np.isfinite(strength):
        factor = (count + strength) / (expected + strength)
    raw = np.divide(count, exposure[:, None] * total * share, where=seen, out=np.zeros_like(factor))
    shrunk = curve[:, None] * factor
    return raw, shrunk / (shrunk * exposure[:, None]).sum(axis=0), strength


def _profile(log: Log, task_type: Int, n_types: int, periods: int) -> tuple[Int, Float] | None:
    """(P, V) counts and (P,) shares of the log's time; None if it has too few days."""
    day = log.day
    if day is None or log.arrival[-1] - log.arrival[0] < LEAST_DAYS * day:
        return None
    part = np.minimum((log.arrival % day / day * periods).astype(np.int64), periods - 1)
    count = np.zeros((periods, n_types), dtype=np.int64)
    np.add.at(count, (part, task_type), 1)
    ends = time_by_period(log.arrival[[0, -1]], day, periods)
    covered = ends[1] - ends[0]
    return count, covered / covered.sum()


def _uneven(log: Log, count: Int, exposure: Float) -> tuple[float, float]:
    """How likely so uneven periods are under a constant rate, and the dispersion.

    Pearson's statistic of the periods' totals, divided by the dispersion that the days show
    within each period, so that busy and quiet days are not taken for a profile.
    """
    day, periods = float(log.day or 1.0), len(exposure)
    cell = np.floor(log.arrival / day * periods).astype(np.int64)
    cells = np.bincount(cell - cell[0], minlength=int(cell[-1] - cell[0]) + 1)[1:-1]
    part = (np.arange(len(cells)) + cell[0] + 1) % periods
    mean = np.bincount(part, weights=cells, minlength=periods)
    days = np.bincount(part, minlength=periods)
    mean = np.divide(mean, days, out=np.zeros(periods), where=days > 0)
    seen = mean[part] > 0
    free = max(int(seen.sum()) - int((mean > 0).sum()), 1)
    pearson = float((((cells - mean[part]) ** 2)[seen] / mean[part][seen]).sum())
    dispersion = max(pearson / free, 1.0)
    total = count.sum(axis=1)
    expected = exposure * total.sum()
    open_ = expected > 0
    statistic = float((((total - expected) ** 2)[open_] / expected[open_]).sum()) / dispersion
    return float(chdtrc(max(int(open_.sum()) - 1, 1), statistic)), dispersion


def _check_whole(length: float, step: Step, periods: int) -> None:
    if abs(length - round(length)) > 1e-6 or round(length) < 1:
        raise InputError(
            Problem(
                "--step",
                f"{step.length:g} does not divide a period ({length:g} steps, {periods} a day)",
                "periods of whole steps",
                "choose another step, or --periods 1 for no profile of the day",
            )
        )


def _drift(log: Log, window: float) -> Drift | None:
    """A test on the counts of days, or of equal blocks of the log without days."""
    length = log.day if log.day is not None and window >= 16 * log.day else None
    if length is None:
        blocks = min(DRIFT_BLOCKS, log.n_tasks // 8)
        length = window / max(blocks, 1)
    place = np.floor((log.arrival - log.arrival[0]) / length).astype(np.int64)
    counts = np.bincount(place)[: int(window / length)].astype(np.float64)
    return drift_test("arrivals", counts)


def poisson_interval(count: Int) -> tuple[Float, Float]:
    """The exact 95 % interval of a Poisson mean (Garwood 1936, quoted), for pictures."""
    tail = (1.0 - LEVEL) / 2.0
    low = np.where(count > 0, gammaincinv(np.maximum(count, 1), tail), 0.0)
    return low, np.asarray(gammaincinv(count + 1, 1 - tail))
