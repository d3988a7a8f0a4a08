"""Evidence about the fluid limit: does G lead to x_hat, and does the system follow G?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.settings import Progress
from opportune.model.loss import LossInstance
from opportune.policies.waterfill import lag_tables
from opportune.pricing.fluid import (
    Attraction,
    FluidMap,
    attraction,
    fixed_point,
    fluid_map,
)
from opportune.pricing.occupancy import price
from opportune.simulate.scaled import ScaledRun, simulate_scaled

Float = NDArray[np.float64]


def lag_fluid(instance: LossInstance) -> tuple[FluidMap, Float]:
    """The fluid map of LAG on an instance, and its fixed point x_hat (R, d+1).

    Raises:
        OverloadError: If not every task can be served.
        InputError: If durations are too long for a state by steps left.
    """
    prices = price(instance)
    return fluid_map(instance, lag_tables(prices)), fixed_point(prices)


def fluid_attraction(
    instance: LossInstance,
    starts: int = 100,
    steps: int = 20_000,
    options: tuple[int, float] = (1, 1e-6),
    progress: Progress | None = None,
) -> Attraction:
    """Iterate LAG's fluid map from random starts: numerical evidence for LAG Assumption 4.2.

    Args:
        instance: The instance.
        starts: Number of random starts.
        steps: Most steps from each.
        options: Seed of the starts, and the tolerance of convergence.
        progress: Called with the share of the starts done.

    Raises:
        OverloadError: If not every task can be served.
        InputError: If durations are too long for a state by steps left.
    """
    fluid, target = lag_fluid(instance)

    def tell(share: float) -> None:
        if progress is not None:
            progress(share, f"fluid starts of {instance.name}")

    return attraction(fluid, target, starts, steps, options, tell)


@dataclass(frozen=True, eq=False)
class PathComparison:
    """The scaled system beside its fluid limit, from the same start.

    They come together as m and n grow (LAG Lemma 4.7) where the fluid keeps more than k servers
    free. At a shortage G is only a continuous filler: it serves tasks in part, the system drops
    them; so a start with ``least_stock`` below 0 shows a difference that does not vanish.

    Attributes:
        run: The scaled run.
        fluid_free: (T, R) free shares of each server type at the beginning of each step, by G.
        scaled_free: (T, R) the same in the scaled system.
        fluid_reward: (T,) reward per step by G.
        scaled_reward: (T,) the same in the scaled system, divided by mn.
        least_stock: Least sum of the fluid's free shares minus the largest k, start included.
    """

    run: ScaledRun
    fluid_free: Float
    scaled_free: Float
    fluid_reward: Float
    scaled_reward: Float
    least_stock: float

    @property
    def free_distance(self) -> float:
        """Largest difference of the free shares over all steps and server types."""
        return float(np.max(np.abs(self.scaled_free - self.fluid_free)))

    @property
    def mean_free_distance(self) -> float:
        """Mean difference of the free shares over all steps and server types."""
        return float(np.mean(np.abs(self.scaled_free - self.fluid_free)))

    @property
    def mean_reward_difference(self) -> float:
        """Mean reward per step of the scaled system minus that of the fluid."""
        return float(np.mean(self.scaled_reward - self.fluid_reward))


def compare_paths(instance: LossInstance, run: ScaledRun, start: Float) -> PathComparison:
    """Run LAG's scaled system and its fluid map side by side from one state.

    Args:
        instance: The instance.
        run: Scale and length; its warm-up is run before anything is compared.
        start: State (R, d+1), for example all free, or x_hat; the scaled system starts in it
            rounded to whole servers at random.

    Raises:
        OverloadError: If not every task can be served.
        InputError: If the start has another shape.
    """
    prices = price(instance)
    tables = lag_tables(prices)
    free, reward = fluid_map(instance, tables).path(start, run.warm_up + run.steps)
    trace = simulate_scaled(instance, tables, run, start, path=True)
    return PathComparison(
        run=run,
        fluid_free=free[run.warm_up :],
        scaled_free=trace.free_path / run.copies,
        fluid_reward=reward[run.warm_up :],
        scaled_reward=trace.reward_path / run.copies,
        least_stock=float(free.sum(axis=1).min() - instance.servers_per_task.max()),
    )
