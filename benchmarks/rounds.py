"""Timing on a machine that others use too: interleaved rounds, ratios pair by pair.

A round runs every job once, in order (A B C, A B C, ...), so that a slow spell of the machine
falls on all of them; a ratio is taken inside a round and only then summarized.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping

Job = Callable[[], float]
"""Does its work once and returns the seconds that count."""


def timed(work: Callable[[], object], repeat: int = 1) -> Job:
    """A job that does ``work`` ``repeat`` times and returns the seconds of one."""

    def job() -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            work()
        return (time.perf_counter() - start) / repeat

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
