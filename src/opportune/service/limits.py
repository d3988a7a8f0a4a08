"""How much one caller may ask: a bucket of tokens per API key."""

from __future__ import annotations

from collections import OrderedDict

MOST_CALLERS = 10_000
"""Buckets kept; the one that was used longest ago goes first."""


class RateLimit:
    """``rate`` requests a second on average, ``burst`` at once.

    Args:
        rate: Tokens per second; None: no limit.
        burst: Tokens of a full bucket.
    """

    def __init__(self, rate: float | None, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, now: float) -> float:
        """Take a token; 0.0 if there was one, otherwise seconds until there is one.

        Args:
            caller: Whose bucket.
            now: Seconds of a clock that never goes back.
        """
        if self.rate is None:
            return 0.0
        tokens, then = self._buckets.pop(caller, (float(self.burst), now))
        tokens = min(tokens + (now - then) * self.rate, float(self.burst))
        allowed = tokens >= 1.0
        self._buckets[caller] = (tokens - allowed, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - tokens) / self.rate
