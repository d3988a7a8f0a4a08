"""A law for each pair of type and server, where servers are differently fast (ours).

The law of a pair is the type's law stretched by the pair's factor: mean duration of the server for
the type by the type's own, shrunk to server effect + type effect (``score_table``). It is used when
the test says that servers differ and their factors spread by ``SPREAD``; below that one law per
type keeps what holds only for such instances: blocking that no policy changes, proven bounds.
"""

from __future__ import annotations

import numpy as np

from opportune.learning.fit.score_table import ScoreTable
from opportune.learning.fit.services import Services, thinned
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.server_durations import ServerDurations, server_durations

SPREAD = 0.1
"""Least standard deviation of the factors, weighted by services, for laws of pairs."""

POINTS = 40
"""Most points of the histogram of a pair; there may be many pairs."""

NO_CHANGE = 0.01
"""A pair whose factor is this near 1 keeps the type's law."""


def spread_of(by_server: ScoreTable) -> float:
    """Standard deviation of the factors around 1, weighted by services."""
    weight = by_server.count / by_server.count.sum()
    return float(np.sqrt((weight * (by_server.mean - 1.0) ** 2).sum()))


def pairs_wanted(services: Services, durations: str) -> bool:
    """Whether the instance gets a law per pair.

    Args:
        services: The durations.
        durations: ``type``, ``server``, or ``auto`` to let the test and the spread decide.
    """
    if services.by_server is None or durations == "type":
        return False
    return durations == "server" or (
        services.servers_differ and spread_of(services.by_server) >= SPREAD
    )


def pair_durations(services: Services) -> ServerDurations:
    """A law for each pair.

    Args:
        services: The durations, with a table by server.
    """
    by_server = services.by_server
    if by_server is None:
        raise TypeError("no durations by server")
    factor = by_server.mean
    others = {
        (int(v), int(r)): stretched(services.types[v].law, float(factor[v, r]))
        for v, r in np.argwhere(np.abs(factor - 1.0) > NO_CHANGE)
    }
    return server_durations(services.laws, others, factor.shape[1])


def stretched(law: Duration, factor: float) -> Duration:
    """The law of ``factor`` times the duration; its mean is as many times the law's, at least 1.

    Points between two whole numbers of steps are split between them.
    """
    if isinstance(law, Geometric):
        return Geometric(max(law.mean * factor, 1.0))
    points = np.array([law.steps]) if isinstance(law, Deterministic) else law.steps
    weight = np.ones(1) if isinstance(law, Deterministic) else law.weight
    wanted = np.maximum(points * factor, 1.0)
    floor = np.floor(wanted)
    both = np.concatenate([floor, floor + 1]).astype(np.int64)
    parts = np.concatenate([weight * (1 - (wanted - floor)), weight * (wanted - floor)])
    whole = Empirical(both[parts > 0], parts[parts > 0])
    if len(whole.steps) == 1:
        return Deterministic(int(whole.steps[0]))
    return Empirical(*thinned(whole.steps, whole.weight, POINTS))
