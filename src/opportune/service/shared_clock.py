"""The clock that all nodes share: the database's.

Pools go from node to node, and the clocks of machines differ. So among several nodes the time of a
command is the database's, as this node knows it: its own clock that never goes back, plus what the
heartbeat found the difference to be. A wrong clock of a machine changes nothing. What is left of a
difference (milliseconds) is clamped by the engine: a command is never before the latest event.
"""

from __future__ import annotations

import time

JUMP = 0.1
"""Seconds beyond which a difference is taken over at once; below it is approached."""

SHARE = 0.25
"""Share of a small difference that a beat corrects."""


class SharedClock:
    """Seconds of the database's clock; this machine's until the first heartbeat."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._known = False

    def __call__(self) -> float:
        """Now."""
        return time.monotonic() + self._offset

    def set(self, now: float, at: float) -> None:
        """What the database's clock said.

        Args:
            now: Its seconds.
            at: When it said so, on this machine's clock that never goes back.
        """
        found = now - at
        difference = found - self._offset
        if not self._known or abs(difference) > JUMP:
            self._offset = found
        else:
            self._offset += SHARE * difference
        self._known = True
