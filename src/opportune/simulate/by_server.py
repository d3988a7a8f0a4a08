"""Runs where durations depend on the server: its laws as tables, and their draws beside a block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.kernels.loss import LossState, Trace, Window
from opportune.kernels.loss_by_server import ServerWorld, draw_uniforms, run_arrivals_by_server
from opportune.kernels.streams import DETERMINISTIC, EMPIRICAL, GEOMETRIC, LossStreams
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance
from opportune.model.server_durations import ServerDurations
from opportune.model.streams import Key
from opportune.policies.base import Plan


class ServerRun:
    """The laws of an instance, and the uniform numbers of the present block."""

    def __init__(self, instance: LossInstance, laws: ServerDurations, size: int) -> None:
        self.world = server_world(instance, laws)
        self.uniform = np.empty(size)

    def draw(self, key: Key, first: int) -> None:
        """The numbers of arrivals first, first + 1, ..."""
        draw_uniforms(key, first, self.uniform)

    def serve(
        self,
        plan: Plan,
        streams: LossStreams,
        window: Window,
        state: LossState,
        log: tuple[Trace, NDArray[np.int32]],
    ) -> int:
        """Serve the block.

        Raises:
            InputError: If the plan counts busy servers instead of listing them.
        """
        if plan.counts is not None:
            told = f"a plan of {plan.policy} by busy servers or states"
            raise InputError(Problem("plans", told, "lists of servers, as of lag or greedy"))
        given = (streams, self.uniform)
        return run_arrivals_by_server(given, plan.tables, self.world, window, state, log)


def server_world(instance: LossInstance, laws: ServerDurations) -> ServerWorld:
    """The laws of all pairs as the kernel takes them."""
    kind, steps, log_stay, start = [], [], [], [0]
    value: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    below: list[NDArray[np.float64]] = [np.zeros(0)]
    for law in laws.laws:
        size, fixed, stay = 0, 1, -np.inf
        if isinstance(law, Deterministic):
            kind.append(DETERMINISTIC)
            fixed = law.steps
        elif isinstance(law, Geometric):
            kind.append(GEOMETRIC)
            stay = float(np.log1p(-1.0 / law.mean)) if law.mean > 1.0 else -np.inf
        else:
            kind.append(EMPIRICAL)
            order = np.argsort(law.steps, kind="stable")
            total = np.cumsum(law.weight[order])
            value.append(law.steps[order])
            below.append(total / total[-1])
            size = len(order)
        steps.append(fixed)
        log_stay.append(stay)
        start.append(start[-1] + size)
    return ServerWorld(
        match_reward=instance.match_reward,
        servers_per_task=instance.servers_per_task,
        which=laws.which,
        kind=np.array(kind, dtype=np.int8),
        steps=np.array(steps, dtype=np.int64),
        log_stay=np.array(log_stay),
        start=np.array(start, dtype=np.int64),
        value=np.concatenate(value),
        below=np.concatenate(below),
    )
