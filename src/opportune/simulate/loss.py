"""Run plans on one stream of the loss system.

All plans of a run see the same arrivals, types, durations and choices, so differences
between them are paired. The run starts empty; ``warm_up`` steps are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, whole_problems
from opportune.kernels.group import (
    CountState,
    GroupTables,
    run_group_arrivals,
    run_state_arrivals,
)
from opportune.kernels.loss import LossState, Trace, Window, World, run_arrivals
from opportune.kernels.streams import LossStreams, draw_arrivals
from opportune.model.loss import LossInstance
from opportune.model.streams import BLOCK, empty_block, loss_law, stream_key
from opportune.policies.base import Plan
from opportune.simulate.by_server import ServerRun

N_BATCHES = 20
"""Equal parts of the counted window, for an interval from a single replication."""

MAX_STEPS = 10**15
"""Longest run, in steps."""


@dataclass(frozen=True)
class Run:
    """Which stream is run, and how much of it counts.

    Attributes:
        steps: Counted steps, after the warm-up.
        warm_up: Steps before, run but not counted.
        seed: Seed of the streams.
        replication: Which replication of that seed.
    """

    steps: int
    warm_up: int
    seed: int = 1
    replication: int = 0

    def __post_init__(self) -> None:
        problems = whole_problems(
            (("steps", self.steps, 1, MAX_STEPS), ("warm_up", self.warm_up, 0, MAX_STEPS))
        )
        if problems:
            raise InputError(problems)


def default_warm_up(instance: LossInstance, steps: int) -> int:
    """max(steps / 10, 10 max E[D]) steps, rounded up."""
    return int(np.ceil(max(steps / 10, 10 * instance.pair_mean.max())))


def simulate_plans(
    instance: LossInstance,
    plans: Sequence[Plan],
    run: Run,
    progress: Callable[[float], None] | None = None,
) -> list[Trace]:
    """Run every plan on the same stream; one trace each, in the order of ``plans``.

    Args:
        instance: The loss instance.
        plans: Plans made for this instance.
        run: Stream and length.
        progress: Called with the share of steps done, from 0 to 1, after each block.

    Raises:
        InputError: If servers are off duty at times: a share of time says how much, not when
            (``simulate.day`` runs days with breaks).
    """
    part_time = instance.part_time_problem("a run without days")
    if part_time is not None:
        raise InputError(part_time)
    law = loss_law(instance)
    key = stream_key(run.seed, run.replication)
    k = int(instance.servers_per_task.max())
    world = World(instance.match_reward, instance.servers_per_task)
    window = Window(run.warm_up, run.warm_up + run.steps)
    states = [empty_state_of(plan, instance.n_servers) for plan in plans]
    traces = [empty_trace(instance) for _ in plans]
    no_log = np.zeros((0, k), dtype=np.int32)
    streams = empty_block(k)
    block, done = 0, not law.arrival > 0
    laws = instance.server_duration
    by_server = None if laws is None else ServerRun(instance, laws, BLOCK)
    while not done:
        draw_arrivals(key, block * BLOCK, law, streams)
        if by_server is not None:
            by_server.draw(key, block * BLOCK)
        for plan, state, trace in zip(plans, states, traces, strict=True):
            if by_server is not None and isinstance(state, LossState):
                by_server.serve(plan, streams, window, state, (trace, no_log))
            else:
                serve_block(plan, streams, (world, window), state, (trace, no_log))
            done = bool(state.clock[0] >= window.horizon)
        done = done or not plans
        block += 1
        if progress is not None and states:
            progress(min(1.0, float(states[0].clock[0]) / window.horizon))
    return traces


def empty_state(n_servers: int) -> LossState:
    """All servers free, before step 0."""
    return LossState(
        busy_until=np.zeros(n_servers, dtype=np.int64),
        clock=np.full(1, -1, dtype=np.int64),
        picks=np.zeros(n_servers + 1, dtype=np.int64),
    )


def empty_state_of(plan: Plan, n_servers: int) -> LossState | CountState:
    """All servers free, before step 0, with what the plan has to remember."""
    state = empty_state(n_servers)
    if plan.counts is None:
        return state
    return CountState(
        busy_until=state.busy_until,
        clock=state.clock,
        picks=state.picks,
        busy=np.zeros(n_servers, dtype=np.int64),
        state=np.zeros(2, dtype=np.int64),
        ends=np.zeros(n_servers, dtype=np.int64),
        kinds=np.zeros(n_servers, dtype=np.int64),
    )


def serve_block(
    plan: Plan,
    streams: LossStreams,
    setting: tuple[World, Window],
    state: LossState | CountState,
    log: tuple[Trace, NDArray[np.int32]],
) -> int:
    """Serve a block of arrivals by the kernel that the plan's tables are for."""
    world, window = setting
    if isinstance(state, LossState):
        return run_arrivals(streams, plan.tables, world, window, state, log)
    if isinstance(plan.counts, GroupTables):
        return run_group_arrivals(streams, plan.counts, world, window, state, log)
    if plan.counts is None:
        raise TypeError("a state with counts for a plan without")
    return run_state_arrivals(streams, plan.counts, world, window, state, log)


def empty_trace(instance: LossInstance) -> Trace:
    """Nothing counted yet."""
    n_types, n_servers = instance.n_types, instance.n_servers
    return Trace(
        assigned=np.zeros((n_types, n_servers), dtype=np.int64),
        busy_steps=np.zeros(n_servers, dtype=np.int64),
        arrived=np.zeros(n_types, dtype=np.int64),
        blocked=np.zeros(n_types, dtype=np.int64),
        reward=np.zeros(N_BATCHES),
    )


def busy_paths(
    instance: LossInstance, plans: Sequence[Plan], run: Run
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Busy servers at every step of the run, per plan, and who served which arrival.

    For tests and small pictures: memory grows with the steps.

    Returns:
        ``busy`` (plans, warm_up + steps) and ``chosen`` (plans, arrivals, k), -1 where dropped.
    """
    law = loss_law(instance)
    key = stream_key(run.seed, run.replication)
    k = int(instance.servers_per_task.max())
    world = World(instance.match_reward, instance.servers_per_task)
    window = Window(run.warm_up, run.warm_up + run.steps)
    change = np.zeros((len(plans), window.horizon + 1), dtype=np.int64)
    chosen = [[np.zeros((0, k), dtype=np.int32)] for _ in plans]
    states = [empty_state_of(plan, instance.n_servers) for plan in plans]
    streams = empty_block(k)
    block, done = 0, not law.arrival > 0
    while not done:
        draw_arrivals(key, block * BLOCK, law, streams)
        for p, plan in enumerate(plans):
            start = states[p].clock[0]
            log = (empty_trace(instance), np.full((BLOCK, k), -1, dtype=np.int32))
            n = serve_block(plan, streams, (world, window), states[p], log)
            at = start + np.cumsum(streams.gap[:n])
            taken = (log[1][:n] >= 0).sum(axis=1)
            np.add.at(change[p], np.minimum(at + 1, window.horizon), taken)
            np.add.at(change[p], np.minimum(at + streams.duration[:n] + 1, window.horizon), -taken)
            chosen[p].append(log[1][:n])
            done = bool(states[p].clock[0] >= window.horizon)
        block += 1
    served = np.array([np.concatenate(rows) for rows in chosen], dtype=np.int64)
    return np.cumsum(change, axis=1)[:, :-1], served
