"""Run a policy in the (m,n)-scaled system, by counts of servers.

A run starts in the fluid fixed point (rounded to whole servers at random), in any other state,
or empty; ``warm_up`` steps are not counted. With m = n = 1, started empty, it equals the run
of the ordinary simulator on the same seed and replication task by task: the arrivals come from
the same streams (a slot is a step then), and the only dispatcher sees all servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, whole_problems
from opportune.kernels.allocate import WaterfillTables
from opportune.kernels.loss import Window
from opportune.kernels.scaled import (
    ScaledState,
    ScaledSystem,
    ScaledTrace,
    open_steps,
    round_state,
    run_slots,
)
from opportune.kernels.streams import draw_arrivals
from opportune.model.loss import LossInstance
from opportune.model.streams import BLOCK, empty_block, loss_law, stream_key
from opportune.pricing.fluid import longest_of
from opportune.simulate.loss import MAX_STEPS, N_BATCHES

Float = NDArray[np.float64]

MAX_SERVER_STEPS = 2**52
"""Most servers of a type times steps of a run: their sums stay exact whole numbers."""


@dataclass(frozen=True)
class ScaledRun:
    """Which scaled system is run, on which stream, and how much of it counts.

    Attributes:
        n: Servers of each type that a dispatcher sees; a task takes n k of them.
        m: Dispatchers, each with at most one task per step.
        steps: Counted steps, after the warm-up.
        warm_up: Steps before, run but not counted.
        seed: Seed of the streams.
        replication: Which replication of that seed.
    """

    n: int
    m: int
    steps: int
    warm_up: int
    seed: int = 1
    replication: int = 0

    def __post_init__(self) -> None:
        problems = whole_problems(
            (
                ("n", self.n, 1, MAX_SERVER_STEPS),
                ("m", self.m, 1, MAX_SERVER_STEPS),
                ("steps", self.steps, 1, MAX_STEPS),
                ("warm_up", self.warm_up, 0, MAX_STEPS),
            )
        )
        if not problems and self.copies * (self.warm_up + self.steps) > MAX_SERVER_STEPS:
            told = f"{self.copies:.3g} servers of a type for {self.warm_up + self.steps:.3g} steps"
            problems.append(
                Problem("m * n * steps", told, f"at most {MAX_SERVER_STEPS:.3g} server steps")
            )
        if problems:
            raise InputError(problems)

    @property
    def copies(self) -> int:
        """mn, the servers of each type."""
        return self.m * self.n


def default_copies(n: int) -> int:
    """m = floor(sqrt n), the paper's number of dispatchers."""
    return math.isqrt(n)


def default_steps(m: int) -> int:
    """max(100,000 / m, 1,000) steps: about the same work for every m."""
    return max(100_000 // m, 1_000)


def scaled_warm_up(instance: LossInstance) -> int:
    """10 max E[D] steps, rounded up."""
    return math.ceil(10 * float(instance.mean_duration.max()))


def simulate_scaled(
    instance: LossInstance,
    tables: WaterfillTables,
    run: ScaledRun,
    start: Float | None = None,
    progress: Callable[[float], None] | None = None,
    path: bool = False,
) -> ScaledTrace:
    """Run a policy in the scaled system.

    Args:
        instance: The instance; every server in it becomes mn servers of a type.
        tables: How a dispatcher shares a task among server types (``policies.waterfill``).
        run: Scale, stream and length.
        start: State (R, d+1) of shares to start in, rounded at random; None starts empty.
        progress: Called with the share of steps done after each block.
        path: Keep free servers and reward of every counted step (memory grows with the steps).

    Raises:
        InputError: If durations are too long for a state by steps left, servers are off duty
            at times, or ``start`` has another shape.
    """
    part_time = instance.one_headcount_problem("the scaled system")
    if part_time is not None:
        raise InputError(part_time)
    law = loss_law(instance)
    key = stream_key(run.seed, run.replication)
    system = ScaledSystem(key, run.m, run.n, instance.match_reward, instance.servers_per_task)
    window = Window(run.warm_up, run.warm_up + run.steps)
    state = _starting_state(instance, system, start)
    trace = _empty_trace(instance, run.steps if path else 0)
    streams = empty_block(0)
    block, done = 0, not law.arrival > 0
    if done:
        open_steps(window.horizon - 1, system, window, state, trace)
    while not done:
        draw_arrivals(key, block * BLOCK, law, streams)
        done = run_slots(streams, tables, system, window, state, trace)
        block += 1
        if progress is not None:
            progress(min(1.0, float(state.clock[0] + 1) / window.horizon))
    return trace


def _starting_state(
    instance: LossInstance, system: ScaledSystem, start: Float | None
) -> ScaledState:
    longest, n_servers = longest_of(instance), instance.n_servers
    everyone = system.m * system.n
    state = ScaledState(
        free=np.full(n_servers, everyone, dtype=np.int64),
        calendar=np.zeros((longest + 2, n_servers), dtype=np.int64),
        clock=np.array([-1, -1, 0], dtype=np.int64),
        unseen=np.zeros((2, n_servers), dtype=np.int64),
        taken=np.zeros(n_servers, dtype=np.int64),
        seen=np.zeros((2, n_servers)),
    )
    if start is not None:
        if start.shape != (n_servers, longest + 1):
            expected = f"shape ({n_servers}, {longest + 1}): server types by steps left"
            raise InputError(Problem("start", f"shape {start.shape}", expected))
        counts = np.zeros(start.shape, dtype=np.int64)
        round_state(system.key, everyone, np.ascontiguousarray(start), counts)
        state.free[:] = counts[:, 0]
        state.calendar[1 : longest + 1] = counts[:, 1:].T
    return state


def _empty_trace(instance: LossInstance, kept: int) -> ScaledTrace:
    n_types, n_servers = instance.n_types, instance.n_servers
    return ScaledTrace(
        assigned=np.zeros((n_types, n_servers), dtype=np.int64),
        busy_steps=np.zeros(n_servers, dtype=np.int64),
        arrived=np.zeros(n_types, dtype=np.int64),
        blocked=np.zeros(n_types, dtype=np.int64),
        reward=np.zeros(N_BATCHES),
        free_path=np.zeros((kept, n_servers), dtype=np.int64),
        reward_path=np.zeros(kept),
    )
