"""What the service tells about plans."""

from __future__ import annotations

from msgspec import Struct

from opportune.service.resources import PlanDocument


class Progress(Struct, frozen=True, kw_only=True):
    """How far pricing is.

    Attributes:
        step: What is being done; ``waiting`` before it begins.
        gap: Relative gap between the best plan found and the bound proven; None before there is
            one.
        seconds: Since pricing began.
    """

    step: str
    gap: float | None
    seconds: float


class EstimateBody(Struct, frozen=True, kw_only=True):
    """A mean over decisions in reward per decision, the shadow's minus the active plan's.

    Attributes:
        mean: None before the first decision, or if there is nothing to count with (no prices).
        half_width: Half of its 95 % interval by batch means; None for too few decisions.
        decisions: How many.
    """

    mean: float | None
    half_width: float | None
    decisions: int


class ShadowBody(Struct, frozen=True, kw_only=True):
    """What came of a stay in the shadow (``shadowing`` says what it means, and what not).

    Attributes:
        against: The active plan of that time.
        since, until: Seconds of the pool's clock; ``until`` None while it goes on.
        decisions: Decisions compared: those that picked servers.
        disagreement: Share of them in which the shadow would have picked other servers; None of
            none.
        score: What the shadow's picks would pay at once, against the active plan's.
        at_active_prices: The same less the value of the servers' time by the active plan.
        at_shadow_prices: The same by the shadow.
        verdict: ``worse``: worse at both plans' prices, as far as the intervals tell; ``better``;
            ``open``.
    """

    against: str | None
    since: float
    until: float | None
    decisions: int
    disagreement: float | None
    score: EstimateBody
    at_active_prices: EstimateBody
    at_shadow_prices: EstimateBody
    verdict: str


class PlanBody(Struct, frozen=True, kw_only=True):
    """A plan, without its tables.

    Attributes:
        id: Its name.
        policy: The policy that makes it from the prices.
        state: ``pricing``, ``failed``, ``canceled``, ``draft``, ``shadow`` or ``active``.
        source, bound, gap, note: As stored (``resources.PlanDocument``).
        active: Whether it is in force.
        shadow: Whether it decides beside the active one.
        created_at: When it was stored, or asked for.
        activated_at: When it was put in force last.
        reason: Why the service asked for it by itself; empty if somebody did.
        detail: Why it failed.
        progress: While it is being priced.
        in_shadow: Its latest stay in the shadow; None if there was none.
    """

    id: str
    policy: str
    state: str
    source: str
    bound: float | None
    gap: float | None
    note: str
    active: bool
    shadow: bool
    created_at: float | None
    activated_at: float | None
    reason: str = ""
    detail: str = ""
    progress: Progress | None = None
    in_shadow: ShadowBody | None = None


class PlanDetail(PlanBody, frozen=True, kw_only=True):
    """A plan with its prices and tables; ``document`` is None unless it is stored."""

    document: PlanDocument | None = None
