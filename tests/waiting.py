"""Waiting in tests: until something is so, never for a time; with room for a slow machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds after which what has not happened is a failure; far beyond what a busy machine takes."""


def eventually(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What a function finds, as soon as it is true.

    Raises:
        AssertionError: If it is not in that many seconds; with what was found last.
    """
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, f"it never came: {found!r}"
        time.sleep(0.02)
