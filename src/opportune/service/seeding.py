"""A pool from an instance: servers, task types, scores and a first plan."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from opportune.errors import InputError, Problem
from opportune.model.loss import LossInstance
from opportune.service import commands
from opportune.service.node import Node
from opportune.service.problems import ProblemBody, Reply
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings

FIRST_PLAN = "plan-1"


def pool_name(name: str) -> str:
    """An instance's name as a pool's: lower case, digits, ``-`` and ``_``."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:63]
    return plain or "pool"


def pool_commands(instance: LossInstance, step: float) -> Iterator[commands.Command]:
    """What declares an instance: a pool that has its servers, types and scores afterwards.

    Args:
        instance: Rates are per step, durations in steps.
        step: Seconds of a step.
    """
    one_k = instance.one_k
    yield commands.PutPool(settings=PoolSettings(k=1 if one_k is None else one_k))
    for v, name in enumerate(instance.task_types):
        settings = TaskTypeSettings(
            id=name,
            rate=float(instance.arrival_rate[v]) / step,
            mean_duration=float(instance.duration[v].mean) * step,
            k=None if one_k is not None else int(instance.servers_per_task[v]),
        )
        yield commands.PutTaskType(settings=settings)
    for name in instance.servers:
        yield commands.PutServer(settings=ServerSettings(id=name))
    rows = [
        ScoreRow(instance.task_types[v], instance.servers[r], float(instance.match_reward[v, r]))
        for v, r in np.argwhere(instance.allowed)
    ]
    yield commands.PutScores(rows=rows, replace=True)


async def seed(node: Node, pool: str, instance: LossInstance, step: float) -> bool:
    """Create a pool from an instance, unless it is there; whether it was created.

    Args:
        node: Its pools are read.
        pool: The pool's id.
        instance: What it is made from.
        step: Seconds of a step.

    Raises:
        InputError: If the service does not take something of it.
    """
    if node.cluster is not None and not await node.cluster.makes(pool):
        return False
    owner = node.owner_or_new(pool)
    if owner.state.settings is not None:
        return False
    waiting = [owner.ask(command) for command in pool_commands(instance, step)]
    for one in waiting:
        _check(await one)
    plan = await node.make_plan(pool, FIRST_PLAN, "lag")
    _check(await owner.ask(commands.PutPlan(plan=plan, activate=True)))
    return True


def _check(reply: Reply) -> None:
    if reply.status >= 400:
        told = msgspec.json.decode(reply.body, type=ProblemBody)
        raise InputError(Problem("instance", told.detail, "what the service takes"))
