"""Replications of one run or of many, over workers, with progress, resumption and interruption.

A *job* is one cell of a grid: an instance with the plans that are run on it. The replications of
all jobs are spread together, so a grid keeps as many workers busy as it has replications in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.backends import Workers
from opportune.experiments.keeping import Kept
from opportune.experiments.settings import Progress, Settings
from opportune.experiments.workers import Watch, run_pieces
from opportune.kernels.loss import Trace
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan
from opportune.simulate.loss import Run, default_warm_up, simulate_plans
from opportune.simulate.split import Split, simulate_split

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


@dataclass(frozen=True, eq=False)
class Job:
    """One cell of a grid.

    Attributes:
        instance: What is run.
        plans: On the same tasks.
        split: The sub-pools that the pool is split into, if any.
        label: What a progress bar says of it.
    """

    instance: LossInstance
    plans: Sequence[Plan]
    split: Split | None = None
    label: str = ""

    def parts(self, run: Run) -> tuple[object, ...]:
        """What decides the traces of a replication."""
        return (self.instance.digest, [plan.digest for plan in self.plans], self.split, run)


def run_replications(
    instance: LossInstance,
    plans: Sequence[Plan],
    settings: Settings,
    progress: Progress | None = None,
) -> Runs:
    """Run all replications of one job; as :func:`run_grid`."""
    return run_grid([Job(instance, plans)], settings, progress)[0]


def run_grid(
    jobs: Sequence[Job], settings: Settings, progress: Progress | None = None
) -> list[Runs]:
    """Run all replications of all jobs; the result does not depend on workers or backend.

    Args:
        jobs: The cells of the grid; all see the same random numbers.
        settings: Steps, replications, seed, workers, backend, and where finished ones are kept.
        progress: Called from the calling thread whenever a replication is finished.

    An interrupt stops the workers and is raised again.
    """
    kept = None if settings.keep is None else Kept(settings.keep)
    pieces = [(job, run) for job in jobs for run in _runs(job, settings)]
    traces: list[list[Trace] | None] = [
        None if kept is None else kept.load(job.parts(run)) for job, run in pieces
    ]
    missing = [i for i, found in enumerate(traces) if found is None]
    finished = len(pieces) - len(missing)

    def done(place: int, found: list[Trace]) -> None:
        nonlocal finished
        i = missing[place]
        job, run = pieces[i]
        traces[i] = found
        finished += 1
        if kept is not None:
            kept.save(job.parts(run), found)
        if progress is not None:
            label = f", {job.label}" if job.label else ""
            progress(finished / len(pieces), f"replication {finished} of {len(pieces)}{label}")

    workers = Workers(settings.workers, settings.backend)
    run_pieces(run_piece, [pieces[i] for i in missing], workers, done)
    whole = [one for one in traces if one is not None]
    n = settings.replications
    return [_stacked(whole[j * n : (j + 1) * n], pieces[j * n][1]) for j in range(len(jobs))]


def run_piece(piece: tuple[Job, Run], watch: Watch) -> list[Trace]:
    """One replication of a job; ``watch`` is called after every block."""
    job, run = piece
    if job.split is None:
        return simulate_plans(job.instance, job.plans, run, watch)
    return simulate_split(job.instance, job.plans, job.split, run, watch)


def _runs(job: Job, settings: Settings) -> list[Run]:
    warm_up = default_warm_up(job.instance, settings.steps)
    return [
        Run(settings.steps, warm_up, settings.seed, replication)
        for replication in range(settings.replications)
    ]


def _stacked(traces: Sequence[list[Trace]], run: Run) -> Runs:
    """Traces of all replications of one job."""
    return Runs(
        assigned=np.array([[trace.assigned for trace in one] for one in traces]),
        busy_steps=np.array([[trace.busy_steps for trace in one] for one in traces]),
        arrived=np.array([[trace.arrived for trace in one] for one in traces]),
        blocked=np.array([[trace.blocked for trace in one] for one in traces]),
        reward=np.array([[trace.reward for trace in one] for one in traces]),
        steps=run.steps,
        warm_up=run.warm_up,
    )
