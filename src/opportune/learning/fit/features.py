"""Scores from contexts: a regression shared by all servers, or one per server around it (ours).

Contexts are standardized and scaled so that none is longer than 1 (README of the data, 7.3 of
``cqb.md``). ``joint``: one weight vector for all servers and an intercept for each. ``server``:
that prediction as offset, and own weights for each server, both with a ridge of .1
(``learned.md`` 2); a server with few outcomes so keeps the joint prediction.

A cell (type, server) of the instance is the mean prediction over the type's tasks, its interval by
the delta method from the observed information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from opportune.learning.fit.regression import Fitted, fit_linear, fit_logistic

Float = NDArray[np.float64]
Int = NDArray[np.int64]

RIDGE = 0.1
"""Penalty of weights, on features of norm at most 1."""

Kind = Literal["joint", "server"]


@dataclass(frozen=True, eq=False)
class Scaling:
    """How contexts become features.

    Attributes:
        center: (c,) mean of each column.
        spread: (c,) its standard deviation, 1 for a constant one.
        reach: Largest norm after that.
    """

    center: Float
    spread: Float
    reach: float

    def features(self, context: Float) -> Float:
        """(n, c) features of norm at most 1; longer ones (of new tasks) are shortened to it."""
        plain = (context - self.center) / self.spread / self.reach
        norm = np.linalg.norm(plain, axis=1, keepdims=True)
        return np.asarray(plain / np.maximum(norm, 1.0))


def scaling_of(context: Float) -> Scaling:
    """The scaling of a log's contexts; constant columns become 0."""
    center, spread = context.mean(axis=0), context.std(axis=0)
    spread = np.where(spread > 1e-12 * (1.0 + np.abs(center)), spread, 1.0)
    reach = float(np.linalg.norm((context - center) / spread, axis=1).max(initial=0.0))
    return Scaling(center, spread, reach if reach > 0 else 1.0)


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """A fitted regression.

    Attributes:
        kind: ``joint`` or ``server``.
        bounded: Whether outcomes lie between 0 and 1: logistic, else linear.
        scaling: How contexts become features.
        joint: Weights shared by all, then one intercept per server.
        own: One per server (intercept first), empty for ``joint``.
        n_servers: Number of servers.
        slope: Recalibration: z becomes shift + slope z.
        shift: See ``slope``.
        low: Least outcome; linear predictions are kept within.
        high: Largest outcome.
    """

    kind: Kind
    bounded: bool
    scaling: Scaling
    joint: Fitted
    own: tuple[Fitted, ...]
    n_servers: int
    slope: float = 1.0
    shift: float = 0.0
    low: float = 0.0
    high: float = 1.0

    def linear(self, features: Float, server: int) -> Float:
        """(n,) linear predictor z of one server, before recalibration."""
        c = features.shape[1]
        z = features @ self.joint.weight[:c] + self.joint.weight[c + server]
        if self.own:
            weight = self.own[server].weight
            z = z + weight[0] + features @ weight[1:]
        return np.asarray(z)

    def predicted(self, features: Float, server: int) -> Float:
        """(n,) scores of one server."""
        return self._scored(self.shift + self.slope * self.linear(features, server))

    def cell(self, features: Float, server: int) -> tuple[float, float]:
        """Mean score of tasks with these features, and its standard deviation."""
        z = self.shift + self.slope * self.linear(features, server)
        mean = self._scored(z)
        steep = self.slope * (mean * (1 - mean) if self.bounded else np.ones(len(z)))
        whole = np.zeros(features.shape[1] + self.n_servers)
        whole[: features.shape[1]] = (steep[:, None] * features).mean(axis=0)
        whole[features.shape[1] + server] = steep.mean()
        variance = float(whole @ self.joint.covariance @ whole)
        if self.own:
            own = np.concatenate([[steep.mean()], whole[: features.shape[1]]])
            variance = float(own @ self.own[server].covariance @ own)
        return float(mean.mean()), float(np.sqrt(variance))

    def _scored(self, z: Float) -> Float:
        return np.asarray(expit(z) if self.bounded else np.clip(z, self.low, self.high))


@dataclass(frozen=True, eq=False)
class Observations:
    """Outcomes with what explains them.

    Attributes:
        features: (n, c) features of the tasks.
        server: (n,) server.
        outcome: (n,) outcome.
        n_servers: Number of servers.
        bounded: Whether outcomes lie between 0 and 1.
    """

    features: Float
    server: Int
    outcome: Float
    n_servers: int
    bounded: bool

    def rows(self, keep: NDArray[np.bool_]) -> Observations:
        """Those where ``keep`` is true."""
        return Observations(
            self.features[keep], self.server[keep], self.outcome[keep], self.n_servers, self.bounded
        )


def fit_features(data: Observations, scaling: Scaling, kind: Kind) -> FeatureModel:
    """The regression of a kind."""
    fit = fit_logistic if data.bounded else fit_linear
    intercepts = np.zeros((len(data.server), data.n_servers))
    intercepts[np.arange(len(data.server)), data.server] = 1.0
    center = float(data.outcome.mean())
    offset = 0.0 if data.bounded else center
    joint = fit(np.hstack([data.features, intercepts]), data.outcome, RIDGE, offset)
    if not data.bounded:  # the overall mean, so that the ridge pulls to it
        weight = joint.weight.copy()
        weight[data.features.shape[1] :] += center
        joint = Fitted(weight, joint.covariance, joint.converged)
    low, high = (0.0, 1.0) if data.bounded else (data.outcome.min(), data.outcome.max())
    model = FeatureModel(
        kind, data.bounded, scaling, joint, (), data.n_servers, low=float(low), high=float(high)
    )
    if kind == "joint":
        return model
    own = []
    for server in range(data.n_servers):
        rows = data.server == server
        x = data.features[rows]
        plain = np.hstack([np.ones((len(x), 1)), x])
        own.append(fit(plain, data.outcome[rows], RIDGE, model.linear(x, server)))
    return FeatureModel(
        kind,
        data.bounded,
        scaling,
        joint,
        tuple(own),
        data.n_servers,
        low=float(low),
        high=float(high),
    )
