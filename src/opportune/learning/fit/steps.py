"""How long a step of the fitted instance is, in the log's unit of time.

An instance has at most one arrival a step and durations of whole steps, rounded up. A long step
breaks the first and lengthens the durations; a short one only makes runs longer. Ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.learning.fit.clock import DAY_SECONDS
from opportune.learning.fit.log import Log

Float = NDArray[np.float64]

PEAK_ARRIVALS = 0.3
"""Most arrivals per step in the busiest hour of the day: far enough below one."""

LENGTHENED = 0.02
"""Most by which rounding up to whole steps may lengthen the mean duration."""

ROUND_UP = 1e-9
"""Relative slack of rounding up: 0.9 / 0.3 is 3 steps, not 4."""

ROUND_TIMES = (1.5, 3.0, 6.0, 12.0)
"""Beside 1, 2 and 5: times ten these are round where a minute has 60 seconds."""

HOURS = 24
"""Parts of a day in which the busiest is looked for."""


@dataclass(frozen=True)
class Step:
    """The step, and what it costs.

    Attributes:
        length: In the log's unit.
        reason: Why this one.
        peak: Arrivals per step in the busiest part of the day (of the log without days).
        lengthened: Share by which rounding up lengthens the mean duration.
        shared: Share of arrivals that share their step with another.
    """

    length: float
    reason: str
    peak: float
    lengthened: float
    shared: float


def choose_step(log: Log, length: float | None = None, periods: int = 1) -> Step:
    """The longest round step that keeps arrivals apart and durations as they are, or a given one.

    Args:
        log: The log.
        length: The step, None to choose one.
        periods: Periods of a day, which a chosen step divides.

    A log whose times and durations are whole numbers, no two arrivals at one time, is in steps
    already: its unit is the step.

    Raises:
        InputError: If the given length is not positive, or holds more than one arrival on average.
    """
    if length is not None:
        if isinstance(length, bool) or not 0 < length < np.inf:
            raise InputError(Problem("--step", str(length), "a length of time above 0"))
        return _measured(log, float(length), "as asked")
    apart = bool(np.all(np.diff(log.arrival) > 0))
    if apart and _whole(log.arrival) and _whole(log.duration[log.complete]):
        return _measured(log, 1.0, "times and durations are whole numbers, no two arrivals at one")
    known = log.duration[np.isfinite(log.duration) & (log.duration > 0)]
    start = float(known.mean()) if known.size else float(log.arrival[-1]) / max(log.n_tasks, 1)
    for candidate in _round_lengths(max(start, 1e-12), log.day == DAY_SECONDS):
        if log.day is not None and not _divides(candidate, log.day / periods):
            continue
        step = _measured(log, candidate, "")
        if step.peak <= PEAK_ARRIVALS and step.lengthened <= LENGTHENED:
            told = f"longest round step with at most {PEAK_ARRIVALS:g} arrivals in the busiest time"
            return _measured(
                log, candidate, f"{told} and durations at most {LENGTHENED:.0%} longer by rounding"
            )
    raise InputError(
        Problem(
            "--step",
            "no round step suits both arrivals and durations",
            f"at most {PEAK_ARRIVALS:g} arrivals a step",
            "give --step yourself; are times and durations in one unit?",
        )
    )


def whole_steps(duration: Float, step: float) -> Float:
    """Durations in steps, rounded up, at least one."""
    steps = duration / step
    return np.maximum(np.ceil(steps - ROUND_UP * np.abs(steps)), 1.0)


def _measured(log: Log, length: float, reason: str) -> Step:
    span = float(log.arrival[-1] - log.arrival[0])
    mean_rate = (log.n_tasks - 1) / span if span > 0 else 1.0 / length
    rate = mean_rate
    if log.day is not None and span > 2 * log.day:
        part = np.floor(log.arrival % log.day / log.day * HOURS).astype(np.int64)
        busiest = np.bincount(part, minlength=HOURS).max()
        rate = max(rate, busiest / (span / log.day) / (log.day / HOURS))
    known = log.duration[log.complete & np.isfinite(log.duration) & (log.duration > 0)]
    longer = 0.0
    if known.size:
        longer = float((whole_steps(known, length) * length).sum() / known.sum()) - 1.0
    places, counts = np.unique(np.floor(log.arrival / length), return_counts=True)
    shared = float(counts[counts > 1].sum() / max(len(log.arrival), len(places), 1))
    return Step(length, reason, rate * length, longer, shared)


def _round_lengths(longest: float, sexagesimal: bool) -> list[float]:
    """1, 2 and 5 times powers of ten (and 15, 30, 60, 120 seconds), descending from ``longest``."""
    top = int(np.ceil(np.log10(longest)))
    digits = (1.0, 2.0, 5.0, *(ROUND_TIMES if sexagesimal else ()))
    values = {one * 10.0**power for power in range(top - 9, top + 1) for one in digits}
    return sorted((float(f"{value:.6g}") for value in values if value <= longest), reverse=True)


def _divides(length: float, period: float) -> bool:
    steps = period / length
    return round(steps) >= 1 and abs(steps - round(steps)) <= 1e-9 * steps


def _whole(values: Float) -> bool:
    known = values[np.isfinite(values)]
    return bool(np.all(known == np.floor(known)))
