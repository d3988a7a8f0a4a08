"""How many tasks of each type came lately: what rates are measured from.

Counts stand in a ring of buckets over a window; both are part of the pool's state, so a replay
counts the same.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

BUCKETS = 64
"""Buckets of a window."""


class Arrivals(Struct, array_like=True):
    """Counts by bucket and type.

    Attributes:
        width: Seconds of a bucket.
        since: When counting began.
        last: Number of the latest bucket: it begins at ``last x width``.
        counts: By type, one a bucket, oldest first.
    """

    width: float
    since: float
    last: int
    counts: list[dict[int, int]]

    def note(self, time: float, v: int) -> None:
        """A task of type v came."""
        self.advance(time)
        bucket = self.counts[-1]
        bucket[v] = bucket.get(v, 0) + 1

    def advance(self, time: float) -> None:
        """Let buckets that are older than the window go."""
        ahead = int(time // self.width) - self.last
        if ahead > 0:
            self.last += ahead
            self.counts += [{} for _ in range(min(ahead, BUCKETS))]
            del self.counts[:-BUCKETS]

    def full(self, now: float, after: float, n_types: int) -> NDArray[np.int64]:
        """(buckets, n_types) counts of the buckets that began at ``after`` or later and are over.

        Args:
            now: The present.
            after: Seconds of the pool's clock; counting began no earlier than ``since`` anyway.
            n_types: How many types there are.
        """
        begin = max(after, self.since)
        ended = int(now // self.width)
        first = self.last - len(self.counts) + 1
        numbers = [
            number
            for number in range(max(first, ended - BUCKETS), ended)
            if number * self.width >= begin
        ]
        found = np.zeros((len(numbers), n_types), dtype=np.int64)
        for i, number in enumerate(numbers):
            place = number - first
            if place < len(self.counts):  # later ones have seen nobody
                for v, n in self.counts[place].items():
                    found[i, v] = n
        return found


def new_arrivals(window: float, now: float) -> Arrivals:
    """Counting begins."""
    width = window / BUCKETS
    return Arrivals(width, now, int(now // width), [{}])
