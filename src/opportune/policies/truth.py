"""What only some policies are handed: true scores, and features of tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.policies.beliefs import Beliefs, Features

Float = NDArray[np.float64]


def known_scores(beliefs: Beliefs) -> Float:
    """(V, M) the true scores by type.

    Raises:
        InputError: If the policy does not say ``knows_scores``.
    """
    return _told(beliefs.known_score, "knows_scores")


def known_context_scores(beliefs: Beliefs) -> Float:
    """(C, M) the best known scores by context.

    Raises:
        InputError: If tasks have no features, or the policy does not say ``knows_scores``.
    """
    return _told(beliefs.known_context_score, "knows_scores, for tasks with features")


def features_of(beliefs: Beliefs) -> Features:
    """The features.

    Raises:
        InputError: If tasks have none.
    """
    if beliefs.features is None:
        told = "tasks without features"
        raise InputError(Problem("policy", told, "tasks with features, for this policy"))
    return beliefs.features


def _told(score: Float | None, needed: str) -> Float:
    if score is None:
        raise InputError(Problem("policy", "true scores are not told to it", needed))
    return score
