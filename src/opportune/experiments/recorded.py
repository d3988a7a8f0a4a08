"""Policies on a log that says what every server would have been worth: nothing is estimated (ours).

Arrivals, types and durations are the log's; each policy keeps its own servers busy and gets the
recorded outcome of those it picks. Durations are taken not to depend on the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.judging import Trained
from opportune.experiments.settings import Settings
from opportune.learning.evaluation.estimates import Mean, block_length, block_mean
from opportune.learning.fit.files import finite
from opportune.learning.fit.instance import Fit
from opportune.learning.fit.steps import whole_steps
from opportune.model.duration import Deterministic, Duration, Geometric
from opportune.model.spelling import counted
from opportune.simulate.recorded import RecordedTasks, serve_recorded

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class RecordedRow:
    """One policy.

    Attributes:
        policy: Policy id.
        reward: Per task that arrived.
        unserved: Share of tasks that nobody served.
        difference: Reward minus that of the log; None if the log names no servers.
        rival: Reward minus that of the first policy, paired.
    """

    policy: str
    reward: Mean
    unserved: float
    difference: Mean | None
    rival: Mean


@dataclass(frozen=True, eq=False)
class Recorded:
    """Policies on recorded outcomes.

    Attributes:
        rows: One per policy.
        logged: What the log earned per task; None if it names no servers.
        n: Tasks that judge.
        block: Consecutive tasks in a block of the intervals.
        replications: Draws of ties and samples.
        cautions: What to know before believing it.
    """

    rows: tuple[RecordedRow, ...]
    logged: Mean | None
    n: int
    block: int
    replications: int
    cautions: tuple[str, ...]


def recorded(fit: Fit, made: Trained, settings: Settings) -> Recorded | None:
    """Run the plans on the tasks of the log; None if it does not have every server's outcome.

    All tasks are run, those that judge count.

    Args:
        fit: The fit.
        made: Plans and the tasks that judge.
        settings: Seed and replications of ties and samples.
    """
    log = fit.log
    if log.recorded is None or fit.scores is None:
        return None
    tasks, drawn = recorded_tasks(fit, settings.seed)
    found = serve_recorded(made.instance, made.plans, tasks, settings.seed, settings.replications)
    cautions = []
    if drawn:
        cautions.append(
            f"{counted(drawn, 'task')} of the log without a duration: drawn from those of the type"
        )
    judged = made.judged
    logged = _logged(fit)[judged] if (log.server >= 0).any() else None
    rows: list[RecordedRow] = []
    base: Float | None = None
    for plan, chosen in zip(made.plans, found, strict=True):
        worth, unknown = earned(log.recorded, chosen)
        own = worth[judged]
        base = own if base is None else base
        rows.append(
            RecordedRow(
                policy=plan.policy,
                reward=block_mean(own),
                unserved=float((chosen[:, judged, 0] < 0).mean()),
                difference=None if logged is None else block_mean(own - logged),
                rival=block_mean(own - base),
            )
        )
        if unknown:
            cautions.append(f"{plan.policy}: {unknown} picks without a recorded outcome count as 0")
    return Recorded(
        rows=tuple(rows),
        logged=None if logged is None else block_mean(logged),
        n=int(judged.sum()),
        block=block_length(int(judged.sum())),
        replications=settings.replications,
        cautions=tuple(cautions),
    )


def recorded_record(result: Recorded) -> dict[str, Any]:
    """The result as JSON."""
    logged = result.logged
    return {
        "tasks": result.n,
        "replications": result.replications,
        "interval": f"t, blocks of {counted(result.block, 'task')}",
        "log": None if logged is None else logged.value,
        "log_half_width": None if logged is None else finite(logged.half_width),
        "policies": [
            {
                "policy": row.policy,
                "reward_per_task": row.reward.value,
                "half_width": finite(row.reward.half_width),
                "unserved": row.unserved,
                "difference_to_log": None if row.difference is None else row.difference.value,
                "difference_to_log_half_width": None
                if row.difference is None
                else finite(row.difference.half_width),
                "difference_to_first": row.rival.value,
                "difference_to_first_half_width": finite(row.rival.half_width),
            }
            for row in result.rows
        ],
    }


def recorded_tasks(fit: Fit, seed: int) -> tuple[RecordedTasks, int]:
    """The tasks of the log in steps, and how many durations had to be drawn.

    A task of several services takes as long as the longest. Services that had not ended count as
    what was seen of them.
    """
    log, step = fit.log, fit.step.length
    longest = np.full(log.n_tasks, -np.inf)
    known = np.isfinite(log.duration)
    np.maximum.at(longest, log.task[known], log.duration[known])
    missing = ~np.isfinite(longest)
    duration = np.ones(log.n_tasks, dtype=np.int64)
    duration[~missing] = whole_steps(longest[~missing], step)
    generator = np.random.default_rng(seed)
    for v in range(fit.instance.n_types):
        rows = np.flatnonzero(missing & (fit.task_type == v))
        duration[rows] = _drawn(fit.instance.duration[v], len(rows), generator)
    at = np.floor((log.arrival - log.arrival[0]) / step).astype(np.int64)
    return RecordedTasks(at, fit.task_type, duration), int(missing.sum())


def earned(outcome: Float, chosen: Int) -> tuple[Float, int]:
    """(n,) what each task was worth, mean over replications; and picks without an outcome.

    Args:
        outcome: (n, R) outcomes, NaN where unknown.
        chosen: (replications, n, k) servers, -1 for none.
    """
    n = len(outcome)
    picked = outcome[np.arange(n)[None, :, None], np.maximum(chosen, 0)]
    picked = np.where(chosen >= 0, picked, 0.0)
    unknown = int(np.isnan(picked).sum())
    return np.asarray(np.nan_to_num(picked).sum(axis=2).mean(axis=0)), unknown


def _logged(fit: Fit) -> Float:
    """(n,) what each task was worth in the log."""
    worth = np.nan_to_num(fit.log.outcome)
    return np.bincount(fit.log.task, weights=worth, minlength=fit.log.n_tasks).astype(np.float64)


def _drawn(law: Duration, n: int, generator: np.random.Generator) -> Int:
    """(n,) durations of a law."""
    if isinstance(law, Deterministic):
        return np.full(n, law.steps, dtype=np.int64)
    if isinstance(law, Geometric):
        return generator.geometric(1.0 / law.mean, n).astype(np.int64)
    return generator.choice(law.steps, n, p=law.weight)
