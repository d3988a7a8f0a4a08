"""The fluid limit of the (m,n)-scaled system: the map G, its fixed point, where it leads.

As m and n grow, the share x_ri of servers of type r with i steps of service left follows
x(t+1) = G(x(t)) (LAG Lemma 4.7). Lemma 4.4(b): x_hat with x_r0 = phi_r and x_ri =
sum_v P(D_v >= i) u_vr, made from an optimum of OCC-LP(0), is a fixed point of G at which the
reward is the bound itself. Whether G leads there from everywhere (Assumption 4.2) is not known
in general; iterating from many starts is numerical evidence for an instance, not a proof.

A geometric duration has no longest value: it is cut at the first d with P(D > d) < ``CUT``, and
the rest of its mass put at d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.allocate import WaterfillTables
from opportune.kernels.fluid import (
    FluidScratch,
    FluidSystem,
    fluid_distance,
    fluid_path,
    fluid_rates,
    fluid_step,
)
from opportune.model.duration import Deterministic, Duration, Geometric
from opportune.model.loss import LossInstance
from opportune.pricing.relaxation import Relaxation

Float = NDArray[np.float64]

CUT = 1e-12
"""Mass of a geometric duration that is moved to its longest value d."""

MAX_STATES = 20_000_000
"""Largest number R (d + 1) of server types times steps left."""


def longest_duration(duration: Duration) -> int:
    """The largest value d of a duration; a geometric one is cut where P(D > d) < ``CUT``."""
    if isinstance(duration, Deterministic):
        return duration.steps
    if isinstance(duration, Geometric):
        stay = 1.0 - 1.0 / duration.mean
        return 1 if stay <= 0 else max(1, math.floor(math.log(CUT) / math.log(stay)) + 1)
    return int(duration.steps[-1])


def longest_of(instance: LossInstance) -> int:
    """d, the longest duration of any task type.

    Raises:
        InputError: If a state with that many steps for every server type would be too large.
    """
    longest = max(longest_duration(duration) for duration in instance.duration)
    if instance.n_servers * (longest + 1) > MAX_STATES:
        raise InputError(
            Problem(
                "duration",
                f"up to {longest} steps on {instance.n_servers} server types",
                f"at most {MAX_STATES} server types times steps left in the scaled system",
                "lengthen the step (durations in steps shrink by the same factor)",
            )
        )
    return longest


def duration_tails(instance: LossInstance) -> Float:
    """(V, d+2) P(D_v >= i) for i = 0 .. d+1, the geometric ones cut; the last column is 0."""
    longest = longest_of(instance)
    steps = np.arange(longest + 2)
    tails = np.array([duration.tail(steps) for duration in instance.duration])
    for v, duration in enumerate(instance.duration):
        tails[v, longest_duration(duration) + 1 :] = 0.0
    return tails


@dataclass(frozen=True, eq=False)
class FluidMap:
    """The fluid map of an instance under a policy that fills by tables.

    States are arrays x (R, d+1) of shares; column i counts servers with i steps left, column 0
    the free ones; rows sum to one.

    Attributes:
        instance: The instance.
        system: The instance and the policy's tables, as the kernels take them.
    """

    instance: LossInstance
    system: FluidSystem

    @property
    def shape(self) -> tuple[int, int]:
        """(R, d+1), the shape of a state."""
        return self.instance.n_servers, self.system.probability.shape[1]

    def rates(self, x: Float) -> Float:
        """(V, R) assignment rates u(x), per server of a type and step (LAG Def. 4.5)."""
        scratch = self._scratch()
        fluid_rates(self._own(x), self.system, scratch)
        return scratch.rates

    def step(self, x: Float) -> Float:
        """G(x) (LAG Def. 4.6)."""
        after = self._own(x)
        fluid_step(after, self.system, self._scratch())
        return after

    def path(self, x: Float, steps: int) -> tuple[Float, Float]:
        """Free shares (steps, R) at the beginning of each step from x on, and rewards (steps,)."""
        free, reward = np.empty((steps, self.shape[0])), np.empty(steps)
        fluid_path(self._own(x), self.system, self._scratch(), free, reward)
        return free, reward

    def distance(self, x: Float, target: Float, steps: int, stop: float = -1.0) -> Float:
        """Mean total variation distance to a target after 0, 1, ... steps from x.

        (steps+1,), or shorter: the last entry is then the first that is at most ``stop``.
        """
        distance = np.empty(steps + 1)
        target = np.ascontiguousarray(target)
        n = fluid_distance(self._own(x), target, self.system, self._scratch(), stop, distance)
        return distance[:n]

    def residual(self, x: Float) -> float:
        """max |G(x) - x| over all coordinates: 0 at a fixed point."""
        return float(np.max(np.abs(self.step(x) - x)))

    def _own(self, x: Float) -> Float:
        """A copy of a state that the kernels may change.

        Raises:
            InputError: If its shape is not (R, d+1).
        """
        if np.shape(x) != self.shape:
            expected = f"shape {self.shape}: server types by steps left"
            raise InputError(Problem("state", f"shape {np.shape(x)}", expected))
        return np.array(x, dtype=np.float64, order="C")

    def _scratch(self) -> FluidScratch:
        n_types, n_servers = self.instance.match_reward.shape
        return FluidScratch(
            rates=np.zeros((n_types, n_servers)),
            by_law=np.zeros((len(self.system.probability), n_servers)),
            amount=np.zeros(n_servers),
            free=np.zeros(n_servers),
        )


def fluid_map(instance: LossInstance, tables: WaterfillTables) -> FluidMap:
    """The fluid map of an instance under tables made for it (``policies.waterfill``).

    Raises:
        InputError: If servers are off duty at times, or durations are too long.
    """
    part_time = instance.one_headcount_problem("the fluid map")
    if part_time is not None:
        raise InputError(part_time)
    tails = duration_tails(instance)
    probability = np.maximum(tails[:, :-1] - tails[:, 1:], 0.0)
    distinct, law = np.unique(probability, axis=0, return_inverse=True)
    system = FluidSystem(
        tables=tables,
        arrival_rate=instance.arrival_rate,
        servers_per_task=instance.servers_per_task,
        match_reward=instance.match_reward,
        law=law.reshape(-1).astype(np.int64),
        probability=np.ascontiguousarray(distinct),
    )
    return FluidMap(instance, system)


def fixed_point(prices: Relaxation) -> Float:
    """x_hat (R, d+1): free shares phi, busy ones by the steps they have left.

    Implements: LAG Lemma 4.4(b) (quoted). Rows sum to one but for the cut of geometric
    durations (``CUT`` times their mean).
    """
    tails = duration_tails(prices.instance)
    x = prices.assignment_rate.T @ tails[:, :-1]
    x[:, 0] = prices.free_fraction
    return np.asarray(np.maximum(x, 0.0))


def random_start(shape: tuple[int, int], seed: int, number: int) -> Float:
    """A random state (R, d+1), of four kinds in turn, so that starts are far apart.

    The free share of each server type on its own, or one for all types; the busy ones spread
    over the steps left evenly at random, or bunched at a few of them.
    """
    generator = np.random.Generator(np.random.Philox(key=[seed, number]))
    n_servers, n_states = shape
    rows = n_servers if number % 2 == 0 else 1
    free = generator.random((rows, 1))
    power = 1.0 if number % 4 < 2 else 8.0
    busy = generator.standard_exponential((rows, n_states - 1)) ** power
    x = np.empty(shape)
    x[:, :1] = free
    x[:, 1:] = (1.0 - free) * busy / busy.sum(axis=1, keepdims=True)
    return x


@dataclass(frozen=True, eq=False)
class Attraction:
    """Where the fluid map leads from many starts: evidence for the global attractor.

    Attributes:
        residual: max |G(x_hat) - x_hat|.
        distance: (starts, steps+1) mean total variation distance to x_hat after 0, 1, ... steps.
            A start that comes within a thousandth of the tolerance is not followed further: its
            distance stays at that.
        tolerance: A start has converged when its distance stays below this to the end.
    """

    residual: float
    distance: Float
    tolerance: float

    @property
    def steps_needed(self) -> NDArray[np.int64]:
        """(starts,) steps after which the distance stays below the tolerance, -1 if it does not."""
        above = self.distance >= self.tolerance
        last = self.distance.shape[1] - 1 - np.argmax(above[:, ::-1], axis=1)
        needed = np.where(above.any(axis=1), last + 1, 0)
        return np.where(above[:, -1], -1, needed).astype(np.int64)

    @property
    def share_converged(self) -> float:
        """Share of the starts that converged."""
        return float(np.mean(self.steps_needed >= 0))

    def quantiles(self, steps: Sequence[int], levels: Sequence[float] = (0.0, 0.5, 1.0)) -> Float:
        """(steps, levels) quantiles over the starts of the distance after some numbers of steps."""
        return np.asarray(np.quantile(self.distance[:, list(steps)], levels, axis=0).T)


def attraction(
    fluid: FluidMap,
    target: Float,
    starts: int = 100,
    steps: int = 20_000,
    options: tuple[int, float] = (1, 1e-6),
    progress: Callable[[float], None] | None = None,
) -> Attraction:
    """Iterate G from random starts and measure the distance to a target, as a rule x_hat.

    Args:
        fluid: The map.
        target: State (R, d+1).
        starts: Number of random starts.
        steps: Most steps from each.
        options: Seed of the starts, and the tolerance of convergence.
        progress: Called with the share of the starts done.

    Raises:
        InputError: If there is no start or no step, or the target has another shape.
    """
    seed, tolerance = options
    problems = [
        Problem(name, shorten(value), "a whole number, at least 1")
        for name, value in (("starts", starts), ("steps", steps))
        if not is_whole(value) or value < 1
    ]
    if problems:
        raise InputError(problems)
    distance = np.empty((starts, steps + 1))
    for number in range(starts):
        start = random_start(fluid.shape, seed, number)
        path = fluid.distance(start, target, steps, tolerance / 1000)
        distance[number, : len(path)] = path
        distance[number, len(path) :] = path[-1]
        if progress is not None:
            progress((number + 1) / starts)
    return Attraction(fluid.residual(target), distance, tolerance)
