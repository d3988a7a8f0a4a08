"""Randomness for decisions, from the operating system, fetched ahead."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

AHEAD = 65_536
"""Bytes of randomness fetched at once."""

EACH = 64
"""Bytes of it for one command."""


class Draws:
    """32-bit fractions, never the same ones twice."""

    def __init__(self) -> None:
        self._randomness = b""
        self._drawn = 0

    def __call__(self) -> NDArray[np.uint32]:
        """Those for one command."""
        if self._drawn + EACH > len(self._randomness):
            self._randomness, self._drawn = os.urandom(AHEAD), 0
        draws = np.frombuffer(self._randomness, np.uint32, EACH // 4, self._drawn)
        self._drawn += EACH
        return draws
