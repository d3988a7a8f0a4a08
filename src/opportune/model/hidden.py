"""What happens, and what nobody knows beforehand: an instance whose scores are hidden.

A task of type v at server r earns ``unit`` with probability s_vr / unit and nothing otherwise; the
outcome is seen when the service ends. Scores of at most 1 are those probabilities (unit 1), larger
ones are shares of the largest score. Or the tasks are those of a log in which every server's
score is on record: a task is a row, has features, and earns what the log says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.contexts import fill_units
from opportune.kernels.learned import (
    EXPLORE,
    OUTCOME,
    PICK,
    SEQUENCE,
    WINDOW,
    HiddenScores,
    HiddenStreams,
)
from opportune.kernels.streams import draw_arrivals
from opportune.model.axes import Quantity
from opportune.model.loss import LossInstance
from opportune.model.streams import Key, empty_block, loss_law, stream_key

Float = NDArray[np.float64]
Int = NDArray[np.int64]

MOST_TASKS = 10**7
"""Most tasks of a run: all of them are kept."""

MOST_STEPS = 10**15
"""Longest run, in steps."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Tasks of a log with the score of every model (full feedback).

    Attributes:
        features: (C, p) context of each task.
        score: (C, M) what each model earned or would have earned, in [0, 1].
        task_type: (C,) type of each task, for the linear program only.

    Raises:
        InputError: If shapes do not fit or a score is not a number from 0 to 1.
    """

    features: Annotated[Float, Quantity("x", "C,p", "", "context of a task")]
    score: Annotated[Float, Quantity("y", "C,M", "share of the unit", "recorded score")]
    task_type: Annotated[Int, Quantity("v", "C", "", "type of a task")]

    def __post_init__(self) -> None:
        problems = []
        if self.features.ndim != 2 or not bool(np.isfinite(self.features).all()):
            told = f"shape {self.features.shape}, or not finite"
            problems.append(Problem("features", told, "a matrix of numbers, one row a task"))
        if self.score.ndim != 2 or not bool(np.all((self.score >= 0) & (self.score <= 1))):
            told = "scores outside 0 to 1, or no matrix"
            problems.append(Problem("score", told, "numbers from 0 to 1, one row a task"))
        rows = {len(self.features), len(self.score), len(self.task_type)}
        if len(rows) != 1 or 0 in rows:
            told = f"{sorted(rows)} rows"
            problems.append(Problem("recorded", told, "as many features, scores and types"))
        if problems:
            raise InputError(problems)

    @property
    def n_tasks(self) -> int:
        """Number of tasks C on record."""
        return len(self.score)


@dataclass(frozen=True, eq=False)
class RecordedPace:
    """Times of a trace: when tasks came and how long they took, in the order of their arrival.

    Attributes:
        gap: (n,) steps from the arrival before; 0 for tasks that came in one step.
        duration: (n,) steps.

    Raises:
        InputError: If there are not as many of both, or a number is no time.
    """

    gap: Annotated[Int, Quantity("", "n", "steps", "steps since the previous arrival")]
    duration: Annotated[Int, Quantity("", "n", "steps", "duration of a task")]

    def __post_init__(self) -> None:
        problems = []
        if len(self.gap) != len(self.duration) or not len(self.gap):
            told = f"{len(self.gap)} gaps, {len(self.duration)} durations"
            problems.append(Problem("pace", told, "as many of both, at least one"))
        if not bool(np.all(self.gap >= 0)):
            problems.append(Problem("gap", "below 0", "steps, in the order of arrival"))
        if not bool(np.all(self.duration >= 1)):
            problems.append(Problem("duration", "below 1", "at least one step"))
        if problems:
            raise InputError(problems)

    def window(self, n_tasks: int, place: float) -> tuple[Int, Int]:
        """Gaps and durations of so many tasks in a row.

        Args:
            n_tasks: How many.
            place: Where they begin: 0 for the first possible task, below 1.

        Raises:
            InputError: If the trace has fewer.
        """
        if n_tasks > len(self.gap):
            expected = f"at most {len(self.gap)}, the tasks of the trace"
            raise InputError(Problem("tasks", shorten(n_tasks), expected))
        first = int(place * (len(self.gap) - n_tasks + 1))
        own = slice(first, first + n_tasks)
        gap = self.gap[own].copy()
        gap[0] = max(int(gap[0]), 1)
        return gap, self.duration[own].copy()


@dataclass(frozen=True, eq=False)
class HiddenWorld:
    """An instance and how its scores show themselves. Build one with :func:`hidden_world`.

    Attributes:
        instance: The truth; its scores are for the ceiling and the bookkeeping only.
        unit: Reward of a success: 1, or the largest score where that is more.
        model: (R,) servers with the same number share what is learned (copies of one model).
        joins: (R,) number of the task from which on the server is there; 0 from the start.
        recorded: Tasks of a log; None if tasks are drawn by type.
        pace: Times of a trace, for recorded tasks; None if gaps and durations are drawn.
    """

    instance: LossInstance
    unit: Annotated[float, Quantity("s_max", "", "reward", "reward of a success")]
    model: Annotated[Int, Quantity("m_r", "R", "", "which servers share what is learned")]
    joins: Annotated[Int, Quantity("i_r", "R", "tasks", "task from which a server is there")]
    recorded: Recorded | None = field(default=None)
    pace: RecordedPace | None = field(default=None)

    @property
    def n_models(self) -> int:
        """Number of columns that are learned, M."""
        return int(self.model.max()) + 1

    @property
    def type_score(self) -> Float:
        """(V, M) true mean score by type, as a share of the unit."""
        score = np.zeros((self.instance.n_types, self.n_models))
        score[:, self.model] = self.instance.match_reward / self.unit
        return score

    @property
    def scores(self) -> HiddenScores:
        """What the kernel draws outcomes from."""
        if self.recorded is None:
            return HiddenScores(self.type_score, self.model, True)
        return HiddenScores(np.ascontiguousarray(self.recorded.score), self.model, False)

    def streams(self, n_tasks: int, seed: int, replication: int) -> HiddenStreams:
        """All randomness of a run of ``n_tasks`` tasks: every policy sees the same.

        Recorded tasks come in an order drawn anew for each replication, each at most once. A
        recorded pace is that of so many tasks in a row, from a place drawn anew.

        Raises:
            InputError: If there are fewer recorded tasks, nothing arrives, or a number is wrong.
        """
        most = MOST_TASKS if self.recorded is None else self.recorded.n_tasks
        whole = is_whole(n_tasks)
        if not whole or not 1 <= n_tasks <= most:
            told = "tasks on record" if self.recorded is not None else "tasks"
            expected = f"a whole number of {told} from 1 to {most}"
            raise InputError(Problem("tasks", shorten(n_tasks), expected))
        law = loss_law(self.instance)
        if not law.arrival > 0:
            remedy = "give at least one type a rate, or a load"
            raise InputError(Problem("arrival_rate", "all zero", "tasks that arrive", remedy))
        key = stream_key(seed, replication)
        k = int(self.instance.servers_per_task.max())
        drawn = empty_block(k, int(n_tasks))
        draw_arrivals(key, 0, law, drawn)
        steps = float(drawn.gap.sum(dtype=np.float64) + drawn.duration.sum(dtype=np.float64))
        if not steps < MOST_STEPS:
            told = f"{n_tasks} tasks in {steps:.1e} steps"
            remedy = "run fewer tasks, or raise the rates"
            raise InputError(Problem("arrival_rate", told, f"at most {MOST_STEPS:.0e}", remedy))
        task_type, row = drawn.task_type, drawn.task_type
        if self.recorded is not None:
            order = np.argsort(units(key, SEQUENCE, self.recorded.n_tasks), kind="stable")
            row = order[:n_tasks].astype(np.int32)
            task_type = self.recorded.task_type[row].astype(np.int32)
        gap, duration = drawn.gap, drawn.duration
        if self.pace is not None:
            gap, duration = self.pace.window(n_tasks, float(units(key, WINDOW, 1)[0]))
        return HiddenStreams(
            gap=gap,
            task_type=task_type,
            row=row,
            duration=duration,
            choice=drawn.choice,
            outcome=units(key, OUTCOME, n_tasks * k).reshape(n_tasks, k),
            explore=units(key, EXPLORE, n_tasks),
            pick=units(key, PICK, n_tasks * k).reshape(n_tasks, k),
            key=key,
        )


def units(key: Key, purpose: int, n: int) -> Float:
    """(n,) uniform numbers of a purpose's stream."""
    out = np.empty(n)
    fill_units(key, purpose, out)
    return out


def hidden_world(
    instance: LossInstance,
    joins: Mapping[str, int] | None = None,
    model: Int | None = None,
    recorded: Recorded | None = None,
    pace: RecordedPace | None = None,
) -> HiddenWorld:
    """Hide an instance's scores.

    Args:
        instance: The truth. Durations must not depend on the type where tasks are recorded.
        joins: Server name -> number of the task from which on it is there.
        model: (R,) servers with one number share what is learned; each its own by default.
        recorded: Tasks of a log.
        pace: Times of a trace; the instance has its rate and mean duration.

    Raises:
        InputError: Naming what does not fit.
    """
    part_time = instance.part_time_problem("learning")
    if part_time is not None:
        raise InputError(part_time)
    if instance.server_duration is not None:
        told = "durations that depend on the server"
        remedy = "leave server_duration out"
        raise InputError(Problem("server_duration", told, "durations by type", remedy))
    unit = max(1.0, float(instance.match_reward.max())) if recorded is None else 1.0
    problems = []
    joined = np.zeros(instance.n_servers, dtype=np.int64)
    for name, number in (joins or {}).items():
        whole = is_whole(number)
        if name not in instance.servers:
            known = ", ".join(instance.servers[:8])
            problems.append(Problem("joins", shorten(name), f"a server: {known}"))
        elif not whole or not 0 <= number <= MOST_TASKS:
            problems.append(Problem("joins", shorten(number), "the number of a task, at least 0"))
        else:
            joined[instance.servers.index(name)] = number
    there = instance.allowed & (joined == 0)
    late = np.flatnonzero(there.sum(axis=1) < instance.servers_per_task)
    if len(late) > 0:
        told = f"type {instance.task_types[late[0]]} has too few servers before they join"
        problems.append(Problem("joins", told, "enough servers from the start"))
    if recorded is not None and len(set(instance.duration)) > 1:
        told = "several laws"
        problems.append(Problem("duration", told, "one law for all types of recorded tasks"))
    if recorded is not None and int(recorded.task_type.max()) >= instance.n_types:
        told = f"type number {int(recorded.task_type.max())}"
        problems.append(Problem("task_type", told, f"below {instance.n_types}"))
    if problems:
        raise InputError(problems)
    columns = np.arange(instance.n_servers) if model is None else np.asarray(model)
    return HiddenWorld(instance, unit, columns.astype(np.int64), joined, recorded, pace)
