"""Which waiting task goes to which server: the scan over all pairs, and the simple rules.

The scan is exact but seldom complete. A task's index is at most what it was at the anchor (an
earlier theta) plus what the weights can have moved since, ||theta - anchor|| (largest ||phi||): the
logit moves by no more, the probability by a quarter of it, widths only shrink while outcomes are
added, a growing radius times the largest width is added. Only tasks whose bound reaches the best
index found are evaluated. When too many are, the anchor is moved to the present theta.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit_in_place
from opportune.kernels.logistic import (
    ANCHOR,
    COVARIANCE,
    PHI,
    REACH,
    THETA,
    Float,
    Learner,
    departure_probability,
    departure_slope,
)

FEW = 16
"""Up to so many waiting tasks all pairs are evaluated, without bounds."""

EQUAL = 1e-8
"""Indices that differ by no more are ties: far above what a fit leaves open, far below what
matters. Equal evidence must not be told apart by rounding."""

ROUNDING = 2.0 * EQUAL
"""Added to every bound."""

RECENT = 64
"""Arrivals over which the width criterion looks."""

TASK, TIE = range(2)
"""Rows of ``Waiting.place``: waiting tasks in the order of arrival, ties of a scan."""


class Waiting(NamedTuple):
    """The queue, in order of arrival; position 0 has waited longest."""

    place: NDArray[np.int64]  # (2, n K) TASK and TIE
    bound: Float  # (n,) index at the anchor, or a bound on it
    used: NDArray[np.bool_]  # (K,) servers given a task in this round
    tried: NDArray[np.bool_]  # (n, K) failed pairs of a replay, or (0, K)


class Scan(NamedTuple):
    """How pairs are compared in a scan."""

    by_rate: bool  # the known rates, for the oracle
    logit: bool  # indices on the logit scale, else probabilities
    weights: int  # place of theta in ``Learner.vector``
    widths: int  # place of the inverse in ``Learner.matrix``
    radius: float  # times the width; 0: widths are not computed
    slack: float  # how far an index may have risen over its bound


class Features(NamedTuple):
    """The part of the streams that a scan reads."""

    features: Float  # (n, K, d) or (n, 1, p)
    known: Float  # (n, K) rates the oracle goes by
    disjoint: bool


@jit_in_place
def insert_task(waiting: Waiting, size: int, task: int, bound: float) -> None:
    """Put a task into the queue of ``size`` tasks, by its number."""
    place, at = waiting.place, size
    while at > 0 and place[TASK, at - 1] > task:
        place[TASK, at] = place[TASK, at - 1]
        waiting.bound[at] = waiting.bound[at - 1]
        at -= 1
    place[TASK, at] = task
    waiting.bound[at] = bound


@jit_in_place
def remove_task(waiting: Waiting, size: int, at: int) -> None:
    """Take position ``at`` out of the queue of ``size`` tasks."""
    for i in range(at, size - 1):
        waiting.place[TASK, i] = waiting.place[TASK, i + 1]
        waiting.bound[i] = waiting.bound[i + 1]


@jit_in_place
def is_open(waiting: Waiting, task: int, server: int) -> bool:
    """Whether a server may take the task in this round."""
    tried = waiting.tried.shape[0] > 0 and waiting.tried[task, server]
    return not (waiting.used[server] or tried)


@jit_in_place
def pick_server(waiting: Waiting, task: int, fraction: float) -> int:
    """A server for the task, uniform by ``fraction`` in [0, 1); -1 if none may take it."""
    n_servers = waiting.used.shape[0]
    n_open = 0
    for a in range(n_servers):
        n_open += is_open(waiting, task, a)
    left = int(fraction * n_open)
    for a in range(n_servers):
        if is_open(waiting, task, a):
            if left == 0:
                return a
            left -= 1
    return -1


@jit_in_place
def next_server(waiting: Waiting, task: int, start: int) -> int:
    """The first server from ``start`` on, in a circle, that may take the task; -1 if none."""
    n_servers = waiting.used.shape[0]
    for step in range(n_servers):
        a = (start + step) % n_servers
        if is_open(waiting, task, a):
            return a
    return -1


@jit_in_place
def pair_value(pairs: Features, learner: Learner, scan: Scan, task: int, server: int) -> float:
    """The index of a pair: mu(z) or z, plus radius times width."""
    if scan.by_rate:
        return pairs.known[task, server]
    features, matrix, vector = pairs.features, learner.matrix, learner.vector
    b, row = (server, 0) if pairs.disjoint else (0, server)
    z = 0.0
    for j in range(features.shape[2]):
        z += vector[scan.weights, b, j] * features[task, row, j]
    value = z if scan.logit else departure_probability(z)
    if scan.radius > 0.0:
        square = 0.0
        for j in range(features.shape[2]):
            s = 0.0
            for k in range(j):
                s += matrix[scan.widths, b, j, k] * features[task, row, k]
            x = features[task, row, j]
            square += x * (2.0 * s + matrix[scan.widths, b, j, j] * x)
        value += scan.radius * math.sqrt(max(square, 0.0))
    return value


@jit_in_place
def best_pair(
    pairs: Features,
    learner: Learner,
    scan: Scan,
    waiting: Waiting,
    size: int,
    fraction: float,
) -> tuple[int, int, int]:
    """The pair of largest index; among those within EQUAL of it number floor(fraction ties).

    Ties are numbered by arrival of the task, then by server.

    Returns:
        Position, server (-1, -1 if no pair is open), and how many tasks were evaluated.
    """
    place, bound, n_servers = waiting.place, waiting.bound, waiting.used.shape[0]
    reach = -math.inf
    if size > FEW and scan.slack < math.inf:  # a good index first, so that few bounds reach it
        top = 0
        for i in range(1, size):
            if bound[i] > bound[top]:
                top = i
        for a in range(n_servers):
            if is_open(waiting, place[TASK, top], a):
                value = pair_value(pairs, learner, scan, place[TASK, top], a)
                reach = max(reach, value)
    n_ties, n_evaluated = 0, 0
    for i in range(size):
        if bound[i] + scan.slack < reach - EQUAL:
            continue
        n_evaluated += 1
        task = place[TASK, i]
        largest = -math.inf
        for a in range(n_servers):
            value = pair_value(pairs, learner, scan, task, a)
            largest = max(largest, value)
            if value >= reach - EQUAL and is_open(waiting, task, a):
                if value > reach + EQUAL or n_ties == 0:
                    n_ties = 0
                reach = max(reach, value)
                place[TIE, n_ties] = i * n_servers + a
                n_ties += 1
        bound[i] = largest + scan.slack
    if n_ties == 0:
        return -1, -1, n_evaluated
    chosen = place[TIE, int(fraction * n_ties)]
    return chosen // n_servers, chosen % n_servers, n_evaluated


@jit_in_place
def move_anchor(learner: Learner, waiting: Waiting, size: int) -> None:
    """Make the present theta the anchor; every bound is unknown until evaluated."""
    vector = learner.vector
    for b in range(vector.shape[1]):
        for j in range(vector.shape[2]):
            vector[ANCHOR, b, j] = vector[THETA, b, j]
    for i in range(size):
        waiting.bound[i] = math.inf


@jit_in_place
def rise_since_anchor(vector: Float, length: float, logit: bool) -> float:
    """By how much the logit or the probability of features up to ``length`` can have risen."""
    largest = 0.0
    for b in range(vector.shape[1]):
        square = 0.0
        for j in range(vector.shape[2]):
            square += (vector[THETA, b, j] - vector[ANCHOR, b, j]) ** 2
        largest = max(largest, square)
    moved = length * math.sqrt(largest)
    return moved if logit else 0.25 * moved


@jit_in_place
def take_features(pairs: Features, learner: Learner, task: int, server: int) -> int:
    """Copy a pair's features to PHI; the pair's block."""
    b, row = (server, 0) if pairs.disjoint else (0, server)
    for j in range(pairs.features.shape[2]):
        learner.vector[PHI, 0, j] = pairs.features[task, row, j]
    return b


@jit_in_place
def widths_are_small(
    pairs: Features, learner: Learner, arrived: int, time: int, factor: float
) -> bool:
    """The width criterion, a measured negative (ours): all 1.96-sd widths <= factor x slack.

    Over the last RECENT arrivals: the widest pair on the probability scale against the mean best
    estimated rate minus the observed arrival rate.
    """
    n_servers = pairs.known.shape[1]
    widest, mean, n = 0.0, 0.0, 0
    plain = Scan(False, True, THETA, COVARIANCE, 0.0, 0.0)
    wide = Scan(False, True, THETA, COVARIANCE, 1.96, 0.0)
    for task in range(max(0, arrived - RECENT), arrived):
        best = -math.inf
        for a in range(n_servers):
            z = pair_value(pairs, learner, plain, task, a)
            width = pair_value(pairs, learner, wide, task, a) - z
            widest = max(widest, departure_slope(z) * width)
            best = max(best, z)
        mean += departure_probability(best)
        n += 1
    slack = mean / n - arrived / time if n > 0 else 0.0
    return n > 0 and learner.number[REACH] > 0.0 and widest <= factor * slack
