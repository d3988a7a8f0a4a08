"""Plans on their way: asked for, being priced, or come to nothing."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Then = Literal["draft", "shadow", "active"]
"""What becomes of a plan once it is made."""

Rates = Literal["declared", "measured"]
"""Whose arrival rates a plan is made for: the task types' own, or those counted lately."""

PRICING, FAILED, CANCELED = "pricing", "failed", "canceled"

KEPT_JOBS = 16
"""Jobs that came to nothing and stay readable."""

MOST_STARTS = 3
"""Starts after which a job that never ends is given up: the service may be ending because of it."""


class PlanJob(Struct, array_like=True):
    """A plan that was asked for.

    Attributes:
        policy: Which policy reads the prices.
        then: What becomes of it.
        rates: Whose rates it is made for.
        reason: Why it was asked for; empty if somebody asked.
        seconds: Most seconds for pricing; the best prices so far are taken then.
        key: Of the request that waits for it: sent again after a restart, it is the same request.
        requested: When, in seconds of the pool's clock.
        state: ``pricing``, ``failed`` or ``canceled``.
        starts: How often pricing was begun.
        ended: When it failed or was canceled.
        detail: Why it failed.
    """

    policy: str
    then: Then
    rates: Rates
    reason: str
    seconds: float
    key: str
    requested: float
    state: str = PRICING
    starts: int = 0
    ended: float | None = None
    detail: str = ""


class PlanOrigin(Struct, array_like=True):
    """Where a stored plan came from.

    Attributes:
        created: When it was stored, in seconds of the pool's clock.
        reason: Why the service made it; empty if somebody asked for it.
        key: Of the request that asked for it, as in ``PlanJob``; empty without one.
        parts: Records of its tables (``plan_parts``); empty: it was written whole.
    """

    created: float
    reason: str = ""
    key: str = ""
    parts: list[int] = []
