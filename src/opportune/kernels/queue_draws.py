"""Draws whose law depends on what was learned: read from the counter-based generator by position.

A draw is a function of (seed, replication, round), so a policy's draws do not depend on another
policy's, and the same round of two policies uses the same normals.
"""

from __future__ import annotations

import math

import numpy as np

from opportune.kernels.jit import jit_in_place
from opportune.kernels.logistic import FACTOR, INNER, SAMPLE, THETA, Float, factor_block
from opportune.kernels.streams import unit, words

NORMAL, BETA = 41, 42
"""Purposes of the streams."""

Key = tuple[np.uint64, np.uint64]


@jit_in_place
def normal_pair(key: Key, purpose: int, position: np.uint64) -> tuple[float, float]:
    """Two independent standard normals (Box and Muller 1958)."""
    a, b, c, d = words(key, purpose, position)
    radius = math.sqrt(-2.0 * math.log1p(-unit(a, b)))
    angle = 2.0 * math.pi * unit(c, d)
    return radius * math.cos(angle), radius * math.sin(angle)


@jit_in_place
def draw_normals(key: Key, time: int, out: Float) -> None:
    """Fill the (B, p) normals of round ``time``; up to 2**17 of them."""
    size = out.shape[1]
    n = out.shape[0] * size
    for i in range(0, n, 2):
        first, second = normal_pair(key, NORMAL, np.uint64((time << 16) + (i >> 1)))
        out[i // size, i % size] = first
        if i + 1 < n:
            out[(i + 1) // size, (i + 1) % size] = second


@jit_in_place
def draw_theta(
    key: Key, time: int, matrix: Float, vector: Float, spread: tuple[int, float]
) -> None:
    """Put theta + radius A^(-1/2) xi at SAMPLE, xi standard normal.

    ``spread``: the place of A^-1 in ``matrix``, and the radius.
    """
    kind, radius = spread
    draw_normals(key, time, vector[INNER])
    for b in range(vector.shape[1]):
        factor_block(matrix, kind, b, 0.0)
        for j in range(vector.shape[2]):
            s = 0.0
            for k in range(j + 1):
                s += matrix[FACTOR, b, j, k] * vector[INNER, b, k]
            vector[SAMPLE, b, j] = vector[THETA, b, j] + radius * s


@jit_in_place
def _gamma(key: Key, start: int, shape: float) -> float:
    """A gamma variable of scale 1 and shape >= 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(1 << 10):  # each accepts with probability above .95
        x, _ = normal_pair(key, BETA, np.uint64(start + 2 * attempt))
        a, b, _, _ = words(key, BETA, np.uint64(start + 2 * attempt + 1))
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log1p(-unit(a, b)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v
    return d


@jit_in_place
def draw_beta(key: Key, place: tuple[int, int], successes: float, failures: float) -> float:
    """A Beta(successes + 1, failures + 1) variable for ``place`` = (round, server)."""
    time, server = place
    start = ((time << 10) + server) << 12
    x = _gamma(key, start, successes + 1.0)
    y = _gamma(key, start + (1 << 11), failures + 1.0)
    return x / (x + y)
