"""The calls of a world, played in real time against a served pool.

A call that arrives in step t asks the service for an agent at second t s / x, with s seconds a step
and x the speed-up; its agent hangs up half a step after step t + D, as in the simulator, where an
agent that takes a call of D steps in step t takes the next one from step t + D + 1 on.

Agents who go off duty are taken out of the pool: they finish their call and take no other. Those
who come are put in. What a period's plan was made for is declared when it begins.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from world import Turn, World

from opportune.client import (
    AssignmentBody,
    AsyncClient,
    CreateTask,
    NewPlan,
    NoCapacityError,
    PoolSettings,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.errors import InputError, Problem
from opportune.service.planning import plan_document

LOOK = 1.0
"""Seconds between two looks at the pool."""

WINDOW = 3600.0
"""Seconds of the call center over which the service counts calls, where it plans by itself."""

Plans = Literal["period", "replan", "one"]
"""A plan for each period, put in force when it begins; the service plans by itself when rates have
changed or agents came or went; one plan for the mean day."""


@dataclass
class Tally:
    """What happened.

    Attributes:
        servers: Agent of each call by its number, None where it was dropped.
        reward: Sum of the scores of all answered calls.
        steps: Steps of the call center that were played.
        answer_seconds: From when a call was due until it was answered, real seconds.
        mismatches: ``capacity_mismatch`` at every look that was not 0.
        looks: How often the pool was looked at.
        plans: Plans that decided, in the order in which they first did.
        degraded: Why no fresh plan decided, where that happened.
    """

    servers: dict[int, str | None] = field(default_factory=dict)
    reward: float = 0.0
    steps: int = 0
    answer_seconds: list[float] = field(default_factory=list)
    mismatches: list[int] = field(default_factory=list)
    looks: int = 0
    plans: dict[str, int] = field(default_factory=dict)
    degraded: set[str] = field(default_factory=set)

    @property
    def blocked(self) -> int:
        """Dropped calls."""
        return sum(server is None for server in self.servers.values())


async def declare(
    client: AsyncClient, pool: str, world: World, speed: float, plans: Plans = "one"
) -> float | None:
    """Make the pool and its first plan, in real seconds; that plan's bound per real second.

    Raises:
        InputError: If the pool has had tasks already.
    """
    if pool in await client.list_pools() and (await client.get_pool(pool)).counts.get("created"):
        raise InputError(Problem("--pool", pool, "a pool without tasks", "name another one"))
    instance, second = world.instance, world.step / speed
    settings = PoolSettings()
    if plans == "replan":
        settings = PoolSettings(replan="active", replan_window=max(WINDOW / speed, 1.0))
    await client.put_pool(pool, settings)
    await client.put_servers(pool, [ServerSettings(id=name) for name in instance.servers])
    rate = world.turns[0].rate if world.turns and plans == "period" else instance.arrival_rate
    await client.put_task_types(pool, _task_types(world, rate.tolist(), second))
    rows = [
        (task_type, server, float(instance.match_reward[v, r]))
        for v, task_type in enumerate(instance.task_types)
        for r, server in enumerate(instance.servers)
        if instance.allowed[v, r]
    ]
    await client.put_scores(pool, rows, replace=True)
    if world.turns:
        await asyncio.gather(*(client.remove_server(pool, name) for name in world.turns[0].leave))
    if plans == "replan" or not world.plans:
        made = await client.make_plan(pool, NewPlan())
        return made.bound
    for name, one in world.plans.items():
        document = plan_document(name, one.plan, one.prices, (second, None))
        await client.put_plan(pool, document)
    return (await client.activate_plan(pool, world.turns[0].plan or next(iter(world.plans)))).bound


def _task_types(world: World, rate: list[float], second: float) -> list[TaskTypeSettings]:
    """Declared, in real seconds; ``second`` is the length of a step."""
    instance = world.instance
    means = instance.mean_duration.tolist()
    return [
        TaskTypeSettings(id=name, rate=each / second, mean_duration=mean * second)
        for name, each, mean in zip(instance.task_types, rate, means, strict=True)
    ]


class Replay:
    """A run.

    Args:
        client: Of the service.
        pool: Declared there.
        world: What is played.
        speed: Seconds of the call center per real second.
        plans: Where plans come from.
    """

    def __init__(
        self,
        client: AsyncClient,
        pool: str,
        world: World,
        speed: float,
        plans: Plans = "one",
    ) -> None:
        self.tally = Tally()
        self._plans = plans
        self._client, self._pool, self._world = client, pool, world
        self._second = world.step / speed
        self._over = asyncio.Event()
        self._start = 0.0

    def stop(self) -> None:
        """No more calls; those that are in progress hang up."""
        self._over.set()

    async def run(self, progress: Callable[[float, str], None]) -> Tally:
        """Play it, to the end or until it is stopped.

        Args:
            progress: Called with the share that is done and a line, about every second.
        """
        loop = asyncio.get_running_loop()
        self._start = loop.time() + 0.1
        names, played = self._world.instance.task_types, self._world.calls
        watching = asyncio.create_task(self._watch(progress))
        async with asyncio.TaskGroup() as calls:
            calls.create_task(self._change())
            for i, step in enumerate(played.at):
                if await self._passes(int(step)):
                    break
                calls.create_task(self._call(i, int(step), names[played.task_type[i]]))
            stopped = self._over.is_set() or await self._passes(self._world.steps)
            passed = int((loop.time() - self._start) / self._second)
            self.tally.steps = min(passed, self._world.steps) if stopped else self._world.steps
            self._over.set()
        await watching
        await self._look()
        return self.tally

    async def _passes(self, step: float) -> bool:
        """Wait for a step; whether the run was stopped before."""
        wait = self._start + step * self._second - asyncio.get_running_loop().time()
        try:
            await asyncio.wait_for(self._over.wait(), max(wait, 0.0))
        except TimeoutError:
            return False
        return True

    async def _call(self, i: int, step: int, task_type: str) -> None:
        """A call from its arrival to its end."""
        clock, tally = asyncio.get_running_loop().time, self.tally
        task = CreateTask(task_type=task_type, external_id=f"call-{i}")
        try:
            made = await self._client.create_assignment(self._pool, task)
        except NoCapacityError:
            tally.servers[i] = None
            return
        finally:
            tally.answer_seconds.append(clock() - self._start - step * self._second)
        assert isinstance(made, AssignmentBody)  # a pool of mode loss has no queue
        score = sum(one.score or 0.0 for one in made.servers)
        tally.servers[i] = made.servers[0].id
        tally.reward += score
        plan = made.plan or "none"
        tally.plans[plan] = tally.plans.get(plan, 0) + 1
        if made.degraded:
            tally.degraded.add(made.degraded)
        await self._passes(step + float(self._world.calls.duration[i]) + 0.5)
        await self._client.complete(made.assignment_id, value=score, lease=made.lease)

    async def _change(self) -> None:
        """Rates, plans and agents of each stretch, when it begins; the first is declared."""
        for turn in self._world.turns[1:]:
            if await self._passes(turn.step):
                return
            await self._turn(turn)

    async def _turn(self, turn: Turn) -> None:
        client, pool = self._client, self._pool
        if self._plans == "period":
            types = _task_types(self._world, turn.rate.tolist(), self._second)
            await client.put_task_types(pool, types)
        await asyncio.gather(*(client.remove_server(pool, name) for name in turn.leave))
        if turn.come:
            await client.put_servers(pool, [ServerSettings(id=name) for name in turn.come])
        if turn.plan and self._plans == "period":
            await client.activate_plan(pool, turn.plan)

    async def _watch(self, progress: Callable[[float, str], None]) -> None:
        while not self._over.is_set():
            await self._look()
            passed = (asyncio.get_running_loop().time() - self._start) / self._second
            step, tally = min(max(passed, 0.0), self._world.steps), self.tally
            at = [turn.period for turn in self._world.turns if turn.step <= step][-1:]
            progress(
                step / self._world.steps,
                "".join(f"{period}, " for period in at)
                + f"{len(tally.servers)} calls, {tally.blocked} dropped, reward {tally.reward:.1f}",
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK)

    async def _look(self) -> None:
        found = await self._client.get_pool(self._pool)
        self.tally.looks += 1
        if found.capacity_mismatch:
            self.tally.mismatches.append(found.capacity_mismatch)
