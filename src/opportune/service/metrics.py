"""Prometheus metrics of a node, in base units.

Counters and histograms are fed as commands are decided; what is a property of the present state
(queue, open assignments, the mismatch of the ledger) is read when it is asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from opportune.service import commands
from opportune.service.answers import Answer
from opportune.service.events import Offered, SlotsMoved, TaskCreated, TaskDropped
from opportune.service.plan_jobs import PRICING
from opportune.service.pool_gauges import PoolGauge, PoolGauges, Sample
from opportune.service.state import State, capacity_mismatch

SECONDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ANSWERED = frozenset({"accepted", "declined", "timed_out"})
"""What may come of an offer."""


@dataclass
class _Pool:
    """What is counted of a pool besides the counters.

    Attributes:
        plan: The active plan since which reward is summed.
        since: When that began.
        score: Sum of the scores of all picks since.
        floor: Least propensity of a pick.
        pinned: Whether a task came with pins.
        counters: Children of the counters by their labels, so that they are looked up once.
    """

    plan: str | None = None
    since: float = 0.0
    score: float = 0.0
    floor: float = 1.0
    pinned: bool = False
    counters: dict[tuple[str, str], Counter] = field(default_factory=dict)


class Metrics:
    """The metrics of a node.

    Args:
        states: Gives the pools and their states when metrics are asked for.

    Attributes:
        clock: Seconds of the clock that the pools go by.
    """

    def __init__(self, states: Callable[[], Iterable[tuple[str, State]]]) -> None:
        self.registry = CollectorRegistry()
        self.clock = time.time
        self._states = states
        self._pools: dict[str, _Pool] = {}
        self._decisions = Counter(
            "opportune_decisions",
            "Decisions by result: assigned, dropped, queued, refused, repeated.",
            ("pool", "result"),
            registry=self.registry,
        )
        self._offers = Counter(
            "opportune_offer_result",
            "What came of offers: accepted, declined, timed_out.",
            ("pool", "result"),
            registry=self.registry,
        )
        self._decide = Histogram(
            "opportune_decision_duration_seconds",
            "Seconds to decide on a new task, without the journal.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._commit = Histogram(
            "opportune_commit_duration_seconds",
            "Seconds of one write to the journal.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batch = Histogram(
            "opportune_commit_batch_size",
            "Records in one write to the journal.",
            buckets=BATCHES,
            registry=self.registry,
        )
        self._requests = Counter(
            "opportune_http_requests",
            "Requests by HTTP status.",
            ("status",),
            registry=self.registry,
        )
        self._statuses: dict[int, Counter] = {}
        self._gauges: list[PoolGauges[Any]] = []
        self._gathering = asyncio.Lock()
        self.add(PoolGauges(_GAUGES, self._states, self._samples))

    def measured(self, name: str, text: str, of: Callable[[], float]) -> None:
        """Export a number of the node that is read when it is asked for."""
        Gauge(f"opportune_{name}", text, registry=self.registry).set_function(of)

    def committed(self, records: int, seconds: float) -> None:
        """A write to the journal; called by its thread."""
        self._commit.observe(seconds)
        self._batch.observe(records)

    def answered(self, status: int) -> None:
        """A request was answered."""
        counter = self._statuses.get(status)
        if counter is None:
            counter = self._statuses[status] = self._requests.labels(str(status))
        counter.inc()

    def decided(self, pool: str, command: commands.Command, answer: Answer, seconds: float) -> None:
        """A command was carried out."""
        kept = self._pools.setdefault(pool, _Pool())
        if isinstance(command, commands.CreateTask):
            self._decide.observe(seconds)
            self._count(self._decisions, pool, _result(answer))
        for event in answer.events:
            if isinstance(event, Offered):
                self._picked(kept, event)
            elif isinstance(event, SlotsMoved) and event.state in ANSWERED:
                self._count(self._offers, pool, event.state, len(event.servers))
            elif isinstance(event, TaskCreated) and event.pins:
                kept.pinned = True

    def _picked(self, kept: _Pool, event: Offered) -> None:
        if event.why.plan != kept.plan:
            kept.plan, kept.since, kept.score = event.why.plan, event.time, 0.0
        for pick in event.picks:
            kept.score += pick.score or 0.0
            kept.floor = min(kept.floor, pick.propensity)

    def _count(self, counter: Counter, pool: str, label: str, by: int = 1) -> None:
        children = self._pools[pool].counters
        child = children.get((pool, label))
        if child is None:
            child = children[pool, label] = counter.labels(pool, label)
        child.inc(by)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    async def gathered(self) -> bytes:
        """The same, without holding up the event loop for longer than a moment."""
        async with self._gathering:
            for one in self._gauges:
                await one.gather()
            return await asyncio.to_thread(generate_latest, self.registry)

    def add(self, gauges: PoolGauges[Any]) -> None:
        """More gauges that are read pool by pool."""
        self.registry.register(gauges)
        self._gauges.append(gauges)

    def _samples(self, one: tuple[str, State]) -> Iterator[Sample]:
        pool, state = one
        for name, labels, value in self._values(pool, state):
            yield Sample(name, (pool, *labels), value)

    def _values(self, pool: str, state: State) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Gauge, labels behind the pool, value."""
        now = self.clock()
        counts = state.counts
        yield "queue_depth", (), len(state.queued)
        yield "assignments_open", (), state.n_tasks_open - len(state.queued)
        yield "slots_open", (), state.open_slots
        yield "capacity_mismatch", (), capacity_mismatch(state)
        created = counts.get("created", 0)
        if created:
            yield "blocking_ratio", (), counts.get("dropped", 0) / created
        yield "reward_total", (), state.reward
        kept, plan = self._pools.get(pool, _Pool()), state.active_plan
        yield "propensity_floor", (), kept.floor
        yield "plans_pricing", (), sum(job.state == PRICING for job in state.jobs.values())
        yield "replans", (), counts.get("replanned", 0)
        yield from _in_shadow(state)
        if plan is None:
            return
        yield "plan_age_seconds", (), max(now - state.activated[plan.id], 0.0)
        for task_type, price in zip(plan.task_types, plan.demand_price, strict=False):
            yield "demand_price", (task_type,), price
        if plan.bound and kept.plan == plan.id and now > kept.since:
            exact = holds_assumptions(state) and not kept.pinned
            kind = "bound" if exact else "reference, not a bound"
            yield "bound_ratio", (kind,), kept.score / (plan.bound * (now - kept.since))


def _in_shadow(state: State) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """What the plan in the shadow would have done (``shadowing`` for the meaning)."""
    record = None if state.shadow is None else state.shadowed.get(state.shadow)
    if record is None or not record.decisions:
        return
    yield "shadow_disagreement_ratio", (), record.differed / record.decisions
    for prices, series in (
        ("none", record.score),
        ("active", record.at_active),
        ("shadow", record.at_shadow),
    ):
        if series.mean is not None:
            yield "shadow_reward_difference", (prices,), series.mean
        if series.half_width is not None:
            yield "shadow_reward_half_width", (prices,), series.half_width


def holds_assumptions(state: State) -> bool:
    """Whether the pool does what the bound assumes: no queue and no declines."""
    settings, counts = state.settings, state.counts
    return (
        settings is not None
        and settings.mode == "loss"
        and not any(counts.get(name, 0) for name in ("slots_declined", "slots_timed_out"))
    )


def _result(answer: Answer) -> str:
    if answer.repeated:
        return "repeated"
    if answer.problem is None:
        return "queued" if answer.waiting else "assigned"
    dropped = any(isinstance(event, TaskDropped) for event in answer.events)
    return "dropped" if dropped else "refused"


_GAUGES = (
    PoolGauge("queue_depth", "Tasks that wait.", ("pool",)),
    PoolGauge("assignments_open", "Assignments that are not over.", ("pool",)),
    PoolGauge("slots_open", "Slots that are held.", ("pool",)),
    PoolGauge(
        "capacity_mismatch", "Slots by the ledger against slots by the tasks; must be 0.", ("pool",)
    ),
    PoolGauge("blocking_ratio", "Dropped tasks over all tasks.", ("pool",)),
    PoolGauge("reward_total", "Sum of the reported outcomes.", ("pool",)),
    PoolGauge("propensity_floor", "Least propensity of a pick since the node started.", ("pool",)),
    PoolGauge("plan_age_seconds", "Seconds since the active plan was put in force.", ("pool",)),
    PoolGauge("plans_pricing", "Plans that are being made.", ("pool",)),
    PoolGauge("replans", "Plans that the service asked for by itself.", ("pool",)),
    PoolGauge(
        "shadow_disagreement_ratio",
        "Share of decisions in which the shadow plan would have picked other servers.",
        ("pool",),
    ),
    PoolGauge(
        "shadow_reward_difference",
        "Estimated reward per decision, the shadow plan's less the active one's, by whose prices.",
        ("pool", "prices"),
    ),
    PoolGauge(
        "shadow_reward_half_width",
        "Half of the 95 % interval of shadow_reward_difference.",
        ("pool", "prices"),
    ),
    PoolGauge(
        "demand_price", "What serving one more task of a type is worth.", ("pool", "task_type")
    ),
    PoolGauge(
        "bound_ratio",
        "Score of all picks per second over the plan's bound, since it is in force.",
        ("pool", "kind"),
    ),
)
