"""Bodies of requests that are not already a command or a resource."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from opportune.service.commands import Value
from opportune.service.plan_jobs import Rates
from opportune.service.resources import Name, PoolId, PoolSettings, PositiveSeconds, ScoreRow


class LeaseBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Who accepts, or is still at work.

    Attributes:
        server: Which server of the assignment; None: all that it concerns.
        lease: The fencing token; None: not checked.
    """

    server: Name | None = None
    lease: int | None = None


class ReasonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Who declines, fails or lets go, and why.

    Attributes:
        server: Which server of the assignment; None: all that it concerns.
        lease: The fencing token; None: not checked.
        reason: In words.
    """

    server: Name | None = None
    lease: int | None = None
    reason: Annotated[str, Meta(max_length=1000)] = ""


class DoneBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Who is done, and what came of it.

    Attributes:
        server: Which server of the assignment; None: all that it concerns.
        lease: The fencing token; None: not checked.
        value: The outcome, if it is known already.
    """

    server: Name | None = None
    lease: int | None = None
    value: Value | None = None


class NewPool(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pool to be created.

    Attributes:
        id: Its name.
        settings: How it decides; None: the defaults.
    """

    id: PoolId
    settings: PoolSettings | None = None


class NewScores(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Match rewards.

    Attributes:
        rows: ``[task type, server, score]``.
        replace: Whether pairs that are not named lose their score.
    """

    rows: list[ScoreRow]
    replace: bool = False


class NewPlan(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Ask for a plan.

    Attributes:
        id: Its name; None: ``plan-1``, ``plan-2``, ...
        policy: Which policy makes it from the prices.
        activate: Put it in force once it is made.
        shadow: Let it decide beside the active one once it is made; with ``activate`` False.
        wait: Answer when it is made; False: answer at once, with the plan being priced.
        rates: ``declared``: the task types' own; ``measured``: those counted lately, where there
            are enough.
        seconds: Most seconds for pricing; the best prices so far are taken then.
    """

    id: Name | None = None
    policy: Name = "lag"
    activate: bool = True
    shadow: bool = False
    wait: bool = True
    rates: Rates = "declared"
    seconds: PositiveSeconds = 600.0


class Done(Struct, frozen=True):
    """How many entries of a batch were carried out."""

    count: int


class PoolList(Struct, frozen=True):
    """The pools of a node."""

    pools: list[str]


class AuditBody(Struct, frozen=True):
    """Something that an administrator did.

    Attributes:
        time: When, in seconds.
        who: Prefix of the API key, or ``local``.
        action: Method and path.
        remote: Address that it came from.
        status: HTTP status of the reply.
    """

    time: float
    who: str
    action: str
    remote: str
    status: int


class EventBody(Struct, frozen=True):
    """A record of a pool.

    Attributes:
        sequence: Its number: the cursor behind it.
        type: What happened (``events``).
        event: How; what is confidential or bulky is left out.
    """

    sequence: int
    type: str
    event: dict[str, Any]


class EventPage(Struct, frozen=True):
    """Records of a pool in order.

    Attributes:
        events: The records.
        next: Cursor for the next page: ``?after=`` this.
    """

    events: list[EventBody]
    next: int


class ReadyBody(Struct, frozen=True, omit_defaults=True):
    """A node that takes requests; the rest is told by one among several.

    Attributes:
        status: ``ready``.
        node: Its name.
        pools: Pools that it owns.
        nodes: Nodes that live, and where they answer.
    """

    status: str
    node: str = ""
    pools: list[str] = []
    nodes: dict[str, str] = {}
