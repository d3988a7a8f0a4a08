"""How close LAG comes to its bound as the system grows: the function behind ``opportune scale``.

Every server becomes mn equal ones, m dispatchers get one task each per step with the
instance's probabilities, and a task takes n k servers (LAG Definition 4.1). For each n: reward
per step and copy (divided by mn) as a share of OCC-LP(B), B measured in the run as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten, whole_problems
from opportune.experiments.backends import MAX_WORKERS, Workers, backend_problems
from opportune.experiments.metrics import half_width, percents
from opportune.experiments.prices import blocking_of, demand_at, simulated_blocking
from opportune.experiments.runs import Runs
from opportune.experiments.settings import MAX_REPLICATIONS, Progress
from opportune.experiments.workers import Watch, run_pieces
from opportune.kernels.allocate import WaterfillTables
from opportune.kernels.scaled import ScaledTrace
from opportune.model.loss import LossInstance
from opportune.policies.waterfill import lag_tables
from opportune.pricing import certificate
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.fluid import fixed_point
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.simulate.scaled import (
    ScaledRun,
    default_copies,
    default_steps,
    scaled_warm_up,
    simulate_scaled,
)

Float = NDArray[np.float64]

PAPER_SCALES = tuple(4**i for i in range(9))
"""n of the paper's convergence figure: 1, 4, 16, ..., 65,536."""

STARTS = ("fluid", "empty")
"""Where runs start: the fluid fixed point, rounded to whole servers, or without any task."""


@dataclass(frozen=True)
class ScaleSettings:
    """Which systems are run, and how long.

    Attributes:
        n: Copies of each server that a dispatcher sees.
        m: Dispatchers for each n; empty means floor(sqrt n).
        steps: Counted steps of a run; None means max(100,000 / m, 1,000).
        replications: Independent runs of each system.
        seed: Seed of all streams.
        workers: Runs at the same time.
        start: ``fluid`` or ``empty``.
        backend: ``threads``, ``loky`` or ``ray``.

    Raises:
        InputError: Naming every setting that is wrong.
        MissingExtraError: If the package of the backend is not installed.
    """

    n: tuple[int, ...] = PAPER_SCALES
    m: tuple[int, ...] = ()
    steps: int | None = None
    replications: int = 3
    seed: int = 1
    workers: int = 1
    start: str = "fluid"
    backend: str = "threads"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", tuple(self.n))
        object.__setattr__(self, "m", tuple(self.m))
        problems = whole_problems(
            (
                ("replications", self.replications, 1, MAX_REPLICATIONS),
                ("seed", self.seed, 0, 2**64 - 1),
                ("workers", self.workers, 1, MAX_WORKERS),
            )
        )
        problems += backend_problems(self.backend)
        if not self.n:
            problems.append(Problem("n", "none given", "at least one whole number"))
        if self.m and len(self.m) != len(self.n):
            expected = f"one for each n ({len(self.n)}), or none for floor(sqrt n)"
            problems.append(Problem("m", f"{len(self.m)} given", expected))
        if self.start not in STARTS:
            problems.append(Problem("start", shorten(self.start), "one of " + ", ".join(STARTS)))
        if problems:
            raise InputError(problems)
        for n, m in zip(self.n, self.m, strict=False):
            ScaledRun(n, m, 1, 0)
        for n in self.n:
            ScaledRun(n, 1, 1 if self.steps is None else self.steps, 0)

    def runs(self, instance: LossInstance) -> list[list[ScaledRun]]:
        """The runs of each n: one per replication."""
        warm_up = scaled_warm_up(instance)
        systems = []
        for i, n in enumerate(self.n):
            m = self.m[i] if self.m else default_copies(n)
            steps = default_steps(m) if self.steps is None else self.steps
            systems.append(
                [
                    ScaledRun(n, m, steps, warm_up, self.seed, replication)
                    for replication in range(self.replications)
                ]
            )
        return systems


@dataclass(frozen=True)
class ScaleRow:
    """One system.

    Attributes:
        n: Copies of each server that a dispatcher sees.
        m: Dispatchers.
        steps: Counted steps of each run.
        percent_of_bound: 100 reward / bound.
        half_width: 95 % half width of it, over replications, or over batches of a single one.
        blocking: Blocked / arrived, pooled over the replications; at n = m = 1 exact where the
            headcount is a chain.
        reward: Reward per step and copy: divided by mn.
        bound: OCC-LP(B) at that blocking, OCC-LP(<=) with forbidden pairs.
    """

    n: int
    m: int
    steps: int
    percent_of_bound: float
    half_width: float
    blocking: float
    reward: float
    bound: float


@dataclass(frozen=True, eq=False)
class Scaling:
    """The result of :func:`scale`; everything that made it is in it."""

    instance: LossInstance
    settings: ScaleSettings
    prices: Relaxation
    rows: tuple[ScaleRow, ...]
    warnings: tuple[str, ...] = ()


def scale(
    instance: LossInstance,
    settings: ScaleSettings | None = None,
    progress: Progress | None = None,
) -> Scaling:
    """Run LAG in systems of growing scale and set its reward against the bound.

    Args:
        instance: The instance, at the load that its arrival rates give.
        settings: Scales, steps, replications, seed, workers; the paper's by default.
        progress: Called with the share of the runs done.

    Raises:
        OverloadError: If not every task can be served: the fluid limit needs
            k <= R (1 - rho) (LAG Assumption 4.1).
        InputError: If durations are too long for a state by steps left.
    """
    settings = ScaleSettings() if settings is None else settings
    prices = price(instance)
    tables = lag_tables(prices)
    start = fixed_point(prices) if settings.start == "fluid" else None
    systems = settings.runs(instance)
    flat = [run for system in systems for run in system]
    workers = Workers(settings.workers, settings.backend)
    traces = _run_all(instance, tables, start, flat, (workers, progress))
    rows = []
    for system in systems:
        own, traces = traces[: len(system)], traces[len(system) :]
        rows.append(_row(instance, system[0], _stacked(own, system[0])))
    return Scaling(instance, settings, prices, tuple(rows), prices.notices)


def _run_all(
    instance: LossInstance,
    tables: WaterfillTables,
    start: Float | None,
    runs: list[ScaledRun],
    how: tuple[Workers, Progress | None],
) -> list[ScaledTrace]:
    """Traces in the order of the runs. An interrupt stops the workers and is raised again."""
    workers, progress = how
    traces: dict[int, ScaledTrace] = {}

    def done(i: int, trace: ScaledTrace) -> None:
        traces[i] = trace
        if progress is not None:
            progress(len(traces) / len(runs), f"n = {runs[i].n}, m = {runs[i].m}")

    run_pieces(partial(run_scaled, instance, tables, start), runs, workers, done)
    return [traces[i] for i in range(len(runs))]


def run_scaled(
    instance: LossInstance,
    tables: WaterfillTables,
    start: Float | None,
    run: ScaledRun,
    watch: Watch,
) -> ScaledTrace:
    """One run, wherever it runs."""
    return simulate_scaled(instance, tables, run, start, watch)


def _stacked(traces: list[ScaledTrace], run: ScaledRun) -> Runs:
    """Traces of one system as runs of one plan, per copy where a copy earns or works."""
    return Runs(
        assigned=np.array([[trace.assigned] for trace in traces]),
        busy_steps=np.array([[trace.busy_steps] for trace in traces]),
        arrived=np.array([[trace.arrived] for trace in traces]),
        blocked=np.array([[trace.blocked] for trace in traces]),
        reward=np.array([[trace.reward] for trace in traces]) / run.copies,
        steps=run.steps,
        warm_up=run.warm_up,
    )


def _row(instance: LossInstance, run: ScaledRun, runs: Runs) -> ScaleRow:
    alone = run.n == run.m == 1  # then it is the ordinary system, whose B may be known exactly
    exact = alone and exact_blocking(instance) is not None
    blocking = blocking_of(instance) if exact else simulated_blocking(instance, runs)
    demand = demand_at(instance, blocking)
    prices = price(instance, demand)
    reward = float(runs.reward_per_step.mean())
    center = percents(np.array([reward]), np.array([prices.dual_value]))
    return ScaleRow(
        n=run.n,
        m=run.m,
        steps=run.steps,
        percent_of_bound=float(center[0]),
        half_width=half_width(_samples(runs, prices, exact)),
        blocking=blocking.value,
        reward=reward,
        bound=prices.dual_value,
    )


def _samples(runs: Runs, prices: Relaxation, exact: bool) -> Float:
    """Independent values of percent_of_bound: replications, or the batches of a single one.

    Each replication is set against its own B_i, unless B is exact: the dual value at the pooled
    prices.
    """
    instance, demand = prices.instance, prices.demand
    if len(runs.reward) == 1:
        batches = runs.reward[0, 0] / (runs.steps / runs.reward.shape[2])
        return percents(batches, np.full_like(batches, prices.dual_value))
    bounds = np.full(len(runs.reward), prices.dual_value)
    if not exact and not demand.at_most and instance.one_k is not None:
        for i, own in enumerate(runs.blocking[:, 0]):
            bounds[i] = certificate.dual_value(instance, Demand(float(own)), prices.demand_price)
    return percents(runs.reward_per_step[:, 0], bounds)
