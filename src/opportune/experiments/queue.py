"""Compare queue policies, each coupled with the oracle: what learning costs in waiting tasks.

All policies of a replication see the same arrivals, contexts and uniforms, and so does the
oracle, which knows the success rates; differences are taken run by run.

Queue length regret R_T = E[Q(T) - Q*(T)] (CQB 1.3). The end alone hides what was paid on the way,
so every row also has the time-averaged excess, the mean of Q(t) - Q*(t) over the run, and the
transient cost, the largest over t of the replication mean of the excess averaged up to t
(Freund, Lykouris, Weng 2023, against the oracle's queue).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, whole_problems
from opportune.experiments.metrics import half_width, standard_error
from opportune.experiments.settings import (
    EVERY,
    MAX_REPLICATIONS,
    Progress,
    asked_ids,
    repeated_problems,
    row_of,
)
from opportune.model.queue import MAX_HORIZON, QueueInstance
from opportune.model.queue_capacity import queue_capacity
from opportune.model.queue_generator import QueueWorld
from opportune.model.queue_streams import Feedback
from opportune.policies.base import QueuePlan, queue_policies_by_id, queue_policy
from opportune.simulate.queue import QueueRun, QueueTrace, simulate_queue

Float = NDArray[np.float64]

ORACLE = "oracle"
"""Id of the policy that every other one is coupled with."""

REFERENCES = {"full-information": "outcomes", "best-single": "servers"}
"""Oracles that know something else: in a replay what will happen, or the mean rate of every server
only, so that each task goes to the best server first."""

GROWING = 0.5
"""A queue is reported as growing when the last half of a run added at least this share of it."""

NOTICEABLE = 20.0
"""Mean queue below which growth is not reported."""


@dataclass(frozen=True)
class QueueSettings:
    """How queue policies are compared.

    Attributes:
        policies: Policy ids in the order of the table; empty means the usual ones, ``("all",)``
            every one.
        horizon: Steps of a run; None for the instance's own.
        replications: Coupled runs.
        seed: Seed of all streams.
        workers: Runs at the same time; they change nothing but the time.
        servers_at_once: Servers that work in a step, each on a task of its own.
        feedback: Late, lost and repeated reports.

    Raises:
        InputError: Naming the setting that is wrong.
    """

    policies: tuple[str, ...] = ()
    horizon: int | None = None
    replications: int = 100
    seed: int = 1
    workers: int = 1
    servers_at_once: int = 1
    feedback: Feedback = field(default_factory=Feedback)

    def __post_init__(self) -> None:
        if isinstance(self.policies, str):
            told = 'write ("optimistic",)'
            raise InputError(Problem("policies", repr(self.policies), "a tuple of ids", told))
        object.__setattr__(self, "policies", tuple(self.policies))
        problems = whole_problems(
            (
                ("horizon", 2 if self.horizon is None else self.horizon, 2, MAX_HORIZON),
                ("replications", self.replications, 1, MAX_REPLICATIONS),
                ("seed", self.seed, 0, 2**64 - 1),
                ("workers", self.workers, 1, 1024),
                ("servers_at_once", self.servers_at_once, 1, 1000),
            )
        )
        problems += repeated_problems(self.policies)
        if problems:
            raise InputError(problems)
        for one in self.policies:
            if one not in REFERENCES and (one != EVERY or len(self.policies) > 1):
                queue_policy(one)

    @property
    def policy_ids(self) -> tuple[str, ...]:
        """The policies to run: the ones named, the usual ones, or all."""
        return asked_ids(self.policies, queue_policies_by_id())


@dataclass(frozen=True)
class QueueRow:
    """What one policy did, over all replications.

    Attributes:
        policy: Policy id.
        queue_regret: Mean of Q(T) - Q*(T).
        standard_error: Its standard error, of the differences run by run.
        half_width: Its 95 % half width.
        variance_ratio: Variance of independent differences, Var Q(T) + Var Q*(T), over that of the
            coupled ones: how many times more runs would be needed without coupling.
        mean_queue: Time average of the queue length.
        final_queue: Mean of Q(T).
        exploration_share: Share of all tries that were random.
        excess: Time average of Q(t) - Q*(t).
        excess_error: Its standard error.
        transient_cost: Largest over t of the mean excess up to t.
        transient_error: Standard error at that t.
        transient_round: That t.
        worst: Largest Q(T) - Q*(T) of a run.
        note: What a reader should know, for example "heuristic".
    """

    policy: str
    queue_regret: float
    standard_error: float
    half_width: float
    variance_ratio: float
    mean_queue: float
    final_queue: float
    exploration_share: float
    excess: float
    excess_error: float
    transient_cost: float
    transient_error: float
    transient_round: int
    worst: int
    note: str = ""


@dataclass(frozen=True, eq=False)
class QueueComparison:
    """The result of :func:`compare_queue`; everything that made it is in it.

    Attributes:
        world: The instance, or the law that every replication draws one from.
        settings: How it was run.
        horizon: Steps of a run.
        rows: One a policy, in the order asked for.
        plans: What was run, by policy id.
        traces: What happened, by policy id, the oracle among them.
        warnings: What a reader must know before the numbers.
    """

    world: QueueWorld
    settings: QueueSettings
    horizon: int
    rows: tuple[QueueRow, ...]
    plans: dict[str, QueuePlan]
    traces: dict[str, QueueTrace]
    warnings: tuple[str, ...] = ()

    def row(self, policy: str) -> QueueRow:
        """The row of a policy id.

        Raises:
            InputError: If that policy was not run.
        """
        return row_of(self.rows, policy)

    def difference(self, policy: str, other: str) -> tuple[float, float]:
        """Mean time-averaged queue of a policy minus another's, and its standard error."""
        paired = self.traces[policy].mean_queue - self.traces[other].mean_queue
        return float(paired.mean()), standard_error(paired)


def compare_queue(
    world: QueueWorld, settings: QueueSettings | None = None, progress: Progress | None = None
) -> QueueComparison:
    """Run queue policies and the oracle on the same streams.

    Args:
        world: An instance, or a generator, which gives every replication its own.
        settings: Policies, horizon, replications, seed, workers.
        progress: Called with the share of the work done.

    Raises:
        InputError: If a policy cannot be used, for example a schedule that does not fit T.
    """
    settings = QueueSettings() if settings is None else settings
    horizon = world.horizon if settings.horizon is None else settings.horizon
    plans = [queue_plan(one, world, horizon) for one in settings.policy_ids]
    return compare_queue_plans(world, plans, settings, progress)


def queue_plan(policy: str, world: QueueWorld, horizon: int) -> QueuePlan:
    """The plan of a policy id, or of one of ``REFERENCES``.

    Raises:
        InputError: If there is no such policy, or it does not fit the horizon.
    """
    if policy in REFERENCES:
        plan = queue_policy(ORACLE).plan(world, horizon)
        return replace(plan, policy=policy, note=f"knows the {REFERENCES[policy]}")
    return queue_policy(policy).plan(world, horizon)


def run_plans(
    world: QueueWorld, plans: Sequence[QueuePlan], run: QueueRun, progress: Progress | None = None
) -> list[QueueTrace]:
    """Traces of plans on the same streams, in their order.

    A plan named as one of ``REFERENCES`` is the oracle's, on the world that knows as much.
    """
    learned = [plan for plan in plans if plan.policy not in REFERENCES]
    traces = iter(simulate_queue(world, learned, run, progress) if learned else [])
    found = []
    for plan in plans:
        if plan.policy in REFERENCES:
            knowing = replace(world, oracle_knows=REFERENCES[plan.policy])
            found += simulate_queue(knowing, [plan], run)
        else:
            found.append(next(traces))
    return found


def compare_queue_plans(
    world: QueueWorld,
    plans: Sequence[QueuePlan],
    settings: QueueSettings,
    progress: Progress | None = None,
) -> QueueComparison:
    """The same for plans that are made already, such as one policy with several knobs.

    Plans are told apart by their ``policy``; the settings' policies are not read.
    """
    horizon = world.horizon if settings.horizon is None else settings.horizon
    named = {plan.policy: plan for plan in plans}
    if len(named) < len(plans):
        raise InputError(Problem("plans", "two of one name", "every name once"))
    if ORACLE not in named:
        named[ORACLE] = queue_policy(ORACLE).plan(world, horizon)
    run = QueueRun(
        horizon=horizon,
        replications=settings.replications,
        seed=settings.seed,
        workers=settings.workers,
        servers_at_once=settings.servers_at_once,
        feedback=settings.feedback,
    )
    found = run_plans(world, list(named.values()), run, progress)
    traces = dict(zip(named, found, strict=True))
    rows = tuple(queue_row(plan, traces[plan.policy], traces[ORACLE]) for plan in plans)
    warnings = (*load_warnings(world, settings.servers_at_once), *growth_warnings(rows, traces))
    return QueueComparison(world, settings, horizon, rows, named, traces, warnings)


def queue_row(plan: QueuePlan, trace: QueueTrace, oracle: QueueTrace) -> QueueRow:
    """The row of a policy from its trace and the oracle's on the same streams."""
    apart = (trace.final_queue - oracle.final_queue).astype(np.float64)
    excess = trace.mean_queue - oracle.mean_queue
    on_the_way = trace.average - oracle.average
    worst = int(np.argmax(on_the_way.mean(axis=0)))
    independent = _variance(trace.final_queue) + _variance(oracle.final_queue)
    coupled = _variance(apart)
    attempts = int(trace.attempts.sum())
    return QueueRow(
        policy=plan.policy,
        queue_regret=float(apart.mean()),
        standard_error=standard_error(apart),
        half_width=half_width(apart),
        variance_ratio=independent / coupled if coupled > 0 else float("inf"),
        mean_queue=float(trace.mean_queue.mean()),
        final_queue=float(trace.final_queue.mean()),
        exploration_share=float(trace.explored.sum() / attempts) if attempts else 0.0,
        excess=float(excess.mean()),
        excess_error=standard_error(excess),
        transient_cost=float(on_the_way.mean(axis=0)[worst]),
        transient_error=standard_error(on_the_way[:, worst]),
        transient_round=int(trace.grid[worst]),
        worst=int(apart.max()),
        note=plan.note,
    )


def load_warnings(world: QueueWorld, servers_at_once: int = 1) -> tuple[str, ...]:
    """What is said before a run whose queue cannot stay short, even for the oracle."""
    if not isinstance(world, QueueInstance):
        return ()
    served = queue_capacity(world)
    capacity = served.tasks_per_step * servers_at_once
    if world.arrival_rate < capacity:
        return ()
    return (
        f"the queue grows without end: arrival rate {world.arrival_rate:.4g}, but the oracle "
        f"serves {capacity:.4g} tasks per step (mean best rate {served.mean_best_rate:.4g}, worst "
        f"{served.least_best_rate:.4g}; slack {served.least_best_rate - world.arrival_rate:.4g}); "
        "lower the arrival rate",
    )


def growth_warnings(rows: Sequence[QueueRow], traces: dict[str, QueueTrace]) -> tuple[str, ...]:
    """Policies whose mean queue still grows at the end of the run."""
    found = []
    for row in rows:
        trace = traces[row.policy]
        half = int(np.searchsorted(trace.grid, trace.grid[-1] / 2))
        at = trace.curve.mean(axis=0)
        if at[-1] >= NOTICEABLE and at[-1] - at[half] >= GROWING * at[-1] / 2:
            found.append(
                f"the queue of {row.policy} grows to the end: {at[half]:.3g} waiting tasks half "
                f"way, {at[-1]:.3g} at step {trace.grid[-1]}"
            )
    return tuple(found)


def _variance(values: NDArray[np.int64] | Float) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0
