"""A pool's time: a clock that may be set, made one that never goes back and never stands still.

A machine's clock that was an hour ahead for a moment, and is put right, would stop the pool's time
for an hour: its events cannot go back, and no deadline would come. So while the clock is behind
the pool's latest event, time goes on all the same, slower than the clock, which catches up.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PACE = 0.9
"""Seconds of the pool's time in a second, while the clock is behind."""


class SteadyClock:
    """Seconds of a pool's time.

    Args:
        clock: Seconds of a clock that may be set.
        latest: Time of the pool's latest event.
        steady: Seconds of a clock that is never set.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        latest: Callable[[], float],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._latest = latest
        self._steady = steady
        self._at = steady()
        self._told = clock()

    def __call__(self) -> float:
        """Now."""
        at = self._steady()
        passed = self._told + PACE * (at - self._at)
        self._at, self._told = at, max(self._clock(), passed, self._latest())
        return self._told
