"""When a call is tried again, and how long it waits before.

A call is tried again if there was no answer (no connection, a time-out, a connection that broke)
or an answer that says "later" (429, 502, 503, 504, or the first try is still running). Its
idempotency key stays the same, so the service carries it out once however often it arrives.

The n-th wait is w_n (1 + U) / 2 with w_n = min(first 2^(n-1), longest) and U uniform on [0, 1), so
that clients that failed together do not come back together; never before ``Retry-After``, plus
``first`` U. Source: ours.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, fields
from email.utils import parsedate_to_datetime

from opportune.client.problems import ServiceError, error_of, problem_of, unreachable
from opportune.errors import InputError, Problem, shorten

LATER = frozenset({429, 502, 503, 504})
"""Statuses that say: try again."""

STILL_RUNNING = "still-running"
"""Code of the problem that says the same of an earlier try of this call."""


@dataclass(frozen=True)
class Retries:
    """How patient a client is. A call ends at whichever limit comes first.

    Attributes:
        tries: Most tries of a call, the first one included; 1 is no retry.
        seconds: No try begins later than this after the first one began.
        first: Longest wait before the second try, in seconds.
        longest: Longest wait between two tries, in seconds, unless the service asks for more.

    Raises:
        InputError: If a value is out of its range.
    """

    tries: int = 20
    seconds: float = 60.0
    first: float = 0.1
    longest: float = 5.0

    def __post_init__(self) -> None:
        wrong = []
        if isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1:
            wrong.append(Problem("tries", shorten(self.tries), "a whole number from 1"))
        for name in [one.name for one in fields(self)][1:]:
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0.0 <= value < math.inf):
                wrong.append(Problem(name, shorten(value), "seconds from 0"))
        if wrong:
            raise InputError(wrong)


def checked_retries(retries: Retries | None) -> Retries:
    """How patient a client is; None: as by default.

    Raises:
        InputError: If it is something else.
    """
    if retries is not None and not isinstance(retries, Retries):
        told = "Retries(tries=...), or None for the default"
        raise InputError(Problem("retries", shorten(retries), told))
    return Retries() if retries is None else retries


class Trial:
    """The tries of one call.

    Args:
        retries: How many, and for how long.
        key: Idempotency key of the call, for its errors.
    """

    def __init__(self, retries: Retries, key: str = "") -> None:
        self._retries = retries
        self._key = key
        self._start = time.monotonic()
        self._tries = 0

    def after_silence(self, cause: Exception | str) -> float:
        """There was no answer: seconds to wait before the next try.

        Raises:
            UnavailableError: If there is no next try.
        """
        wait = self._wait(None)
        if wait is None:
            named = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
            told = unreachable(named, self._tries, self._key)
            raise told from (cause if isinstance(cause, Exception) else None)
        return wait

    def after_answer(self, status: int, content: bytes, retry_after: str | None) -> float:
        """The answer is no success: seconds to wait before the next try.

        Args:
            status: HTTP status.
            content: The body.
            retry_after: The header, as it came.

        Raises:
            ServiceError: If the answer is final, or there is no next try.
        """
        body, asked = problem_of(status, content), seconds_in(retry_after)
        error: ServiceError = error_of(body, self._key, asked)
        if status not in LATER and body.code != STILL_RUNNING:
            raise error
        wait = self._wait(asked)
        if wait is None:
            raise error
        return wait

    def _wait(self, asked: float | None) -> float | None:
        """Seconds until the next try; None if there is none."""
        self._tries += 1
        own, chance = self._retries, random.random()
        if self._tries >= own.tries:
            return None
        doubled = own.first * 2.0 ** min(self._tries - 1, 60)
        wait = min(doubled, own.longest) * (1.0 + chance) / 2.0
        if asked is not None:
            wait = max(wait, asked + own.first * chance)
        passed = time.monotonic() - self._start
        return wait if passed + wait <= own.seconds else None


def seconds_in(retry_after: str | None) -> float | None:
    """The seconds that ``Retry-After`` asks for, as a number or as a date; None without any."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None
