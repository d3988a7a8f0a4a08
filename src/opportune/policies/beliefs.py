"""What a learning policy knows when it makes its ranking, and the protocol of such policies.

To add one: put a file into ``policies/learned/`` with a frozen dataclass that has ``id``, ``title``
and ``ranked(beliefs, previous)``. Optional: ``rank`` (place in tables), ``usual = False`` (only run
when named), ``knows_scores`` (a ceiling or a floor: it is told the truth, and its name says so),
``reads_features`` (only for tasks with features), ``is_static`` (makes its ranking once).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

import opportune.policies.learned as learned_policies
from opportune.errors import InputError, Problem
from opportune.kernels.learned import Ranking
from opportune.learning.regression import ScoreModel
from opportune.model.loss import LossInstance
from opportune.model.spelling import did_you_mean
from opportune.policies.base import discovered
from opportune.pricing.relaxation import Relaxation

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Features:
    """Contexts of tasks and what is known of how they bear on scores.

    Attributes:
        x: (C, p) contexts that may come, with an intercept.
        task_type: (C,) their types.
        arrived: (C,) whether a task with this context has arrived.
        model: What the outcomes so far say.
    """

    x: Float
    task_type: Int
    arrived: Bool
    model: ScoreModel


@dataclass(frozen=True, eq=False)
class Beliefs:
    """All that a policy may look at. M columns are learned; servers that share one learn together.

    Attributes:
        instance: Rates, durations (estimated, or known), permitted pairs; only the servers that
            are there. Its match rewards are zero: they are what is learned.
        there: (R,) which of all servers are there.
        model: (R,) column of each server, of all servers.
        unit: Reward of a success.
        success: (V, M) sums of outcomes in [0, 1].
        trials: (V, M) outcomes seen.
        n_tasks: Tasks that arrived so far.
        draws: Generator for policies that draw, keyed by seed, replication and task.
        features: Contexts and the regression on them; None without features.
        known_score: (V, M) true mean score by type, for policies with ``knows_scores`` only.
        known_context_score: (C, M) best known score by context, for such policies only.
    """

    instance: LossInstance
    there: Bool
    model: Int
    unit: float
    success: Float
    trials: Float
    n_tasks: int
    draws: np.random.Generator
    features: Features | None = None
    known_score: Float | None = None
    known_context_score: Float | None = None


@dataclass(frozen=True, eq=False)
class Ranked:
    """A ranking and what it was made from.

    Attributes:
        ranking: What the kernel reads.
        prices: Prices behind it; None for policies without.
        score: (V, M) estimates that it believes, as a share of the unit.
    """

    ranking: Ranking
    prices: Relaxation | None
    score: Float


@runtime_checkable
class LearnedPolicy(Protocol):
    """A policy that learns. Implementations are frozen dataclasses."""

    id: ClassVar[str]
    title: ClassVar[str]

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """The ranking for the next tasks; ``previous`` is its last one, to start prices from."""
        ...


@cache
def learned_policies_by_id() -> dict[str, LearnedPolicy]:
    """Every policy of ``policies/learned/`` by id, in the order of their ``rank``, then id."""
    return discovered(learned_policies)


def learned_policy(policy_id: str) -> LearnedPolicy:
    """The policy of an id.

    Raises:
        InputError: If there is none, with the known ids.
    """
    known = learned_policies_by_id()
    if policy_id not in known:
        expected, meant = "one of " + ", ".join(known), did_you_mean(policy_id, known)
        raise InputError(Problem("policy", repr(policy_id), expected, meant))
    return known[policy_id]


def trait(policy: LearnedPolicy, name: str, default: Any = False) -> Any:
    """An optional attribute of a policy."""
    return getattr(policy, name, default)
