"""One command on its way through the engine: what has happened so far, and the draws left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.live import draw_words
from opportune.service.applying import apply
from opportune.service.events import Event
from opportune.service.resources import PoolSettings
from opportune.service.state import State

Words = Sequence[int] | NDArray[np.uint32]
"""32-bit fractions: w / 2**32 lies in [0, 1)."""


class Turn:
    """Events are applied as they are emitted, so the next step sees them.

    Attributes:
        state: The pool.
        now: Time of the command, never before the pool's clock.
        events: What has happened in this turn.
        freed: Servers (indices) that got a slot free and were not looked at yet.
    """

    __slots__ = (
        "_at",
        "_extended",
        "_given",
        "_seed",
        "events",
        "freed",
        "now",
        "settings",
        "state",
    )

    def __init__(self, state: State, settings: PoolSettings, now: float, draws: Words) -> None:
        self.state = state
        self.settings = settings
        self.now = max(now, state.clock)
        self.events: list[Event] = []
        self.freed: list[int] = []
        self._given = np.array(draws, dtype=np.uint32)
        self._at = 0
        self._extended = 0
        self._seed = self._given

    def emit(self, event: Event) -> None:
        """Something happened."""
        apply(self.state, event)
        self.events.append(event)

    def draw(self, n: int) -> NDArray[np.uint32]:
        """The next n words, (1, n): those given, then words of Philox keyed by them."""
        if self._at + n > len(self._given):
            self._extend(n)
        drawn = self._given[self._at : self._at + n]
        self._at += n
        return drawn.reshape(1, n)

    def _extend(self, n: int) -> None:
        more = np.empty(n + -n % 4, dtype=np.uint32)
        first = [*self._seed[:3].tolist(), 0, 0, 0]
        key = np.uint64(first[0] | first[1] << 32), np.uint64(first[2])
        draw_words(key, np.uint64(self._extended), more)
        self._extended += len(more)
        self._given = np.concatenate([self._given[self._at :], more])
        self._at = 0
