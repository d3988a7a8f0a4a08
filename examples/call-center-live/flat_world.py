"""Hours of one rate: the acceptance run, whose bound is that of the long run.

Arrivals and durations are the simulator's own streams, so the same calls can be simulated.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from world import Calls, Expected, Made, Turn, quantiles

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
class FlatWorld:
    """Hours of a call center at one rate (``world.World``).

    Attributes:
        instance, step, steps, calls, turns, plans: As there; nothing changes.
        seed: Of arrivals and durations.
        plan: LAG's plan of the instance.
        bound_per_step: Certified.
        gap: Relative gap of its certificate.
    """

    instance: LossInstance
    step: float
    steps: int
    calls: Calls
    seed: int
    plan: Plan
    bound_per_step: float
    gap: float
    turns: tuple[Turn, ...] = ()
    plans: dict[str, Made] = field(default_factory=dict)

    @property
    def certified(self) -> str:
        """What the bound is a bound on."""
        return f"the reward per step in the long run, times the steps; gap {self.gap:.0e}"

    def bound(self, steps: int) -> float:
        """The bound per step, so many times."""
        return self.bound_per_step * steps

    def expect(self, steps: int, stretches: int) -> Expected:
        """What the simulator says of such a stretch."""
        runs = [Run(steps, 0, self.seed, i) for i in range(stretches + 1)]
        traces = [simulate(self.instance, [self.plan], run)[0] for run in runs]
        share = np.array([trace.reward.sum() for trace in traces]) / self.bound(steps)
        blocking = np.array([trace.blocked.sum() / max(trace.arrived.sum(), 1) for trace in traces])
        _, chosen = busy_paths(self.instance, [self.plan], runs[0])
        shares = quantiles(share[1:]), quantiles(blocking[1:])
        return Expected(*shares, stretches, share[0], chosen[0, :, 0])


def make_flat(
    name: str | None, step: float | None, load: float, hours: float, seed: int
) -> FlatWorld:
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
    check_length(instance, step, hours)
    steps = round(hours * 3600 / step)
    prices = price(instance, AT_MOST)
    law = loss_law(instance)
    room = int(steps * law.arrival + 10 * np.sqrt(steps) + 100)
    drawn = draw_block(stream_key(seed, 0), 0, law, 1, room)
    at = np.cumsum(drawn.gap) - 1
    n = int((at < steps).sum())
    calls = Calls(at[:n], drawn.task_type[:n].copy(), drawn.duration[:n].copy())
    plan = loss_policy("lag").plan(instance, prices)
    return FlatWorld(instance, step, steps, calls, seed, plan, prices.dual_value, prices.gap)


def check_length(instance: LossInstance, step: float, hours: float) -> None:
    """Whether it can be played.

    Raises:
        InputError: If not.
    """
    if not 0 < hours <= 1000 or not 0 < step < 86_400:
        raise InputError(Problem("hours, step", f"{hours}, {step}", "above 0, at most 1000 hours"))
    if instance.one_k != 1:
        told = f"k = {instance.servers_per_task.tolist()}"
        raise InputError(Problem("instance", told, "calls that take one server each"))


def _known_step(name: str, instance: LossInstance) -> float:
    if name == BANK:  # its steps get shorter as its load grows; its durations in seconds do not
        coarse = load_instance(BANK, 0.01)
        return float(BANK_STEP * coarse.mean_duration[0] / instance.mean_duration[0])
    if name == str(OWN):
        return OWN_STEP
    raise InputError(Problem("--step", "missing", f"seconds of a step of {name}"))
