"""What an operator declares: pools, task types, servers, scores and plans.

Every document is checked when it is decoded: unknown fields are refused, ``None`` means "not
given" and 0 means 0. Times are seconds, as numbers.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import Annotated, Any, Literal, SupportsIndex

import numpy as np
from msgspec import Meta, Struct, structs
from numpy.typing import NDArray

POOL_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}\Z"
NAME_PATTERN = r"^[^\x00-\x1f\x7f]+\Z"

PoolId = Annotated[str, Meta(pattern=POOL_PATTERN, description="lower case, digits, - and _")]
Name = Annotated[
    str,
    Meta(min_length=1, max_length=200, pattern=NAME_PATTERN, description="printable"),
]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]
PositiveSeconds = Annotated[float, Meta(gt=0.0, le=1e9)]
Slots = Annotated[int, Meta(ge=1, le=10_000)]
Score = Annotated[float, Meta(ge=0.0, le=1e100)]
Text = Annotated[str, Meta(max_length=1000)]


class FeatureRange(Struct, frozen=True, forbid_unknown_fields=True):
    """A number in a task's context, and between which values it is told apart."""

    name: Name
    low: Annotated[float, Meta(ge=-1e100, le=1e100)]
    high: Annotated[float, Meta(ge=-1e100, le=1e100)]


class LearnerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How outcomes become scores, where the pool learns.

    Attributes:
        low, high: Least and largest outcome that may be reported; learned scores lie between.
        optimism: Posterior standard deviations added to an estimate before it is priced.
        prior_strength: Outcomes that a declared score counts as.
        rate_strength: Arrivals that a declared rate counts as.
        duration_strength: Services that a declared mean duration counts as.
        exploration: Share of the tasks that go to servers at random.
        floor: Least estimate plus two standard deviations of a pair that such a task may get.
        outcome_within: Seconds after its end in which a service's outcome is waited for; after
            that it counts as missing (and still counts when it comes).
        features: Context fields that scores are learned from; none: scores go by task type.
    """

    low: Annotated[float, Meta(ge=0.0, le=1e100)] = 0.0
    high: Annotated[float, Meta(gt=0.0, le=1e100)] = 1.0
    optimism: Annotated[float, Meta(ge=0.0, le=10.0)] = 1.0
    prior_strength: Annotated[float, Meta(ge=0.0, le=1e9)] = 2.0
    rate_strength: Annotated[float, Meta(ge=0.0, le=1e9)] = 10.0
    duration_strength: Annotated[float, Meta(ge=0.0, le=1e9)] = 10.0
    exploration: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    floor: Annotated[float, Meta(ge=0.0, le=1e100)] = 0.0
    outcome_within: PositiveSeconds = 86_400.0
    features: tuple[FeatureRange, ...] = ()


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
        fallback: What may stand in for a fresh plan, tried in this order whatever the order here:
            ``stale`` the active plan although it is stale, ``priors`` the latest plan priced from
            the declared rates, ``scores`` the best free servers by score. Without any: at random.
        replan: What the service does by itself when arrival rates, scores, servers or durations
            have changed, or the plan is stale: ``off`` nothing, ``shadow`` a new plan that decides
            beside the active one, ``active`` a new plan that is put in force.
        replan_window: Seconds over which arrivals are counted, at least 1.
        replan_change: Least relative change of the load, the scores or a mean duration that is
            worth a new plan.
        missing_score: What a pair without a score means once its type has scores.
        context: Names of the context fields that are kept; others are dropped.
        retain: Ended tasks and decisions that stay readable.
        partitions: Sub-pools, each with an owner of its own and a part of the servers; 1: none.
        deal_period: Seconds after which servers are dealt to the sub-pools anew; None: once.
        part_of: The pool that this one is a sub-pool of; only the service sets it.
        learning: ``on``: learned scores, rates and durations are used; ``shadow``: they are
            published for view only; ``off``: nothing is learned.
        learner: How it learns.
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
    fallback: tuple[Literal["stale", "priors", "scores"], ...] = ("stale", "priors", "scores")
    replan: Literal["off", "shadow", "active"] = "off"
    replan_window: Annotated[float, Meta(ge=1.0, le=1e9)] = 3_600.0
    replan_change: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.1
    missing_score: Literal["forbid", "zero"] = "forbid"
    context: list[Name] = []
    retain: Annotated[int, Meta(ge=100, le=10_000_000)] = 10_000
    partitions: Annotated[int, Meta(ge=1, le=256)] = 1
    deal_period: PositiveSeconds | None = None
    part_of: PoolId | None = None
    learning: Literal["off", "shadow", "on"] = "off"
    learner: LearnerSettings = LearnerSettings()


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

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """For another process: the bytes beside the pickle, where it has such a place."""
        data = self.data if int(protocol) < 5 else PickleBuffer(self.data)
        return _array_of, (self.dtype, self.shape, data)

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


def _array_of(dtype: Any, shape: list[int], data: Any) -> Array:
    return Array(dtype, shape, bytes(data))


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
        arrival_rate: (V,) tasks per second that it was made for; empty if not told.
        score_version: Version of the pool's scores that it was made from; None if not told.
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
    arrival_rate: list[float] = []
    score_version: int | None = None

    @property
    def tables(self) -> dict[str, Array]:
        """Its arrays by field, those that it has."""
        found = {
            "order": self.order,
            "level": self.level,
            "n_allowed": self.n_allowed,
            "weight": self.weight,
            "index": self.index,
        }
        return found if self.pair_mean is None else {**found, "pair_mean": self.pair_mean}

    def without_tables(self) -> PlanDocument:
        """The same with empty arrays of the same shapes, for a journal that has them elsewhere."""
        empty = {name: Array(one.dtype, one.shape, b"") for name, one in self.tables.items()}
        return structs.replace(self, **empty)


class ScoreRow(Struct, frozen=True, array_like=True):
    """Match reward of one pair."""

    task_type: Name
    server: Name
    score: Score


class LearnedDocument(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a pool's learner knows, in the names of the pool.

    V task types, R servers, p features (intercept first); NaN where nothing is learned.

    Attributes:
        version: Counts the publications of a pool, from 1.
        task_types, servers: (V,) and (R,) names.
        score: (V, R) float64 what is priced: estimate plus optimism.
        mean, deviation: (V, R) float64 estimate and posterior standard deviation.
        rate: (V,) arrivals per second, capped so that a plan can serve them; None if unknown.
        mean_duration: (V,) seconds; None if unknown.
        features: (p - 1,) context fields behind ``weight``; empty without.
        weight: (R, p) float64 weights of the logit of (y - low) / (high - low); None without.
        outcomes: Outcomes that count.
        basis: Number of the last journal record that it was learned from.
    """

    version: Annotated[int, Meta(ge=1)]
    task_types: list[Name]
    servers: list[Name]
    score: Array
    mean: Array
    deviation: Array
    rate: list[float | None]
    mean_duration: list[float | None]
    features: list[Name] = []
    weight: Array | None = None
    outcomes: Annotated[int, Meta(ge=0)]
    basis: Annotated[int, Meta(ge=0)]
