"""What was seen of each task type at each server: five whole numbers a pair, row by row.

One array holds them all: a checkpoint is a copy of it, estimates are made from its columns, and a
search for garbage has nothing to look at however many pairs there are.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COLUMNS = 5
"""Numbers a pair: its key, then those of :class:`Pair`."""

OUTCOMES, GRAINS, SERVED, LABELED = range(1, COLUMNS)
"""Columns of the counts."""


class Pair(NamedTuple):
    """What was seen of a task type at a server.

    Attributes:
        outcomes: Labels; ``grains``: their sum.
        served: Services that ended.
        labeled: Those of them that have a label.
    """

    outcomes: int = 0
    grains: int = 0
    served: int = 0
    labeled: int = 0


class Pairs:
    """The counts of all pairs that were seen.

    Args:
        data: Of another one, from :meth:`dump`.
    """

    __slots__ = ("_numbers", "_place")

    def __init__(self, data: bytes = b"") -> None:
        self._numbers = array("q", data)
        self._place = {key: COLUMNS * i for i, key in enumerate(self._numbers[::COLUMNS])}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairs) and self._numbers == other._numbers

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._place)

    def place(self, v: int, r: int) -> int:
        """Where the numbers of a pair begin; it has a row from now on."""
        key = (v << 32) + r
        found = self._place.get(key)
        if found is None:
            found = self._place[key] = len(self._numbers)
            self._numbers.extend((key, 0, 0, 0, 0))
        return found

    def serve(self, v: int, r: int, labeled: bool) -> None:
        """A service has ended."""
        place = self.place(v, r)
        self._numbers[place + SERVED] += 1
        self._numbers[place + LABELED] += labeled

    def label(self, v: int, r: int, label: tuple[int, int], labeled: int) -> None:
        """Count labels.

        Args:
            v: Type.
            r: Server.
            label: Outcomes and grains more, negative to take back.
            labeled: Ended services with a label more.
        """
        place = self.place(v, r)
        self._numbers[place + OUTCOMES] += label[0]
        self._numbers[place + GRAINS] += label[1]
        self._numbers[place + LABELED] += labeled

    def pair(self, v: int, r: int) -> Pair:
        """What was seen of a type at a server."""
        place = self._place.get((v << 32) + r)
        return Pair() if place is None else Pair(*self._numbers[place + 1 : place + COLUMNS])

    def dump(self) -> bytes:
        """All of it; in any thread."""
        return self._numbers.tobytes()

    def table(self) -> NDArray[np.int64]:
        """(n, ``COLUMNS``) a copy of the numbers; in any thread."""
        return np.frombuffer(self.dump(), dtype=np.int64).reshape(-1, COLUMNS)

    def totals(self) -> Pair:
        """The sums over all pairs, but for grains, which nobody asks for; in any thread."""
        outcomes, served, labeled = self.table()[:, [OUTCOMES, SERVED, LABELED]].sum(axis=0)
        return Pair(int(outcomes), 0, int(served), int(labeled))
