"""The queue with contexts as an environment: name a waiting task and a server, round after round.

- step: a round; one pair of a waiting task and a server is served.
- observed: ``features`` (W, F, x) of the W tasks that have waited longest, 0 where there are fewer;
  F is 1, or one row a server; ``waiting`` (1,), how many tasks wait.
- action: place K + server, place 0 to W - 1 from the longest wait; an impossible one, where
  ``info["action_mask"]`` is 0, leaves the round idle, as every one does when nobody waits.
- reward: minus the tasks that wait when the next round begins: the sum over an episode is minus the
  sum of Q(2) to Q(T).
- end: truncated at the horizon, never terminated.
- info: ``action_mask`` (W K,); ``round``; ``departed`` 0 or 1, what came of the last pair;
  ``departures`` so far; ``idle``, rounds so far in which nobody was served though tasks waited.

Success rates are hidden; ``departed`` is all that is learned. With seed s, episode e reads the
streams of replication e of a comparison of queue policies with that seed, and the instance of that
replication where the world draws one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from opportune.errors import InputError, whole_problems
from opportune.gym.vector import Bool, Float, Info, Int, Observation, SystemEnv, SystemVectorEnv
from opportune.kernels.driven_queue import (
    DEPARTED,
    IDLE,
    ROUND,
    SIZE,
    DrivenQueue,
    join_tasks,
    serve_pairs,
    show_queues,
)
from opportune.model.contexts import ContextPool
from opportune.model.queue import MAX_HORIZON, QueueInstance
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_generator import QueueGenerator, QueueWorld
from opportune.model.queue_streams import queue_streams

WINDOW, MOST_WINDOW = 8, 4096
"""Waiting tasks that are shown if nothing else is said, and the most."""

MOST_ENVS = 100_000


class QueueSystem:
    """N replications of the queue.

    Args:
        world: The queue.
        horizon: T: rounds 1 to T - 1 are played.
        window: W, waiting tasks that are shown and can be named.
        n: Replications.

    Raises:
        InputError: If a number is out of range.
    """

    def __init__(self, world: QueueWorld, horizon: int, window: int, n: int) -> None:
        problems = whole_problems(
            (
                ("horizon", horizon, 2, MAX_HORIZON),
                ("window", window, 1, MOST_WINDOW),
                ("num_envs", n, 1, MOST_ENVS),
            )
        )
        if problems:
            raise InputError(problems)
        self.n, self.world, self.horizon, self.window = n, world, horizon, window
        first = queue_streams(world, horizon, 0, 0)
        rows, size = first.features.shape[1:]
        self._servers = first.rate.shape[1]
        self._once = first.once
        self._queue = self._empty(max(1, len(first.arrival_round)), rows, size)
        self._mask = np.zeros((n, window * self._servers), dtype=np.int8)
        reach = _largest_feature(world)
        self.action_space = Discrete(window * self._servers)
        self.observation_space = Dict(
            {
                "features": Box(-reach, reach, (window, rows, size), np.float32),
                "waiting": Box(0, horizon, (1,), np.int64),
            }
        )

    def begin(self, which: Bool, seed: list[int], episode: list[int]) -> None:
        """Start these replications anew: nobody waits, round 1."""
        for at in map(int, np.flatnonzero(which)):
            streams = queue_streams(self.world, self.horizon, seed[at], episode[at])
            n_tasks = len(streams.arrival_round)
            if n_tasks > self._queue.waiting.shape[1]:
                self._widen(n_tasks)
            queue = self._queue
            queue.n_tasks[at] = n_tasks
            queue.arrival_round[at, :n_tasks] = streams.arrival_round
            queue.features[at, :n_tasks] = streams.features
            queue.rate[at, :n_tasks] = streams.rate
            queue.uniform[at] = streams.uniform[:, 0]
        queue = self._queue
        queue.whole[which] = 0
        queue.whole[which, ROUND] = 1
        queue.departed[which] = 0
        queue.tried[which] = False
        join_tasks(queue, which)

    def act(self, action: Int, which: Bool) -> Float:
        """Serve a pair in each of these replications; (N,) rewards."""
        queue = self._queue
        serve_pairs(queue, action, which, self.horizon, self.window)
        join_tasks(queue, which)
        return np.where(which, -queue.whole[:, SIZE].astype(np.float64), 0.0)

    def ended(self) -> Bool:
        """(N,) replications at their horizon."""
        return np.asarray(self._queue.whole[:, ROUND] >= self.horizon)

    def observation(self) -> Observation:
        """What is observed, see the module."""
        features = np.empty((self.n, self.window, *self._queue.features.shape[2:]), np.float32)
        waiting = np.empty(self.n, dtype=np.int64)
        show_queues(self._queue, self.window, features, waiting, self._mask)
        return {"features": features, "waiting": waiting[:, None]}

    def info(self) -> Info:
        """Possible pairs and what happened, see the module; after ``observation``."""
        whole = self._queue.whole
        return {
            "action_mask": self._mask.copy(),
            "round": whole[:, ROUND].copy(),
            "departed": self._queue.departed.copy(),
            "departures": whole[:, DEPARTED].copy(),
            "idle": whole[:, IDLE].copy(),
        }

    def hidden_rates(self) -> Float:
        """(N, W, K) true success rates of the tasks shown, for tests and ceilings; 0 for none."""
        queue, found = self._queue, np.zeros((self.n, self.window, self._servers))
        for at in range(self.n):
            shown = min(int(queue.whole[at, SIZE]), self.window)
            found[at, :shown] = queue.rate[at, queue.waiting[at, :shown]]
        return found

    def _empty(self, n_tasks: int, rows: int, size: int) -> DrivenQueue:
        n, servers = self.n, self._servers
        return DrivenQueue(
            waiting=np.zeros((n, n_tasks), dtype=np.int64),
            whole=np.zeros((n, 5), dtype=np.int64),
            departed=np.zeros(n, dtype=np.int8),
            tried=np.zeros((n, n_tasks if self._once else 0, servers), dtype=np.bool_),
            n_tasks=np.zeros(n, dtype=np.int64),
            arrival_round=np.zeros((n, n_tasks), dtype=np.int32),
            features=np.zeros((n, n_tasks, rows, size), dtype=np.float32),
            rate=np.zeros((n, n_tasks, servers)),
            uniform=np.zeros((n, self.horizon)),
        )

    def _widen(self, n_tasks: int) -> None:
        """Room for more tasks: a replication has more arrivals than any before."""
        old = self._queue
        new = self._empty(n_tasks + n_tasks // 8, *old.features.shape[2:])
        for name in DrivenQueue._fields:
            before, after = getattr(old, name), getattr(new, name)
            if before.shape == after.shape:
                after[...] = before
            else:
                after[:, : before.shape[1]] = before
        self._queue = new


class QueueEnv(SystemEnv):
    """The queue (``opportune/Queue-v0``); what is observed and earned: see the module.

    Args:
        world: A catalog id, an instance file, an instance or a law of instances.
        horizon: T: rounds 1 to T - 1 are played; None for what the world says.
        window: Waiting tasks that are shown and can be named.

    Raises:
        InputError: If a number is out of range.
    """

    def __init__(
        self,
        world: str | Path | QueueWorld = "cqb-joint-v1",
        horizon: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.queue = QueueSystem(*_loaded(world, horizon), window, 1)
        super().__init__(self.queue)


class QueueVectorEnv(SystemVectorEnv):
    """Many queues that step in one compiled call (``make_vec``).

    Args:
        num_envs: How many.
        world: A catalog id, an instance file, an instance or a law of instances.
        horizon: T: rounds 1 to T - 1 are played; None for what the world says.
        window: Waiting tasks that are shown and can be named.

    Raises:
        InputError: If a number is out of range.
    """

    def __init__(
        self,
        num_envs: int = 1,
        world: str | Path | QueueWorld = "cqb-joint-v1",
        horizon: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.queue = QueueSystem(*_loaded(world, horizon), window, num_envs)
        super().__init__(self.queue)


def _largest_feature(world: QueueWorld) -> float:
    """What no feature's absolute value exceeds: drawn contexts have norm 1 at most."""
    law = world.contexts if isinstance(world, QueueInstance) else None
    if isinstance(law, ContextPool):
        return float(np.abs(law.features).max(initial=1.0))
    return 1.0


def _loaded(world: str | Path | QueueWorld, horizon: int | None) -> tuple[QueueWorld, int]:
    if not isinstance(world, (QueueInstance, QueueGenerator)):
        world = load_queue(world, QueueChoice(horizon=horizon))
    return world, world.horizon if horizon is None else horizon
