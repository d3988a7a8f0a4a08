"""The loss system as an environment: a task needs k servers, pick them one after another.

- step: one pick; a task of k servers takes k of them.
- observed: ``task_type``; ``needed``, servers still to pick; ``free`` (R,) 0 or 1;
  ``busy_for`` (R,) steps since the assignment of a busy server, 0 for a free one.
- action: a server, 0 to R - 1; an impossible one, where ``info["action_mask"]`` is 0, turns the
  task away.
- reward: with a task's last pick its match reward, summed over its servers; else 0.
- end: truncated at the horizon, never terminated.
- info: ``action_mask`` (R,); ``step`` of the system; ``elapsed`` steps since the decision before;
  ``blocked``, tasks so far that found too few free servers; ``refused``, by impossible picks.

A task that finds too few free permitted servers is turned away without asking. How long a service
will take is not shown, as nobody knows it. With seed s, episode e reads the streams of replication
e of ``opportune.simulate_plans`` with that seed: an agent that follows a plan earns exactly what it
says for a run without warm-up (``planned`` tells the pick of a plan).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, whole_problems
from opportune.gym.vector import Bool, Float, Info, Int, Observation, SystemEnv, SystemVectorEnv
from opportune.kernels.driven_loss import (
    BLOCK_NUMBER,
    BLOCKED,
    CLOCK,
    ENDED,
    LAST,
    NEEDED,
    PICKED,
    PLACE,
    REFUSED,
    RUNNING,
    STATUS,
    TYPE,
    Driven,
    draw_blocks,
    find_tasks,
    planned_picks,
    show_systems,
    take_picks,
)
from opportune.kernels.loss import World
from opportune.model.files import load_instance
from opportune.model.loss import LossInstance
from opportune.model.streams import loss_law, stream_key
from opportune.policies.base import Plan
from opportune.simulate.loss import MAX_STEPS

ARRIVALS = 1024
"""Arrivals that each replication draws at once."""

STEPS = 10_000
"""Steps of an episode if nothing else is said."""

MOST_ENVS = 1_000_000

EXAMPLE, EXAMPLE_LOAD = "specialist-v1", 0.7
"""The instance, and its load, if nothing else is said."""


class LossSystem:
    """N replications of the loss system.

    Args:
        instance: The instance.
        steps: Steps of an episode.
        n: Replications.

    Raises:
        InputError: If a number is out of range, or the instance has what agents cannot drive.
    """

    def __init__(self, instance: LossInstance, steps: int, n: int) -> None:
        problems = whole_problems((("steps", steps, 1, MAX_STEPS), ("num_envs", n, 1, MOST_ENVS)))
        part_time = instance.part_time_problem("an environment")
        if part_time is not None:
            problems.append(part_time)
        if instance.server_duration is not None:
            told = "durations that depend on the server"
            problems.append(Problem("instance", told, "one law of durations per type"))
        if not instance.arrival_rate.sum() > 0:
            problems.append(Problem("arrival_rate", "all 0", "tasks that arrive"))
        if problems:
            raise InputError(problems)
        self.n, self.steps, self.instance = n, steps, instance
        k = int(instance.servers_per_task.max())
        servers = instance.n_servers
        self._law = loss_law(instance)
        self._world = World(instance.match_reward, instance.servers_per_task)
        self._allowed = np.ascontiguousarray(instance.allowed)
        self._driven = Driven(
            busy_until=np.zeros((n, servers), dtype=np.int64),
            busy_since=np.zeros((n, servers), dtype=np.int64),
            picks=np.zeros((n, servers + 1), dtype=np.int64),
            whole=np.zeros((n, LAST + 1), dtype=np.int64),
            counts=np.zeros((n, 4), dtype=np.int64),
            reward=np.zeros(n),
            key=np.zeros((n, 2), dtype=np.uint64),
            gap=np.zeros((n, ARRIVALS), dtype=np.int64),
            task_type=np.zeros((n, ARRIVALS), dtype=np.int32),
            duration=np.zeros((n, ARRIVALS), dtype=np.int64),
            choice=np.zeros((n, ARRIVALS, k), dtype=np.uint32),
        )
        self._driven.whole[:, STATUS] = ENDED
        self._mask = np.zeros((n, servers), dtype=np.int8)
        self.action_space = Discrete(servers)
        self.observation_space = Dict(
            {
                "task_type": Discrete(instance.n_types),
                "needed": Discrete(k + 1),
                "free": MultiBinary(servers),
                "busy_for": Box(0.0, float(steps), (servers,), np.float32),
            }
        )

    def begin(self, which: Bool, seed: list[int], episode: list[int]) -> None:
        """Start these replications anew: all servers free, before step 0."""
        driven = self._driven
        for at in np.flatnonzero(which):
            driven.key[at] = stream_key(seed[at], episode[at])
        for array in (driven.busy_until, driven.busy_since, driven.whole, driven.counts):
            array[which] = 0
        driven.whole[which, CLOCK] = -1
        driven.whole[which, LAST] = -1
        driven.whole[which, PLACE] = ARRIVALS
        driven.whole[which, BLOCK_NUMBER] = 0
        driven.whole[which, STATUS] = RUNNING
        self._run()

    def act(self, action: Int, which: Bool) -> Float:
        """Pick a server in each of these replications that waits for one; (N,) rewards."""
        take_picks(self._driven, self._world, self._allowed, np.where(which, action, -1))
        self._run()
        return self._driven.reward.copy()

    def ended(self) -> Bool:
        """(N,) replications at their horizon."""
        return np.asarray(self._driven.whole[:, STATUS] == ENDED)

    def observation(self) -> Observation:
        """What is observed, see the module."""
        driven, shape = self._driven, self._driven.busy_until.shape
        free = np.empty(shape, dtype=np.int8)
        busy_for = np.empty(shape, dtype=np.float32)
        show_systems(driven, self._allowed, free, busy_for, self._mask)
        needed = np.where(self.ended(), 0, driven.whole[:, NEEDED] - driven.whole[:, PICKED])
        return {
            "busy_for": busy_for,
            "free": free,
            "needed": needed,
            "task_type": driven.whole[:, TYPE].copy(),
        }

    def info(self) -> Info:
        """Possible picks and counts, see the module; after ``observation``."""
        whole, counts = self._driven.whole, self._driven.counts
        return {
            "action_mask": self._mask.copy(),
            "step": whole[:, CLOCK].copy(),
            "elapsed": whole[:, CLOCK] - whole[:, LAST],
            "blocked": counts[:, BLOCKED].copy(),
            "refused": counts[:, REFUSED].copy(),
        }

    def planned(self, plan: Plan) -> Int:
        """(N,) the server that a plan would pick next, -1 in replications that are over.

        Args:
            plan: A plan of lists or weights, made for the instance and followed so far.

        Raises:
            InputError: If the plan counts busy servers instead of listing them.
        """
        if plan.counts is not None:
            told = f"a plan of {plan.policy} by busy servers or states"
            raise InputError(Problem("plan", told, "lists of servers, as of lag or greedy"))
        found = np.empty(self.n, dtype=np.int64)
        planned_picks(self._driven, plan.tables, found)
        return found

    def _run(self) -> None:
        short = 1
        while short:
            draw_blocks(self._driven, self._law)
            short = find_tasks(self._driven, self._world, self._allowed, self.steps)


class LossEnv(SystemEnv):
    """The loss system (``opportune/Loss-v0``); what is observed and earned: see the module.

    Args:
        instance: A catalog id, an instance file or an instance.
        load: Multiplies all arrival rates so that the load is this; None leaves them (and is 0.7
            for the default instance).
        steps: Steps of an episode.

    Raises:
        InputError: If a number is out of range, or the instance has what agents cannot drive.
    """

    def __init__(
        self,
        instance: str | Path | LossInstance = EXAMPLE,
        load: float | None = None,
        steps: int = STEPS,
    ) -> None:
        self.loss = LossSystem(_loaded(instance, load), steps, 1)
        super().__init__(self.loss)

    def planned(self, plan: Plan) -> int:
        """The server that a plan would pick next, -1 at the end of the episode."""
        return int(self.loss.planned(plan)[0])


class LossVectorEnv(SystemVectorEnv):
    """Many loss systems that step in one compiled call (``make_vec``).

    Args:
        num_envs: How many.
        instance: A catalog id, an instance file or an instance.
        load: Multiplies all arrival rates so that the load is this; None leaves them (and is 0.7
            for the default instance).
        steps: Steps of an episode.

    Raises:
        InputError: If a number is out of range, or the instance has what agents cannot drive.
    """

    def __init__(
        self,
        num_envs: int = 1,
        instance: str | Path | LossInstance = EXAMPLE,
        load: float | None = None,
        steps: int = STEPS,
    ) -> None:
        self.loss = LossSystem(_loaded(instance, load), steps, num_envs)
        super().__init__(self.loss)

    def planned(self, plan: Plan) -> NDArray[np.int64]:
        """(N,) the server that a plan would pick next, -1 in environments that are over."""
        return self.loss.planned(plan)


def _loaded(instance: str | Path | LossInstance, load: float | None) -> LossInstance:
    if isinstance(instance, LossInstance):
        return instance if load is None else instance.with_load(load)
    if instance == EXAMPLE and load is None:
        load = EXAMPLE_LOAD
    return load_instance(instance, load)
