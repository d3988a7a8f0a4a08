"""Plans made on the first part of a log, to be judged by what happened in the rest (ours).

A plan that follows fitted scores picks pairs that look good, some by luck. Judged by the same
outcomes it would look better than it is. So scores, and prices with them, come from the first part
of the tasks, outcomes that judge from the rest. Rates, durations and task types are those of the
whole log: they hold no outcomes (clusters of contexts only through their number).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.experiments.comparison import make_plans
from opportune.experiments.prices import choose_prices
from opportune.experiments.settings import Settings
from opportune.learning.fit.instance import Fit, log_scores
from opportune.learning.fit.outcomes import Scores
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

TRAIN = 0.5
"""Share of the tasks that plans are made on."""


@dataclass(frozen=True)
class JudgeRules:
    """How policies are judged by the outcomes of a log.

    Attributes:
        train: Share of the tasks, the first ones, that plans are made on; 0 for all of them, which
            then judge as well.
        clip: Largest weight of a decision, None for no limit.

    Raises:
        InputError: If a number is out of range.
    """

    train: float = TRAIN
    clip: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.train < 1:
            raise InputError(Problem("--train", f"{self.train:g}", "a share from 0 to below 1"))
        if self.clip is not None and not self.clip > 0:
            raise InputError(Problem("--clip", f"{self.clip:g}", "a largest weight above 0"))


@dataclass(frozen=True, eq=False)
class Trained:
    """Plans, and the tasks that judge them.

    Attributes:
        instance: The instance with the scores of the first part.
        plans: The plans.
        judged: (n,) tasks of the log whose outcomes judge.
        guess: (n, R) score of every task and server by the first part.
    """

    instance: LossInstance
    plans: tuple[Plan, ...]
    judged: Bool
    guess: Float


def trained(fit: Fit, settings: Settings, train: float) -> Trained:
    """Make the plans.

    Args:
        fit: The fit of the whole log.
        settings: Policies and prices.
        train: Share of the tasks that scores come from; 0 for all.

    Raises:
        InputError: If the first part has no outcomes, or a policy cannot be used.
        SolverError: If an LP cannot be solved.
    """
    log, instance = fit.log, fit.instance
    first = np.arange(log.n_tasks) < round(train * log.n_tasks)
    if train == 0:
        first[:] = True
    scores, reward = fit.scores, instance.match_reward
    if train > 0:
        early = replace(
            log,
            outcome=np.where(first[log.task], log.outcome, np.nan),
            recorded=None
            if log.recorded is None
            else np.where(first[:, None], log.recorded, np.nan),
        )
        scores, reward, _ = log_scores(early, fit.task_type, reward.shape, fit.settings)
    known = replace(instance, match_reward=reward)
    prices, _ = choose_prices(known, settings.price_at, seed=settings.seed)
    plans, _ = make_plans(known, settings, prices)
    judged = np.ones(log.n_tasks, dtype=np.bool_) if train == 0 else ~first
    return Trained(known, tuple(plans), judged, predicted(fit, scores, reward))


def predicted(fit: Fit, scores: Scores | None, reward: Float) -> Float:
    """(n, R) score of every task of the log: by regression on its context, else of its type."""
    if scores is None or scores.features is None or fit.log.context is None:
        return np.asarray(reward[fit.task_type])
    features = scores.features.scaling.features(fit.log.context)
    servers = range(fit.instance.n_servers)
    return np.stack([scores.features.predicted(features, r) for r in servers], axis=1)
