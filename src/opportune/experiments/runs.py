"""Replications of a run, on threads or processes, with progress and interruption."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from opportune.experiments.settings import Progress, Settings
from opportune.kernels.loss import Trace
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan
from opportune.simulate.loss import Run, default_warm_up, simulate_plans

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Runs:
    """Traces of every replication and plan, stacked. Axes: replication n, plan p, then V, R.

    Attributes:
        assigned: (n, p, V, R) assignments in the counted window.
        busy_steps: (n, p, R).
        arrived: (n, p, V).
        blocked: (n, p, V).
        reward: (n, p, batches).
        steps: Counted steps of each replication.
        warm_up: Steps before.
    """

    assigned: NDArray[np.int64]
    busy_steps: NDArray[np.int64]
    arrived: NDArray[np.int64]
    blocked: NDArray[np.int64]
    reward: Float
    steps: int
    warm_up: int

    @property
    def reward_per_step(self) -> Float:
        """(n, p) reward per step."""
        return np.asarray(self.reward.sum(axis=2) / self.steps)

    @property
    def blocking(self) -> Float:
        """(n, p) blocked / arrived of each replication, 0 without arrivals."""
        arrived = self.arrived.sum(axis=2)
        return np.asarray(self.blocked.sum(axis=2) / np.maximum(arrived, 1))


def run_replications(
    instance: LossInstance,
    plans: Sequence[Plan],
    settings: Settings,
    progress: Progress | None = None,
) -> Runs:
    """Run all replications; the result does not depend on workers or backend.

    ``progress`` is called from the calling thread. An interrupt stops the workers at the end
    of their block and is raised again.
    """
    warm_up = default_warm_up(instance, settings.steps)
    runs = [
        Run(settings.steps, warm_up, settings.seed, replication)
        for replication in range(settings.replications)
    ]
    traces: list[list[Trace]] = []
    stop = threading.Event()

    def one(run: Run) -> list[Trace]:
        def watch(_: float) -> None:
            if stop.is_set():
                raise KeyboardInterrupt

        return simulate_plans(instance, plans, run, watch)

    spread = _spread(one, instance, plans, runs, settings)
    try:
        for done in spread:
            traces.append(done)
            if progress is not None:
                progress(len(traces) / len(runs), f"replication {len(traces)} of {len(runs)}")
    except KeyboardInterrupt:
        stop.set()
        with warnings.catch_warnings():  # joblib counts what it leaves undone: that was the wish
            warnings.simplefilter("ignore", UserWarning)
            spread.close()
        raise
    return Runs(
        assigned=np.array([[trace.assigned for trace in run] for run in traces]),
        busy_steps=np.array([[trace.busy_steps for trace in run] for run in traces]),
        arrived=np.array([[trace.arrived for trace in run] for run in traces]),
        blocked=np.array([[trace.blocked for trace in run] for run in traces]),
        reward=np.array([[trace.reward for trace in run] for run in traces]),
        steps=settings.steps,
        warm_up=warm_up,
    )


def _spread(
    one: Callable[[Run], list[Trace]],
    instance: LossInstance,
    plans: Sequence[Plan],
    runs: list[Run],
    settings: Settings,
) -> Generator[list[Trace], None, None]:
    """Traces in the order of the replications, as soon as they are there."""
    if settings.workers == 1 or len(runs) == 1:
        yield from map(one, runs)
        return
    backend = "threading" if settings.backend == "threads" else settings.backend
    parallel = Parallel(n_jobs=settings.workers, backend=backend, return_as="generator")
    if settings.backend == "threads":
        yield from parallel(delayed(one)(run) for run in runs)
    else:
        yield from parallel(delayed(simulate_plans)(instance, plans, run) for run in runs)
