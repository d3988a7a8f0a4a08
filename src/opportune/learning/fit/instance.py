"""From a log to an instance: rates, durations, scores, types; each with how sure it is (ours).

    log = read_log("calls.csv", read_columns("columns.toml"))
    fit = fit_log(log)
    fit.instance, fit.cautions

What is estimated how: ``arrivals``, ``services`` (durations), ``outcomes``, ``task_types``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from opportune.errors import InputError, Problem, whole_problems
from opportune.learning.fit.arrivals import Arrivals, fit_arrivals
from opportune.learning.fit.cautions import cautions_of
from opportune.learning.fit.drift import Drift, drift_test, noticed
from opportune.learning.fit.log import Log
from opportune.learning.fit.outcomes import Model, Scores, Seen, fit_outcomes
from opportune.learning.fit.pair_durations import pair_durations, pairs_wanted
from opportune.learning.fit.presence import presence
from opportune.learning.fit.score_table import ScoreTable
from opportune.learning.fit.services import (
    Observed,
    Services,
    fit_services,
    given_services,
    observed,
)
from opportune.learning.fit.speed import Speeds, speed_scores
from opportune.learning.fit.steps import Step, choose_step
from opportune.learning.fit.task_types import Clusters, chosen_clusters, clustered
from opportune.model.duration_entry import read_durations
from opportune.model.loss import LossInstance

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

PERIODS, MOST_PERIODS = 24, 10_000
"""Periods of a day for its profile, and the most that it can have."""


@dataclass(frozen=True)
class FitSettings:
    """How a log is fitted.

    Attributes:
        step: Length of a step in the log's unit; None to choose one.
        periods: Periods of a day for its profile, 1 for none.
        types: Number of types to make of contexts; None to choose it by held-out loss.
        model: Model of outcomes.
        score: What a service is worth: its outcome, its speed (made up), or 1 for all.
        durations: A law per type, per type and server, or as the test says.
        unseen: Whether a pair that the log never shows is allowed.
        seed: Of what is drawn: parts held out, starts of clusters.
        name: Name of the instance.
        duration: Duration as in an instance file, in steps, for a log without durations.
    """

    step: float | None = None
    periods: int = PERIODS
    types: int | None = None
    model: Model | Literal["auto"] = "auto"
    score: Literal["outcome", "speed", "none"] = "outcome"
    durations: Literal["auto", "type", "server"] = "auto"
    unseen: Literal["allow", "forbid"] = "allow"
    seed: int = 1
    name: str = "fitted"
    duration: object | None = None

    def __post_init__(self) -> None:
        problems = whole_problems(
            (
                ("--periods", self.periods, 1, MOST_PERIODS),
                ("--types", 1 if self.types is None else self.types, 1, MOST_PERIODS),
                ("--seed", self.seed, 0, 2**64 - 1),
            )
        )
        if problems:
            raise InputError(problems)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted instance and everything it rests on.

    Attributes:
        instance: The instance; its rates are those of the whole log.
        log: The log.
        settings: The settings.
        task_type: (n,) type of each task of the log.
        step: The step.
        arrivals: Rates and profile.
        services: Durations.
        scores: Scores with intervals, None where they are no outcomes.
        speeds: Scores by speed with intervals, None where they are outcomes or all 1.
        pair_count: (V, R) services that the score of each pair rests on.
        assigned: (V, R) services of each pair in the log.
        clusters: Types made of contexts, None where the log has types.
        presence: (P, R) share of time each server was there, by period of the profile (one
            without); None without days.
        drift: All tests of drift.
        cautions: What to know before trusting the instance.
        findings: Oddities of the log and what was done about each.
    """

    instance: LossInstance
    log: Log
    settings: FitSettings
    task_type: Int
    step: Step
    arrivals: Arrivals
    services: Services
    scores: Scores | None
    speeds: Speeds | None
    pair_count: Float
    assigned: Int
    clusters: Clusters | None
    presence: Float | None
    drift: tuple[Drift, ...]
    cautions: tuple[str, ...]
    findings: tuple[str, ...]

    @property
    def table(self) -> ScoreTable | Speeds | None:
        """Scores with their intervals, outcomes or speeds; None where all are 1."""
        return self.speeds if self.scores is None else self.scores.table

    @property
    def drifted(self) -> list[Drift]:
        """Tests that say that something changed."""
        return noticed(self.drift)


def fit_log(log: Log, settings: FitSettings | None = None) -> Fit:
    """Fit an instance to a log.

    Args:
        log: The log.
        settings: How; the defaults if None.

    Raises:
        InputError: If the log lacks what is needed: servers, durations, outcomes, types.
    """
    with threadpool_limits(limits=1, user_api="blas"):  # many small products: threads only wait
        return _fitted(log, FitSettings() if settings is None else settings)


def _fitted(log: Log, settings: FitSettings) -> Fit:
    if not log.servers:
        raise InputError(
            Problem("log.server", "nobody served any task", "services with the name of a server")
        )
    if log.n_tasks < 2:
        raise InputError(Problem("log", f"{log.n_tasks} task", "at least two tasks"))
    if not log.arrival[-1] > log.arrival[0]:
        raise InputError(Problem("log.time", "one time for all tasks", "arrivals over some time"))
    step = choose_step(log, settings.step, settings.periods)
    task_type, names, clusters = _types(log, settings)
    shape = (len(names), len(log.servers))
    arrivals = fit_arrivals(log, task_type, len(names), step, settings.periods)
    own = task_type[log.task]
    seen = observed(own, log.server, log.duration, log.complete, step.length)
    services = _services(seen, settings, names, len(log.servers))
    scores, reward, pair_count = log_scores(log, task_type, shape, settings)
    known = log.server >= 0
    assigned = np.zeros(shape, dtype=np.int64)
    np.add.at(assigned, (own[known], log.server[known]), 1)
    k, mixed = _servers_per_task(log, task_type, len(names))
    seen_pairs = (assigned > 0) | (pair_count > 0)
    allowed = seen_pairs if settings.unseen == "forbid" else np.ones(shape, dtype=np.bool_)
    instance = LossInstance(
        arrival_rate=arrivals.rate,
        match_reward=reward,
        allowed=allowed,
        duration=services.laws,
        servers_per_task=k,
        task_types=names,
        servers=log.servers,
        name=settings.name,
        server_duration=pair_durations(services)
        if pairs_wanted(services, settings.durations)
        else None,
    )
    periods = 1 if arrivals.multiplier is None else len(arrivals.multiplier)
    fit = Fit(
        instance=instance,
        log=log,
        settings=settings,
        task_type=task_type,
        step=step,
        arrivals=arrivals,
        services=services,
        scores=scores,
        speeds=_speeds(log, task_type, shape) if settings.score == "speed" else None,
        pair_count=pair_count,
        assigned=assigned,
        clusters=clusters,
        presence=presence(log, len(log.servers), periods),
        drift=_drift(log, own, seen, arrivals, reward if scores is not None else None),
        cautions=(),
        findings=(*map(str, log.findings), *mixed),
    )
    return replace(fit, cautions=tuple(cautions_of(fit)))


def _types(log: Log, settings: FitSettings) -> tuple[Int, tuple[str, ...], Clusters | None]:
    """Type of each task, names of the types, and how they were made."""
    if log.task_type is not None and settings.types is None:
        return log.task_type, log.task_types, None
    if log.context is None:
        if settings.types is not None and settings.types > 1:
            told = "no context columns"
            remedy = "name them in the columns file: context = [...]"
            raise InputError(Problem("--types", told, "contexts to make types of", remedy))
        return np.zeros(log.n_tasks, dtype=np.int64), ("task",), None
    if settings.types is not None:
        clusters = clustered(log.context, settings.types, settings.seed)
    else:
        if not _has_outcomes(log):
            raise InputError(
                Problem(
                    "--types",
                    "not given, and no outcomes to tell how many types there are",
                    "the number of types to make of the contexts",
                    "give --types 8, a column of types, or outcomes",
                )
            )
        shape = (1, len(log.servers))
        seen = _seen(log, np.zeros(log.n_tasks, dtype=np.int64), shape)
        clusters = chosen_clusters(log.context, seen, settings.seed)
    return clusters.task_type, clusters.names, clusters


def _services(
    seen: Observed, settings: FitSettings, names: tuple[str, ...], n_servers: int
) -> Services:
    if settings.duration is not None:
        return given_services(read_durations(settings.duration, Path(), names))
    return fit_services(seen, len(names), n_servers)


def _seen(log: Log, task_type: Int, shape: tuple[int, int]) -> Seen:
    if log.recorded is not None:
        task, server = np.nonzero(np.isfinite(log.recorded))
        return Seen(task, server, log.recorded[task, server], task_type, log.context, shape)
    known = np.isfinite(log.outcome) & (log.server >= 0)
    return Seen(
        log.task[known], log.server[known], log.outcome[known], task_type, log.context, shape
    )


def _has_outcomes(log: Log) -> bool:
    known = np.isfinite(log.outcome) & (log.server >= 0)
    return bool(known.any()) or (log.recorded is not None and bool(np.isfinite(log.recorded).any()))


def log_scores(
    log: Log, task_type: Int, shape: tuple[int, int], settings: FitSettings
) -> tuple[Scores | None, Float, Float]:
    """Scores of a log with what they rest on, the rewards of the instance, outcomes by pair.

    Args:
        log: The log.
        task_type: (n,) type of each task.
        shape: Numbers of types V and servers R.
        settings: What a service is worth, and by which model.

    Returns:
        Scores, None where they are no outcomes; (V, R) rewards; (V, R) outcomes.

    Raises:
        InputError: If there is no outcome, or a negative one.
    """
    if settings.score == "none":
        return None, np.ones(shape), np.zeros(shape)
    if settings.score == "speed":
        speeds = _speeds(log, task_type, shape)
        return None, speeds.mean, speeds.count
    if not _has_outcomes(log):
        raise InputError(
            Problem(
                "log.outcome",
                "no outcome of any service",
                "a column that says what a service was worth",
                "give --columns outcome=..., or --score speed (faster is better), --score none",
            )
        )
    seen = _seen(log, task_type, shape)
    if seen.outcome.min() < 0:
        raise InputError(
            Problem(
                "log.outcome",
                f"{int((seen.outcome < 0).sum())} negative outcomes",
                "outcomes of at least 0: rewards of an instance are",
                "add a constant to all outcomes; every policy gains the same by it",
            )
        )
    if seen.context is None and settings.model not in ("auto", "table"):
        told, remedy = "no context columns", "name them: context = [...], or --model table"
        raise InputError(Problem("--model", told, "contexts for a regression", remedy))
    scores = fit_outcomes(seen, settings.model, settings.seed)
    return scores, np.maximum(scores.table.mean, 0.0), scores.table.count


def _speeds(log: Log, task_type: Int, shape: tuple[int, int]) -> Speeds:
    use = log.complete & np.isfinite(log.duration)
    return speed_scores(task_type[log.task[use]], log.server[use], log.duration[use], shape)


def _servers_per_task(log: Log, task_type: Int, n_types: int) -> tuple[Int, list[str]]:
    """Servers per task by type: the most frequent number among served tasks; and who differs."""
    served = log.served
    k = np.ones(n_types, dtype=np.int64)
    differing = 0
    for v in range(n_types):
        own = served[(task_type == v) & (served > 0)]
        if own.size:
            k[v] = np.bincount(own).argmax()
            differing += int((own != k[v]).sum())
    told = []
    if differing:
        told.append(
            f"tasks with another number of servers than most of their type: {differing} tasks; "
            "the type's usual number is used"
        )
    return k, told


def _drift(
    log: Log, own: Int, seen: Observed, arrivals: Arrivals, reward: Float | None
) -> tuple[Drift, ...]:
    """Arrivals, log durations by type, outcomes, and outcomes of each server."""
    tests: list[Drift | None] = [arrivals.drift]
    if seen.complete.any():
        steps = np.log(seen.steps[seen.complete])
        types = seen.task_type[seen.complete]
        mean = np.bincount(types, weights=steps) / np.maximum(np.bincount(types), 1)
        tests.append(
            drift_test("durations", steps - mean[types], seen.steps[seen.complete].astype(float))
        )
    if reward is not None:
        known = np.isfinite(log.outcome) & (log.server >= 0)
        outcome, server = log.outcome[known], log.server[known]
        apart = outcome - reward[own[known], server]
        tests.append(drift_test("outcomes", apart, outcome))
        for r, name in enumerate(log.servers):
            rows = server == r
            tests.append(drift_test(f"outcomes of {name}", apart[rows], outcome[rows]))
    return tuple(test for test in tests if test is not None)
