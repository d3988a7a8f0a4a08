"""Queue instances from data: contexts in a table, and what each server did with them.

Contexts are scaled to norms of at most one. With outcomes, ``recorded`` replays them and
``fitted`` draws them anew from a logistic model; both know the fitted weight as the truth that
the oracle follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.checks import number_problem, plain_array
from opportune.model.contexts import ContextPool, outcome_problems
from opportune.model.queue import QueueInstance, pool_rates
from opportune.model.queue_generator import curvature_bound
from opportune.model.spelling import counted

Float = NDArray[np.float64]

FIT_RIDGE = 1e-3
"""Penalty of the fit that stands for the truth: only against separable data."""

FIT_STEPS = 100
"""Newton steps of that fit at most."""

FIT_TOLERANCE = 1e-10
"""Size of a Newton step, beside the weight's, at which the fit has arrived."""

LARGEST_CURVATURE = 1e6
"""kappa that is told at most where it follows from the data; radii are useless long before."""

LEAST_SLACK = 1e-3
"""Slack told to the algorithms where the data leave less."""


@dataclass(frozen=True)
class PoolOptions:
    """How data become a queue.

    Attributes:
        feedback: ``recorded`` (outcomes are replayed) or ``fitted`` (drawn from the fitted rates).
        arrival_rate: Tasks per step; None if ``load`` says it.
        load: Share of what the oracle can serve; None if ``arrival_rate`` says it.
        threshold: Scores of at least this are successes; None refuses what is not 0 or 1.
        standardize: Columns to mean 0 and standard deviation 1 (a constant one becomes 0).
        intercept: Whether a column of ones is added.
        slack: What algorithms are told; None for capacity minus arrival rate.
        curvature: What algorithms are told; None for the largest 1 / mu' of the pool.
        servers: Names of the servers; empty for numbers.
        horizon: Steps of a run if nothing else is said.
        name: For tables.
    """

    feedback: str = "recorded"
    arrival_rate: float | None = None
    load: float | None = None
    threshold: float | None = None
    standardize: bool = True
    intercept: bool = True
    slack: float | None = None
    curvature: float | None = None
    servers: tuple[str, ...] = ()
    horizon: int = 2000
    name: str = "queue"


def queue_from_data(
    contexts: ArrayLike,
    outcomes: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    options: PoolOptions | None = None,
) -> QueueInstance:
    """A queue instance from a table of contexts, with outcomes or with known weights.

    Args:
        contexts: (C, p) numbers, one row a context.
        outcomes: (C, K) 0 or 1, or scores with a threshold; None if ``weight`` decides.
        weight: (K, p) logistic weights of the servers on the features as they become (with
            standardization and intercept, last); None fits them to the outcomes.
        options: Everything else.

    Raises:
        InputError: Naming every field that is wrong.
    """
    options = PoolOptions() if options is None else options
    _check_options(options, outcomes, weight)
    features = _features(contexts, options)
    largest = float(np.sqrt((features**2).sum(axis=1)).max())
    scale = largest if largest > 0 else 1.0
    features = features / scale
    notes: tuple[str, ...] = ()
    known = None
    if outcomes is not None:
        known = _outcomes(outcomes, len(features), options)
        theta = fit_weights(features, known.astype(np.float64), FIT_RIDGE)
    else:
        theta = _weight(weight, features.shape[1]) * scale
    if known is not None and options.feedback == "recorded":
        solved = np.asarray(known.any(axis=1))
        notes = _left_out(solved)
        law = ContextPool(features[solved][:, None, :], known[solved])
    else:
        law = ContextPool(features[:, None, :])
    draft = QueueInstance(
        arrival_rate=0.0,
        true_weight=theta,
        contexts=law,
        n_servers=len(theta),
        slack=0.0,
        curvature=4.0,
        servers=options.servers,
        horizon=options.horizon,
        name=options.name,
        notes=notes,
    )
    return _completed(draft, options)


def _left_out(solved: NDArray[np.bool_]) -> tuple[str, ...]:
    """What is told of contexts that no server has success with: their tasks would wait for ever."""
    if not solved.any():
        told = "no context has a server with success"
        raise InputError(Problem("outcomes", told, "some successes"))
    if solved.all():
        return ()
    left = counted(int((~solved).sum()), "context")
    return (f"{left} of {len(solved)} left out: no server has success with them",)


def _completed(draft: QueueInstance, options: PoolOptions) -> QueueInstance:
    """The draft with rate, slack and curvature: they follow from the data where not given."""
    capacity = pool_capacity(draft)
    rate = options.arrival_rate
    if rate is None:
        rate = float(options.load or 0.0) * capacity
    curvature = options.curvature
    if curvature is None:
        curvature = min(curvature_bound(_largest_logit(draft)), LARGEST_CURVATURE)
    slack = max(capacity - rate, LEAST_SLACK) if options.slack is None else options.slack
    return draft.with_numbers(rate, slack, curvature)


def _largest_logit(draft: QueueInstance) -> float:
    """Largest |<phi, theta>| of the contexts of a pool with a weight a server."""
    if not isinstance(draft.contexts, ContextPool):
        raise TypeError("only a pool lists its contexts")
    return float(np.abs(draft.contexts.features[:, 0] @ draft.true_weight.T).max())


def pool_capacity(instance: QueueInstance) -> float:
    """Tasks per step that the oracle can serve: 1 / mean number of tries of a task.

    Formula (ours): with drawn outcomes a task takes 1 / max_a rate tries on average; with
    recorded ones as many as the servers in the order of their known rate until the first success.
    """
    rates = pool_rates(instance)
    law = instance.contexts
    if not isinstance(law, ContextPool) or law.outcome is None:
        with np.errstate(divide="ignore"):  # a task that nobody serves takes for ever
            return float(1.0 / (1.0 / rates.max(axis=1)).mean())
    order = np.argsort(-rates, axis=1, kind="stable")
    in_order = np.take_along_axis(law.outcome, order, axis=1)
    return float(1.0 / (1.0 + in_order.argmax(axis=1)).mean())


def fit_weights(features: Float, outcomes: Float, ridge: float) -> Float:
    """(K, p) logistic weights of each server: regularized maximum likelihood by Newton's method.

    Args:
        features: (C, p).
        outcomes: (C, K) of 0 and 1.
        ridge: Penalty ridge / 2 ||theta||^2.
    """
    p = features.shape[1]
    found = np.zeros((outcomes.shape[1], p))
    for a, y in enumerate(outcomes.T):
        theta = found[a]
        value = _loss(features, y, theta, ridge)
        for _ in range(FIT_STEPS):
            rate = 1.0 / (1.0 + np.exp(-features @ theta))
            gradient = features.T @ (rate - y) + ridge * theta
            curvature = (features.T * (rate * (1.0 - rate))) @ features + ridge * np.eye(p)
            step = np.linalg.solve(curvature, gradient)
            share = 1.0
            while _loss(features, y, theta - share * step, ridge) > value and share > 1e-12:
                share /= 2.0
            theta = theta - share * step
            value = _loss(features, y, theta, ridge)
            if np.linalg.norm(step) <= FIT_TOLERANCE * (1.0 + np.linalg.norm(theta)):
                break
        found[a] = theta
    return found


def _loss(features: Float, y: Float, theta: Float, ridge: float) -> float:
    z = features @ theta
    return float((np.logaddexp(0.0, z) - y * z).sum() + 0.5 * ridge * theta @ theta)


def _check_options(options: PoolOptions, outcomes: Any, weight: Any) -> None:
    problems = []
    if (outcomes is None) == (weight is None):
        told = "neither given" if outcomes is None else "both given"
        remedy = "outcomes of a log, or one row of weights a server"
        problems.append(Problem("outcomes", told, "outcomes or weight", remedy))
    if options.feedback not in ("recorded", "fitted"):
        problems.append(Problem("feedback", shorten(options.feedback), "recorded or fitted"))
    if (options.arrival_rate is None) == (options.load is None):
        told = "neither given" if options.load is None else "given beside load"
        remedy = "arrival_rate (tasks per step), or a load (share of what can be served)"
        problems.append(Problem("arrival_rate", told, "one of arrival_rate and load", remedy))
    for name, value in (("load", options.load), ("threshold", options.threshold)):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (number and math.isfinite(value) and value >= 0):
            problems.append(Problem(name, shorten(value), "a number of at least 0"))
    for name in ("standardize", "intercept"):
        if not isinstance(getattr(options, name), bool):
            told = shorten(getattr(options, name))
            problems.append(Problem(name, told, "true or false"))
    if problems:
        raise InputError(problems)


def _features(contexts: ArrayLike, options: PoolOptions) -> Float:
    """(C, p) standardized, with the intercept last."""
    problem = number_problem("contexts", contexts)
    array = plain_array(contexts)
    if problem is None and (array.ndim != 2 or 0 in array.shape):
        problem = Problem("contexts", f"shape {array.shape}", "a matrix, one row a context")
    if problem is None and not np.isfinite(array).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        told = f"{array[row, column]} in row {row}, column {column}"
        problem = Problem("contexts", told, "finite numbers", "fill in what is missing")
    if problem is not None:
        raise InputError(problem)
    features = np.array(array, dtype=np.float64)
    if options.standardize:
        spread = features.std(axis=0)
        features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if options.intercept:
        features = np.hstack([features, np.ones((len(features), 1))])
    return features


def _outcomes(outcomes: ArrayLike, n: int, options: PoolOptions) -> NDArray[np.bool_]:
    array = plain_array(outcomes)
    if options.threshold is not None:
        problem = number_problem("outcomes", outcomes)
        if problem is None and np.isnan(array).any():
            row, server = (int(i) for i in np.argwhere(np.isnan(array))[0])
            problem = Problem("outcomes", f"missing in row {row}, column {server}", "a score")
        if problem is not None:
            raise InputError(problem)
        array = array >= options.threshold
    wrong = [one for one in outcome_problems(array, n) if "no server" not in one.value]
    if wrong:
        raise InputError(wrong)
    return array.astype(np.bool_)


def _weight(weight: ArrayLike | None, p: int) -> Float:
    problem = number_problem("weight", weight)
    array = plain_array(weight)
    if problem is None and (array.ndim != 2 or array.shape[1] != p):
        expected = f"one row a server of {p} numbers (the columns, and the intercept last)"
        problem = Problem("weight", f"shape {array.shape}", expected)
    if problem is not None:
        raise InputError(problem)
    return np.asarray(array, dtype=np.float64)
