"""Run plans in a pool that is split into sub-pools, servers re-dealt at random every period.

The prices are those of the whole pool: a sub-pool follows its part of the whole list. All plans
and all splits of a run see the same tasks, so differences are paired; one sub-pool gives exactly
the ordinary run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, whole_problems
from opportune.kernels.allocate import SAMPLE, PlanTables
from opportune.kernels.loss import Trace, Window, World
from opportune.kernels.split import Deals, SplitState, run_split_arrivals
from opportune.kernels.streams import NEVER, draw_arrivals
from opportune.model.loss import LossInstance
from opportune.model.streams import BLOCK, empty_block, loss_law, stream_key
from opportune.policies.base import Plan
from opportune.pricing.merged import merge
from opportune.simulate.loss import MAX_STEPS, Run, empty_trace


@dataclass(frozen=True)
class Split:
    """Into how many sub-pools, how often re-dealt, how many a task asks.

    Attributes:
        subpools: m, each with R / m of the servers, rounded down or up.
        redeal: Steps from one deal to the next; None: one deal for the whole run.
        tries: Sub-pools that a task asks before it is dropped, at most m.

    Raises:
        InputError: Naming every value that is wrong.
    """

    subpools: int = 1
    redeal: int | None = None
    tries: int = 1

    def __post_init__(self) -> None:
        problems = whole_problems(
            (
                ("subpools", self.subpools, 1, 10**6),
                ("redeal", 1 if self.redeal is None else self.redeal, 1, MAX_STEPS),
                ("tries", self.tries, 1, 10**6),
            )
        )
        if not problems and self.tries > self.subpools:
            told = f"{self.tries} of {self.subpools} sub-pools"
            problems.append(Problem("tries", told, f"at most {self.subpools}"))
        if problems:
            raise InputError(problems)

    def check(self, instance: LossInstance) -> None:
        """Check that an instance can be split so.

        Raises:
            InputError: If a sub-pool has fewer servers than a task takes, servers are off duty at
                times, or durations depend on the server.
        """
        problem = instance.part_time_problem("a split pool")
        if instance.server_duration is not None:
            told = "durations that depend on the server"
            problem = Problem("server_duration", told, "durations by task type, for a split pool")
        if problem is not None:
            raise InputError(problem)
        least = instance.n_servers // self.subpools
        k = int(instance.servers_per_task.max())
        if least < k:
            told = f"{self.subpools}: {instance.n_servers} servers give sub-pools of {least}"
            expected = f"at least {k} in each, as many as a task takes"
            remedy = f"split into at most {instance.n_servers // k}"
            raise InputError(Problem("subpools", told, expected, remedy))


def simulate_split(
    instance: LossInstance,
    plans: Sequence[Plan],
    split: Split,
    run: Run,
    progress: Callable[[float], None] | None = None,
) -> list[Trace]:
    """Run every plan on the same stream in a split pool; one trace each, in order.

    Args:
        instance: The whole pool.
        plans: Plans of the whole pool: one list, or weights, per task type.
        split: Sub-pools, deals, tries.
        run: Stream and length; the run starts empty.
        progress: Called with the share of steps done, from 0 to 1, after each block.

    Raises:
        InputError: If the instance cannot be split so (:meth:`Split.check`), or a plan looks at
            the headcount, at groups or at the whole state.
    """
    split.check(instance)
    for plan in plans:
        check_split_plan(plan)
    law = loss_law(instance)
    key = stream_key(run.seed, run.replication)
    setting = (
        World(instance.match_reward, instance.servers_per_task),
        Window(run.warm_up, run.warm_up + run.steps),
    )
    deals = _deals(instance, split, key)
    tables = [(plan.tables, _room(plan.tables, split.subpools)) for plan in plans]
    states = [_empty_state(deals) for _ in plans]
    traces = [empty_trace(instance) for _ in plans]
    streams = empty_block(int(instance.servers_per_task.max()))
    block, done = 0, not law.arrival > 0 or not plans
    while not done:
        draw_arrivals(key, block * BLOCK, law, streams)
        for own, state, trace in zip(tables, states, traces, strict=True):
            done = run_split_arrivals(streams, own, deals, setting, state, trace)
        block += 1
        if progress is not None:
            progress(min(1.0, float(states[0].clock[0]) / setting[1].horizon))
    return traces


def check_split_plan(plan: Plan) -> None:
    """Check that a plan can be followed by a sub-pool that knows only its own servers.

    Raises:
        InputError: If it looks at the headcount, at groups or at the whole state of the pool.
    """
    levels = plan.tables.order.shape[1]
    if plan.counts is not None or levels != 1:
        told = f"{plan.policy} looks at who is busy in the whole pool"
        expected = "a policy with one list, or weights, per task type"
        raise InputError(Problem("policy", told, expected, "use lag, whittle, greedy or random"))


def _deals(instance: LossInstance, split: Split, key: tuple[np.uint64, np.uint64]) -> Deals:
    merged = merge(instance)
    return Deals(
        key=key,
        m=split.subpools,
        period=0 if split.redeal is None else split.redeal,
        tries=split.tries,
        kind=np.ascontiguousarray(merged.group_of, dtype=np.int64),
        size=np.ascontiguousarray(merged.copies, dtype=np.int64),
    )


def _room(whole: PlanTables, m: int) -> PlanTables:
    """Tables for one list per sub-pool, to be filled at every deal."""
    n_types, _, n_servers = whole.order.shape
    shape = (n_types, m, -(-n_servers // m))
    weight: NDArray[np.float64] = np.zeros((n_types, 0))
    if whole.rule == SAMPLE:
        weight = np.concatenate([whole.weight, np.zeros((n_types, 1))], axis=1)
    return PlanTables(
        order=np.zeros(shape, dtype=np.uint32),
        level=np.zeros(shape, dtype=np.int32),
        n_allowed=np.full(n_types, shape[2], dtype=np.int32),
        weight=np.ascontiguousarray(weight),
        rule=whole.rule,
    )


def _empty_state(deals: Deals) -> SplitState:
    n_servers = len(deals.kind)
    busy_until = np.zeros(n_servers + 1, dtype=np.int64)
    busy_until[-1] = 2 * NEVER - 1
    return SplitState(
        busy_until=busy_until,
        clock=np.array([-1, 0, -1], dtype=np.int64),
        picks=np.zeros(n_servers + 2, dtype=np.int64),
        pool_of=np.zeros(n_servers, dtype=np.int64),
        shuffled=np.zeros(n_servers, dtype=np.int64),
        place=np.zeros(max(len(deals.size), deals.m), dtype=np.int64),
    )
