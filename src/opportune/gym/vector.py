"""What the environments share: seeds and episodes, resets, one row or many.

Episode e after a reset with seed s reads the streams of replication e of a simulation with seed s.
A reset without a seed goes on to the next episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from opportune.errors import InputError, Problem

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Observation = dict[str, Any]
Info = dict[str, Any]


class System(Protocol):
    """N replications that are driven together."""

    n: int
    observation_space: Dict
    action_space: Discrete

    def begin(self, which: Bool, seed: list[int], episode: list[int]) -> None:
        """Start these replications anew, from the streams of their seeds and episodes."""
        ...

    def act(self, action: Int, which: Bool) -> Float:
        """Take an action in each of these replications; (N,) rewards."""
        ...

    def ended(self) -> Bool:
        """(N,) replications that are over."""
        ...

    def observation(self) -> Observation:
        """New arrays of N rows, by the names of the observation space."""
        ...

    def info(self) -> Info:
        """New arrays of N rows: ``action_mask``, and what happened since the last action."""
        ...


class Episodes:
    """Which seed and episode each of N environments is in.

    Args:
        n: How many environments.
    """

    def __init__(self, n: int) -> None:
        self.seed = [0] * n
        self.number = [-1] * n

    def next(
        self, which: Bool, seeds: Sequence[int | None], generator: np.random.Generator
    ) -> tuple[list[int], list[int]]:
        """Seeds and episodes, after these environments have gone on to the next.

        Args:
            which: (N,) those that go on.
            seeds: A new seed for each, None to keep the old one.
            generator: Draws the seed of one that never had any.
        """
        for at in map(int, np.flatnonzero(which)):
            given = seeds[at]
            if given is not None:
                self.seed[at], self.number[at] = given, 0
            elif self.number[at] < 0:
                self.seed[at], self.number[at] = int(generator.integers(2**63)), 0
            else:
                self.number[at] += 1
        return self.seed, self.number


class SystemEnv(gymnasium.Env[Observation, np.int64]):
    """One replication.

    Args:
        system: A system of one replication.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.observation_space = system.observation_space
        self.action_space = system.action_space
        self._episodes = Episodes(1)
        self._whole = np.ones(1, dtype=np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begin the first episode of a seed, or the next episode without one."""
        super().reset(seed=seed)
        self.system.begin(self._whole, *self._episodes.next(self._whole, [seed], self.np_random))
        return self._shown(), self._told()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, Info]:
        """Take an action; an episode ends by truncation only."""
        given = np.array([action], dtype=np.int64)
        reward = float(self.system.act(given, self._whole)[0])
        return self._shown(), reward, False, bool(self.system.ended()[0]), self._told()

    def _shown(self) -> Observation:
        return {name: rows[0] for name, rows in self.system.observation().items()}

    def _told(self) -> Info:
        return {name: rows[0] for name, rows in self.system.info().items()}


class SystemVectorEnv(VectorEnv[Observation, Int, NDArray[Any]]):
    """N replications that step in one compiled call.

    One that is over begins its next episode at the step after (``AutoresetMode.NEXT_STEP``).

    Args:
        system: A system of N replications.
    """

    def __init__(self, system: System) -> None:
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.system = system
        self.num_envs = system.n
        self.single_observation_space = system.observation_space
        self.single_action_space = system.action_space
        self.observation_space = batch_space(system.observation_space, system.n)
        self.action_space = batch_space(system.action_space, system.n)
        self._episodes = Episodes(system.n)
        self._over = np.zeros(system.n, dtype=np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, Info]:
        """Begin episodes in all environments; a whole seed s gives them s, s + 1, ....

        Raises:
            InputError: If a list of seeds has not one for each environment.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds: Sequence[int | None] = [None] * self.num_envs
        if isinstance(seed, int):
            seeds = [seed + i for i in range(self.num_envs)]
        elif seed is not None:
            seeds = seed
        if len(seeds) != self.num_envs:
            told = f"{len(seeds)} seeds"
            raise InputError(Problem("seed", told, f"one for each of {self.num_envs} environments"))
        everyone = np.ones(self.num_envs, dtype=np.bool_)
        self.system.begin(everyone, *self._episodes.next(everyone, seeds, self.np_random))
        self._over[:] = False
        return self.system.observation(), self._told()

    def step(
        self, actions: Int
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Take an action in each environment."""
        over = self._over
        reward = self.system.act(np.asarray(actions, dtype=np.int64), ~over)
        if over.any():
            nobody: list[int | None] = [None] * self.num_envs
            self.system.begin(over, *self._episodes.next(over, nobody, self.np_random))
        self._over = self.system.ended()
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        return self.system.observation(), reward, terminated, self._over.copy(), self._told()

    def _told(self) -> Info:
        info = self.system.info()
        known = {f"_{name}": np.ones(self.num_envs, dtype=np.bool_) for name in info}
        return info | known
