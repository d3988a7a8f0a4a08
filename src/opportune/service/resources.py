"""What an operator declares: pools, task types, servers, scores and plans.

Every document is checked when it is decoded: unknown fields are refused, ``None`` means "not
given" and 0 means 0. Times are seconds, as numbers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

PoolId = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z", description="lower case, digits, - and _")
]
Name = Annotated[
    str,
    Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+\Z", description="printable"),
]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]
PositiveSeconds = Annotated[float, Meta(gt=0.0, le=1e9)]
Slots = Annotated[int, Meta(ge=1, le=10_000)]
Score = Annotated[float, Meta(ge=0.0, le=1e100)]
Text = Annotated[str, Meta(max_length=1000)]


class PoolSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a pool decides, and the deadline of each of its states.

    Attributes:
        mode: ``loss``: a task that finds fewer than k servers is dropped; ``queue``: it waits.
        k: Servers per task; a task type overrides it.
        min_servers: A task that cannot be filled by its deadline starts with this many if given.
        auto_accept: Servers accept at once (machines); otherwise they are offered the task.
        offer_timeout: Seconds in which an offer must be answered.
        lease: Seconds after which an accepted assignment without heartbeat is lost.
        wrap_up: Seconds that a server stays busy after a completion.
        start_within: Seconds from creation in which a task must be in service, by default.
        age_weight: Reward per second of waiting, added to the index in queue mode.
        reserve_after: Seconds of waiting after which a task reserves freed servers; None: never.
        quarantine_after: Timed-out, failed or lost assignments in a row that put a server into
            quarantine; None: never.
        quarantine_backoff: Seconds of the first quarantine; each further one takes twice as long.
        quarantine_max: Longest quarantine in seconds.
        heartbeat_timeout: Seconds without a server's heartbeat after which it gets no offers;
            None: heartbeats are not asked for.
        plan_max_age: Seconds after which the active plan counts as stale.
        missing_score: What a pair without a score means once its type has scores.
        context: Names of the context fields that are kept; others are dropped.
        retain: Ended tasks and decisions that stay readable.
    """

    mode: Literal["loss", "queue"] = "loss"
    k: Slots = 1
    min_servers: Slots | None = None
    auto_accept: bool = True
    offer_timeout: PositiveSeconds = 60.0
    lease: PositiveSeconds = 86_400.0
    wrap_up: Seconds = 0.0
    start_within: PositiveSeconds = 3_600.0
    age_weight: Annotated[float, Meta(ge=0.0, le=1e100)] = 0.0
    reserve_after: Seconds | None = None
    quarantine_after: Annotated[int, Meta(ge=1, le=1_000_000)] | None = 3
    quarantine_backoff: PositiveSeconds = 60.0
    quarantine_max: PositiveSeconds = 3_600.0
    heartbeat_timeout: PositiveSeconds | None = None
    plan_max_age: PositiveSeconds = 86_400.0
    missing_score: Literal["forbid", "zero"] = "forbid"
    context: list[Name] = []
    retain: Annotated[int, Meta(ge=100, le=10_000_000)] = 10_000


class TaskTypeSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of task: what is known of it beforehand, and who may serve it.

    Attributes:
        id: Its name.
        rate: Prior arrival rate, tasks per second; None if unknown.
        mean_duration: Prior mean duration in seconds; None if unknown.
        k: Servers per task; None: the pool's.
        min_servers: As in the pool; None: the pool's.
        wrap_up: As in the pool; None: the pool's.
        eligible: Servers that may serve it; None: all.
        requires: Attributes that a server must have, each with one of the listed values.
    """

    id: Name
    rate: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    mean_duration: PositiveSeconds | None = None
    k: Slots | None = None
    min_servers: Slots | None = None
    wrap_up: Seconds | None = None
    eligible: list[Name] | None = None
    requires: dict[Name, list[Text]] = {}


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server: a person, machine or crew that is busy while it serves.

    Attributes:
        id: Its name.
        attributes: What task types may ask for.
        capacity: Slots: tasks that it serves at once, at most one slot a task.
        available: Whether it takes new tasks now.
        drain: Whether it finishes what it has and takes nothing new.
    """

    id: Name
    attributes: dict[Name, Text] = {}
    capacity: Slots = 1
    available: bool = True
    drain: bool = False


class Array(Struct, frozen=True, forbid_unknown_fields=True):
    """An array as bytes (base64 in JSON), row by row, little-endian."""

    dtype: Literal["uint32", "int32", "float64"]
    shape: list[int]
    data: bytes

    def numpy(self) -> NDArray[Any]:
        """The array, writable and contiguous.

        Raises:
            ValueError: If the bytes do not fill the shape.
        """
        flat = np.frombuffer(self.data, dtype=np.dtype(self.dtype).newbyteorder("<"))
        return flat.astype(self.dtype).reshape(self.shape)

    @classmethod
    def of(cls, array: NDArray[Any]) -> Array:
        """Pack an array of one of the three types."""
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        name: Any = array.dtype.name
        return cls(name, list(array.shape), little.tobytes())


class PlanDocument(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan made outside the engine, in the names of its task types and servers.

    V task types and R servers, in the order of the plan's own names; H headcounts.

    Attributes:
        id: Its name, unique in the pool.
        policy: The policy that made it.
        task_types: (V,) names.
        servers: (R,) names.
        order: (V, H, R) uint32 permitted servers in order, then anything.
        level: (V, H, R) int32 by position; equal neighbors are a tie.
        n_allowed: (V,) int32 how many positions of the order count.
        weight: (V, R) float64 for a sampling rule, otherwise (V, 0).
        rule: 0 a list, 1 a list with ties at random, 2 by weight (``kernels.allocate``).
        index: (V, R) float64 score minus opportunity cost, -inf for a forbidden pair.
        demand_price: (V,) l_v in reward; empty if the plan has no prices.
        capacity_price: (R,) q_r in reward per second; empty if the plan has no prices.
        mean_duration: (V,) seconds that the opportunity cost l_v + E[D_v] q_r counts with.
        pair_mean: (V, R) float64 seconds in its place where durations depend on the server.
        source: ``plan``, or ``priors`` for one priced from what was declared only.
        bound: Certified upper bound in reward per second, None if not known.
        gap: Relative gap of the certificate, None if there is none.
        note: What a reader should know.
    """

    id: Name
    policy: Name
    task_types: list[Name]
    servers: list[Name]
    order: Array
    level: Array
    n_allowed: Array
    weight: Array
    rule: Annotated[int, Meta(ge=0, le=2)]
    index: Array
    demand_price: list[float] = []
    capacity_price: list[float] = []
    mean_duration: list[float] = []
    pair_mean: Array | None = None
    source: Literal["plan", "priors"] = "plan"
    bound: float | None = None
    gap: float | None = None
    note: Text = ""


class ScoreRow(Struct, frozen=True, array_like=True):
    """Match reward of one pair."""

    task_type: Name
    server: Name
    score: Score
