"""What is replayed: an instance at a load, its arrivals, its bound, and what the simulator expects.

Everything is in steps of the instance; ``step`` says how many seconds of the call center one is.
Arrivals and durations are the simulator's own streams, so the same calls can be simulated.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opportune import InputError, LossInstance, Plan, Problem, Run, load_instance, price
from opportune import simulate_plans as simulate
from opportune.model.catalog import BANK_STEP, DATA_VARIABLE
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import loss_policy
from opportune.pricing.demand import AT_MOST
from opportune.simulate.loss import busy_paths

BANK = "bank-v1"
OWN = Path(__file__).parents[1] / "call-center" / "instance.toml"
"""The instance where there are no data, and the seconds of its step."""
OWN_STEP = 30.0


@dataclass(frozen=True)
class World:
    """A stretch of a call center's day.

    Attributes:
        instance: Rates per step, durations in steps.
        step: Seconds of a step.
        steps: Length of the stretch.
        seed: Of arrivals and durations.
        plan: LAG's plan of the instance.
        bound: Certified bound on the reward per step.
        gap: Relative gap of its certificate.
        at: (n,) step in which each call arrives.
        task_type: (n,) its type.
        duration: (n,) steps that it takes.
    """

    instance: LossInstance
    step: float
    steps: int
    seed: int
    plan: Plan
    bound: float
    gap: float
    at: NDArray[np.int64]
    task_type: NDArray[np.int32]
    duration: NDArray[np.int64]

    @property
    def names(self) -> list[str]:
        """Name of the type of each call."""
        return [self.instance.task_types[v] for v in self.task_type]


@dataclass(frozen=True)
class Expected:
    """What the simulator says of one such stretch.

    Attributes:
        share: 2.5 %, 50 % and 97.5 % of the reward over the bound, over independent stretches.
        blocking: The same of the share of calls that are dropped.
        stretches: How many were simulated.
        same_share: Reward over the bound on exactly these calls.
        chosen: (n,) server of each of these calls, -1 where it is dropped.
    """

    share: tuple[float, float, float]
    blocking: tuple[float, float, float]
    stretches: int
    same_share: float
    chosen: NDArray[np.int64]


def make_world(name: str | None, step: float | None, load: float, hours: float, seed: int) -> World:
    """The calls of some hours.

    Args:
        name: Instance file or id; None: ``bank-v1`` if its data are there, else the example next
            door.
        step: Seconds of a step; None: known for these two.
        load: The load.
        hours: Hours of the call center.
        seed: Of the streams.

    Raises:
        InputError: If a value is out of range, or a task needs more than one server.
    """
    if name is None:
        name = BANK if os.environ.get(DATA_VARIABLE) else str(OWN)
    instance = load_instance(name, load)
    if step is None:
        step = _known_step(name, instance)
    if not 0 < hours <= 1000 or not 0 < step < 86_400:
        raise InputError(Problem("hours, step", f"{hours}, {step}", "above 0, at most 1000 hours"))
    if instance.one_k != 1:
        told = f"k = {instance.servers_per_task.tolist()}"
        raise InputError(Problem("instance", told, "calls that take one server each"))
    steps = round(hours * 3600 / step)
    prices = price(instance, AT_MOST)
    law = loss_law(instance)
    room = int(steps * law.arrival + 10 * np.sqrt(steps) + 100)
    drawn = draw_block(stream_key(seed, 0), 0, law, 1, room)
    at = np.cumsum(drawn.gap) - 1
    n = int((at < steps).sum())
    return World(
        instance,
        step,
        steps,
        seed,
        loss_policy("lag").plan(instance, prices),
        prices.dual_value,
        prices.gap,
        at[:n],
        drawn.task_type[:n].copy(),
        drawn.duration[:n].copy(),
    )


def _known_step(name: str, instance: LossInstance) -> float:
    if name == BANK:  # its steps get shorter as its load grows; its durations in seconds do not
        coarse = load_instance(BANK, 0.01)
        return float(BANK_STEP * coarse.mean_duration[0] / instance.mean_duration[0])
    if name == str(OWN):
        return OWN_STEP
    raise InputError(Problem("--step", "missing", f"seconds of a step of {name}"))


def expect(world: World, steps: int, stretches: int) -> Expected:
    """Simulate the plan over independent stretches, and over exactly these calls.

    Args:
        world: The world.
        steps: Length of each, from an empty call center on.
        stretches: How many.
    """
    runs = [Run(steps, 0, world.seed, i) for i in range(stretches + 1)]
    traces = [simulate(world.instance, [world.plan], run)[0] for run in runs]
    share = np.array([trace.reward.sum() for trace in traces]) / (world.bound * steps)
    blocking = np.array([trace.blocked.sum() / max(trace.arrived.sum(), 1) for trace in traces])
    _, chosen = busy_paths(world.instance, [world.plan], runs[0])
    return Expected(
        _quantiles(share[1:]), _quantiles(blocking[1:]), stretches, share[0], chosen[0, :, 0]
    )


def _quantiles(values: NDArray[np.float64]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, (0.025, 0.5, 0.975)).tolist()
    return low, middle, high
