"""Timing on a machine that others use too: interleaved rounds, ratios pair by pair.

A round runs every job once, in order (A B C, A B C, ...), so that a slow spell of the machine
falls on all of them; a ratio is taken inside a round and only then summarized. What one thread
computes is timed in processor time, which does not run while somebody else has the core (on an
idle machine it is the same as the time on the clock); whole processes are timed by the clock.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping

Job = Callable[[], float]
"""Does its work once and returns the seconds that count."""


Clock = Callable[[], float]


def timed(work: Callable[[], object], repeat: int = 1, clock: Clock = time.process_time) -> Job:
    """A job that does ``work`` ``repeat`` times and returns the seconds of one."""

    def job() -> float:
        start = clock()
        for _ in range(repeat):
            work()
        return (clock() - start) / repeat

    return job


def interleaved(jobs: Mapping[str, Job], rounds: int) -> dict[str, tuple[float, ...]]:
    """Seconds of every job in every round; no garbage collection while a job runs."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            gc.collect()
            gc.disable()
            try:
                seconds[name].append(job())
            finally:
                gc.enable()
    return {name: tuple(values) for name, values in seconds.items()}


def ratios(numerator: Iterable[float], denominator: Iterable[float]) -> tuple[float, ...]:
    """numerator / denominator, round by round."""
    return tuple(a / b for a, b in zip(numerator, denominator, strict=True))


def rates(amount: float, seconds: Iterable[float]) -> tuple[float, ...]:
    """amount / seconds, round by round."""
    return tuple(amount / one for one in seconds)
