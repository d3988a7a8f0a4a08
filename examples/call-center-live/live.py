"""The calls of a world, played in real time against a served pool.

A call that arrives in step t asks the service for an agent at second t s / x, with s seconds a step
and x the speed-up; its agent hangs up half a step after step t + D, as in the simulator, where an
agent that takes a call of D steps in step t takes the next one from step t + D + 1 on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from world import World

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

LOOK = 1.0
"""Seconds between two looks at the pool."""


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
        plans: Plans that decided.
        degraded: Why no fresh plan decided, where that happened.
    """

    servers: dict[int, str | None] = field(default_factory=dict)
    reward: float = 0.0
    steps: int = 0
    answer_seconds: list[float] = field(default_factory=list)
    mismatches: list[int] = field(default_factory=list)
    looks: int = 0
    plans: set[str] = field(default_factory=set)
    degraded: set[str] = field(default_factory=set)

    @property
    def blocked(self) -> int:
        """Dropped calls."""
        return sum(server is None for server in self.servers.values())


async def declare(client: AsyncClient, pool: str, world: World, speed: float) -> float:
    """Make the pool and its plan, in real seconds; the plan's bound per real second.

    Raises:
        InputError: If the pool has had tasks already.
    """
    if pool in await client.list_pools() and (await client.get_pool(pool)).counts.get("created"):
        raise InputError(Problem("--pool", pool, "a pool without tasks", "name another one"))
    instance, step = world.instance, world.step / speed
    await client.put_pool(pool, PoolSettings())
    await client.put_servers(pool, [ServerSettings(id=name) for name in instance.servers])
    types = [
        TaskTypeSettings(id=name, rate=float(rate) / step, mean_duration=float(mean) * step)
        for name, rate, mean in zip(
            instance.task_types, instance.arrival_rate, instance.mean_duration, strict=True
        )
    ]
    await client.put_task_types(pool, types)
    rows = [
        (task_type, server, float(instance.match_reward[v, r]))
        for v, task_type in enumerate(instance.task_types)
        for r, server in enumerate(instance.servers)
        if instance.allowed[v, r]
    ]
    await client.put_scores(pool, rows, replace=True)
    made = await client.make_plan(pool, NewPlan())
    return 0.0 if made.bound is None else made.bound


class Replay:
    """A run.

    Args:
        client: Of the service.
        pool: Declared there.
        world: What is played.
        speed: Seconds of the call center per real second.
    """

    def __init__(self, client: AsyncClient, pool: str, world: World, speed: float) -> None:
        self.tally = Tally()
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
        names = self._world.names
        watching = asyncio.create_task(self._watch(progress))
        async with asyncio.TaskGroup() as calls:
            for i, step in enumerate(self._world.at):
                if await self._passes(int(step)):
                    break
                calls.create_task(self._call(i, int(step), names[i]))
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
        tally.plans.add(made.plan or "none")
        if made.degraded:
            tally.degraded.add(made.degraded)
        await self._passes(step + float(self._world.duration[i]) + 0.5)
        await self._client.complete(made.assignment_id, value=score, lease=made.lease)

    async def _watch(self, progress: Callable[[float, str], None]) -> None:
        while not self._over.is_set():
            await self._look()
            passed = (asyncio.get_running_loop().time() - self._start) / self._second
            earned = self.tally.reward / max(self._world.bound * passed, 1e-300)
            progress(
                min(max(passed, 0.0) / self._world.steps, 1.0),
                f"{len(self.tally.servers)} calls, {self.tally.blocked} dropped, "
                f"reward {100 * earned:.1f} % of the bound",
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK)

    async def _look(self) -> None:
        found = await self._client.get_pool(self._pool)
        self.tally.looks += 1
        if found.capacity_mismatch:
            self.tally.mismatches.append(found.capacity_mismatch)
