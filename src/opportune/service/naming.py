"""Names of tasks, assignments and decisions: the pool, a letter and a number.

``calls.t7`` is task 7 of pool ``calls``, ``calls.a7`` its assignment, ``calls.d9`` decision 9. A
name says which pool to ask; the letter keeps a task's name from being read as a decision's.
"""

from __future__ import annotations

import re

TASK, ASSIGNMENT, DECISION = "t", "a", "d"

POOL_WORDS = "1 to 63 of a-z, 0-9, - and _, beginning with a letter or digit"
"""What a pool may be called."""

_NAME = re.compile(r"([a-z0-9][a-z0-9_-]{0,62})\.([tad])([1-9][0-9]{0,17})")


def name_of(pool: str, letter: str, number: int) -> str:
    """``pool.t7`` and the like."""
    return f"{pool}.{letter}{number}"


def pool_of(name: str) -> str | None:
    """The pool in a task's, assignment's or decision's name; None if it is no such name."""
    match = _NAME.fullmatch(name)
    return None if match is None else match[1]


def number_in(name: str, pool: str, letters: str) -> int | None:
    """The number in a name of this pool with one of these letters, else None."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] != pool or match[2] not in letters:
        return None
    return int(match[3])
