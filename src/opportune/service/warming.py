"""Compile, or read from the cache, what a first decision needs: before anyone waits for it."""

from __future__ import annotations

import numpy as np

from opportune.kernels.allocate import PRIORITY, PlanTables, Task
from opportune.kernels.live import draw_words, explained_of, pick_explained


def warm_up() -> None:
    """Run the kernels once; a few seconds when the cache on disk is empty."""
    tables = PlanTables(
        order=np.zeros((1, 1, 1), dtype=np.uint32),
        level=np.zeros((1, 1, 1), dtype=np.int32),
        n_allowed=np.ones(1, dtype=np.int32),
        weight=np.zeros((1, 0)),
        rule=PRIORITY,
    )
    closed = np.zeros(1, dtype=np.int64)
    choice = np.zeros((1, 1), dtype=np.uint32)
    pick_explained(tables, closed, Task(0, 0, 0, 1), choice, explained_of(1))
    draw_words((np.uint64(0), np.uint64(0)), np.uint64(0), np.zeros(4, dtype=np.uint32))
