"""Numbers as people write them: digits 0 to 9, a point, no marks between the digits.

Python also reads ``1_000`` and the digits of other scripts; here neither is a number, in a file, in
a log or on the command line, since no other program that meets the same file reads them alike.
"""

from __future__ import annotations

import re

WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")


def whole_number(text: str) -> int | None:
    """The whole number that a text is; None if it is none, or has thousands of digits."""
    try:
        return int(text) if WHOLE.fullmatch(text) else None
    except ValueError:  # more digits than Python reads
        return None


def decimal_number(text: str) -> float | None:
    """The number that a text is (also inf and nan); None if it is none."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None
