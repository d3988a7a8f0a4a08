"""Where the contexts of arriving tasks come from: three laws.

A context has features phi(x, a) for every server a: its own row each where one weight is shared
(CQB 2606.09668), or one row x for all where every server has a weight (2601.19300; the second is
the first with phi(x, a) = e_a (x) x). Norms are at most one, as the radii need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.axes import Quantity
from opportune.model.checks import number_problem, plain_array

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

NORM_TOLERANCE = 1e-9
"""How far above one the norm of features may be, for rounding."""


@dataclass(frozen=True)
class UniformContexts:
    """Entries uniform on (-1, 1) divided by the root of their number, kept if they fit.

    Implements: CQB set-up 7.3, reconstructed: a context is kept if some server has a logit of at
    least ``least_logit`` (assumption 4) and none has one beyond ``largest_logit`` (assumption 2).
    """

    least_logit: Annotated[
        float, Quantity("z_min", "", "logit", "least logit of a task's best server")
    ]
    largest_logit: Annotated[
        float, Quantity("z_max", "", "logit", "largest logit in size of any pair")
    ]

    def __post_init__(self) -> None:
        if not self.least_logit < self.largest_logit or not math.isfinite(self.least_logit):
            told = f"from {self.least_logit:.4g} to {self.largest_logit:.4g}"
            raise InputError(
                Problem("curvature", told, "room between both logits", "raise it or lower the rate")
            )


@dataclass(frozen=True)
class SignedContexts:
    """A unit vector e_i, uniform; server a sees it with its sign: phi(x, a) = s_a e_i.

    Implements: CQB section 4, reconstructed (hard instances of the lower bound).
    """

    sign: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sign or any(one not in (-1, 1) for one in self.sign):
            raise InputError(Problem("sign", shorten(self.sign), "1 or -1 for every server"))


@dataclass(frozen=True, eq=False)
class ContextPool:
    """Contexts that are listed, drawn uniformly with replacement.

    With ``outcome`` what happened is replayed: a task served by r departs if and only if its
    outcome there is 1, so a server that failed is not tried on it again.

    Raises:
        InputError: If a norm is above one, an outcome is not 0 or 1, or no server ever succeeds.
    """

    features: Annotated[
        Float, Quantity("phi", "C,F,x", "norm at most 1", "features of the contexts")
    ]
    outcome: (
        Annotated[Bool, Quantity("y_r", "C,R", "0/1", "whether server r has success with it")]
        | None
    ) = None

    def __post_init__(self) -> None:
        problem = number_problem("contexts", self.features)
        if problem is not None:
            raise InputError(problem)
        features = np.array(plain_array(self.features), dtype=np.float64, order="C")
        problems = _feature_problems(features)
        outcome = self.outcome
        if outcome is not None and not problems:
            problems += outcome_problems(outcome, len(features))
        if problems:
            raise InputError(problems)
        features.setflags(write=False)
        object.__setattr__(self, "features", features)
        if outcome is not None:
            known = np.array(outcome, dtype=np.bool_, order="C")
            known.setflags(write=False)
            object.__setattr__(self, "outcome", known)


ContextLaw = UniformContexts | SignedContexts | ContextPool


def _feature_problems(features: Float) -> list[Problem]:
    if features.ndim != 3 or 0 in features.shape:
        expected = "contexts, then one row a server or one for all, then entries"
        return [Problem("contexts", f"shape {features.shape}", expected)]
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        told = f"{features[tuple(bad[0])]} in context {bad[0][0]} ({len(bad)} such in all)"
        return [Problem("contexts", told, "finite numbers", "fill in what is missing")]
    norm = np.sqrt((features**2).sum(axis=2)).max()
    if not norm <= 1.0 + NORM_TOLERANCE:
        remedy = "divide all features by the largest norm"
        return [Problem("contexts", f"a norm of {norm:.4g}", "norms of at most 1", remedy)]
    return []


def outcome_problems(outcome: Any, n_contexts: int) -> list[Problem]:
    """What is wrong with a matrix of outcomes: they are 0 or 1, one row a context."""
    array = plain_array(outcome)
    if array.dtype != np.bool_:
        problem = number_problem("outcomes", _without_booleans(outcome))
        if problem is not None:
            return [problem]
    if array.ndim != 2 or len(array) != n_contexts:
        expected = f"one row for each of {n_contexts} contexts, one column a server"
        return [Problem("outcomes", f"shape {array.shape}", expected)]
    other = np.argwhere(~((array == 0) | (array == 1)))
    if len(other):
        row, server = (int(i) for i in other[0])
        told = f"{array[row, server]:g} in row {row}, column {server} ({len(other)} such in all)"
        remedy = "to count scores of at least 0.5 as success, say threshold = 0.5"
        return [Problem("outcomes", told, "0 or 1 (failure or success)", remedy)]
    never = int((~array.astype(np.bool_).any(axis=1)).sum())
    if never:
        told = f"{never} of {len(array)} contexts have no server with success"
        remedy = "leave them out: their tasks would wait for ever"
        return [Problem("outcomes", told, "a success in every row", remedy)]
    return []


def _without_booleans(values: Any) -> Any:
    """Lists with true and false as 1 and 0: as outcomes they are welcome."""
    if isinstance(values, (list, tuple)):
        return [_without_booleans(one) for one in values]
    return int(values) if isinstance(values, bool) else values
