"""What a learner says of a pool, as bodies: estimates, counts, intervals, warnings."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class PairBody(Struct, frozen=True, kw_only=True):
    """What is known of a task type at a server.

    Attributes:
        task_type, server: Names.
        mean: Estimated outcome; ``low`` and ``high``: its 95 % interval.
        score: What is priced: the estimate with optimism.
        outcomes: Outcomes that count.
        served: Services that ended.
        missing: Those of them without an outcome, waited for or not.
    """

    task_type: str
    server: str
    mean: float
    low: float
    high: float
    score: float
    outcomes: int
    served: int
    missing: int


class PaceBody(Struct, frozen=True, kw_only=True):
    """What is known of a task type in time, and of its outcomes.

    Attributes:
        task_type: Its name.
        rate: Arrivals per second, None if nobody knows.
        mean_duration: Seconds, None if nobody knows.
        arrived, served, missing: Counts, as in :class:`PairBody`.
    """

    task_type: str
    rate: float | None
    mean_duration: float | None
    arrived: int
    served: int
    missing: int


class AbsentBody(Struct, frozen=True, kw_only=True):
    """How many outcomes of a server are missing."""

    server: str
    served: int
    missing: int


class ExplorationBody(Struct, frozen=True, kw_only=True):
    """Tasks that go to servers at random.

    Attributes:
        share: As set; ``floor``: what a pair must hope for.
        explored: Tasks that did.
        price: What they cost in all: index of the plan's own picks minus index of theirs.
        price_per_task: The same by task of the pool.
    """

    share: float
    floor: float
    explored: int
    price: float
    price_per_task: float


class SupportBody(Struct, frozen=True, kw_only=True):
    """Can another policy be evaluated from this pool's log?

    Attributes:
        decisions: Latest decisions that had a choice.
        certain_share: Those of them whose picks were certain; 1.0: no policy that would pick
            otherwise can be evaluated.
        propensity_floor: Least propensity of a pick, ever.
    """

    decisions: int
    certain_share: float
    propensity_floor: float


class LearningBody(Struct, frozen=True, kw_only=True):
    """What a pool's learner knows.

    Attributes:
        pool: Its name.
        mode: ``off``, ``shadow`` or ``on``.
        version: Of the latest publication, 0 before the first one.
        published_outcomes: Outcomes in it; ``published_basis``: its last journal record.
        basis: The last journal record read.
        outcomes: Outcomes that count; ``reports``: all reports, revisions included.
        served: Services that ended; ``pending``: without an outcome that is still waited for;
            ``missing``: without one that is not.
        load: Busy share of the servers that rates and durations mean; ``rate_factor``: by what
            published rates are scaled down so that a plan can serve them.
        pairs, task_types, servers: In detail.
        exploration, support: See there.
        warnings: In words.
    """

    pool: str
    mode: Literal["off", "shadow", "on"]
    version: int
    published_outcomes: int
    published_basis: int
    basis: int
    outcomes: int
    reports: int
    served: int
    pending: int
    missing: int
    load: float
    rate_factor: float
    pairs: list[PairBody]
    task_types: list[PaceBody]
    servers: list[AbsentBody]
    exploration: ExplorationBody
    support: SupportBody
    warnings: list[str]
