"""The pieces of work: some replications of some policies on one instance, as sums.

Sums can be added, so a setting of a hundred thousand runs is cut into pieces of a few seconds,
and the numbers do not depend on how it was cut.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.queue import ORACLE, REFERENCES, queue_plan, run_plans
from opportune.experiments.resume import Record, Watch
from opportune.model.queue import QueueInstance
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_generator import QueueWorld
from opportune.policies.base import QueuePlan, queue_policy
from opportune.simulate.queue import QueueRun, QueueTrace

Float = NDArray[np.float64]

BAD_END = 5
"""Terminal excess from which a run is counted as one that went wrong."""


@dataclass(frozen=True)
class Arm:
    """A policy with its knobs, under a name of its own.

    Attributes:
        name: Unique within a piece.
        policy: Policy id.
        knobs: Fields of the policy's dataclass and their values.
    """

    name: str
    policy: str
    knobs: tuple[tuple[str, Any], ...] = ()

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The plan of the policy with these knobs, under this name."""
        if self.policy in REFERENCES:
            return queue_plan(self.policy, world, horizon)
        policy: Any = queue_policy(self.policy)
        made: QueuePlan = replace(policy, **dict(self.knobs)).plan(world, horizon)
        return replace(made, policy=self.name)


@dataclass(frozen=True)
class Place:
    """An instance: an id and what is chosen of it.

    Attributes:
        instance: Catalog id.
        choice: Fields of ``QueueChoice`` and their values.
    """

    instance: str
    choice: tuple[tuple[str, Any], ...] = ()

    def world(self, horizon: int) -> QueueWorld:
        """The instance or the law of instances."""
        return _world(self, horizon)


@dataclass(frozen=True)
class Piece:
    """Some coupled replications.

    Attributes:
        place: The instance.
        horizon: T.
        arms: Policies; differences between them are taken to the first.
        first: Number of the first replication.
        replications: How many.
        seed: Seed of the streams.
    """

    place: Place
    horizon: int
    arms: tuple[Arm, ...]
    first: int
    replications: int
    seed: int

    @property
    def label(self) -> str:
        """Instance, horizon and the first replication."""
        return f"{self.place.instance} T {self.horizon} from {self.first}"

    @property
    def cost(self) -> float:
        """In millions of rounds of all policies; a run costs as much as 200 rounds by itself."""
        return 1e-6 * (self.horizon + 200) * self.replications * (len(self.arms) + 1)

    def settings(self) -> Record:
        """Its fields, and a hash of the instance where it has one."""
        world = self.place.world(self.horizon)
        digest = world.digest if isinstance(world, QueueInstance) else repr(world)
        return {**asdict(self), "digest": digest}

    def run(self, watch: Watch) -> Record:
        """Sums over the replications, by the name of the arm, and the rounds of the curves."""
        world = self.place.world(self.horizon)
        plans = [arm.plan(world, self.horizon) for arm in self.arms]
        plans.append(queue_policy(ORACLE).plan(world, self.horizon))
        run = QueueRun(
            horizon=self.horizon,
            replications=self.replications,
            seed=self.seed,
            first=self.first,
        )
        *traces, oracle = run_plans(world, plans, run, lambda share, text: watch())
        sums = {
            arm.name: arm_sums(trace, oracle, traces[0])
            for arm, trace in zip(self.arms, traces, strict=True)
        }
        return {
            "runs": self.replications,
            "grid": oracle.grid.tolist(),
            "oracle": {
                "final": float(oracle.final_queue.sum()),
                "final_square": float((oracle.final_queue.astype(np.float64) ** 2).sum()),
                "mean": float(oracle.mean_queue.sum()),
                "curve": oracle.curve.sum(axis=0).tolist(),
            },
            "arms": sums,
        }


@lru_cache(maxsize=64)
def _world(place: Place, horizon: int) -> QueueWorld:
    return load_queue(place.instance, QueueChoice(horizon=horizon, **dict(place.choice)))


def arm_sums(trace: QueueTrace, oracle: QueueTrace, first: QueueTrace) -> Record:
    """Sums and sums of squares of one policy's numbers, run by run beside the oracle's."""
    end = (trace.final_queue - oracle.final_queue).astype(np.float64)
    excess = trace.mean_queue - oracle.mean_queue
    way = trace.average - oracle.average
    end_apart = (trace.final_queue - first.final_queue).astype(np.float64)
    excess_apart = trace.mean_queue - first.mean_queue
    return {
        "end": pair(end),
        "excess": pair(excess),
        "end_apart": pair(end_apart),
        "excess_apart": pair(excess_apart),
        "way": [way.sum(axis=0).tolist(), (way**2).sum(axis=0).tolist()],
        "curve": trace.curve.sum(axis=0).tolist(),
        "final": pair(trace.final_queue.astype(np.float64)),
        "mean": float(trace.mean_queue.sum()),
        "attempts": int(trace.attempts.sum()),
        "explored": int(trace.explored.sum()),
        "worst": int(end.max()),
        "bad": int((end > BAD_END).sum()),
    }


def pair(values: Float) -> list[float]:
    """Sum and sum of squares."""
    return [float(values.sum()), float((values**2).sum())]
