"""What a logistic learner keeps: data, gradient, information, inverses, and passes over the data.

The model: a departure happens with probability mu(z) = 1 / (1 + exp(-z)), z = <phi, theta>.
The loss (CQB 2.1, quoted): sum of -D log mu(z) - (1 - D) log(1 - mu(z)) plus
(ridge / 2) ||theta||^2, over the outcomes learned from.

With one weight block per server (disjoint features) all matrices are block-diagonal, so arrays have
an axis B of blocks of size p; joint features have B = 1 and p = d. Arrays of one kind are stacked,
with names for the places: a kernel that is handed few arrays is compiled in a fraction of the time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit, jit_in_place

Float = NDArray[np.float64]

INFORMATION, COVARIANCE, DESIGN, DESIGN_INVERSE, FACTOR = range(5)
"""``Learner.matrix``: ridge I + sum of mu'(z) phi phi', its inverse (or that of an information
nearby), V = V_0 I + sum of phi phi', its inverse, and room for a factor."""

THETA, GRADIENT, PHI, POINT, RIGHT, INNER, ANCHOR, SAMPLE, FREE = range(9)
"""``Learner.vector``: theta, gradient at theta, the features being learned from (block 0), scratch
of the fits (3), theta at the anchor of the scan, Thompson's draw, the online estimate without the
norm constraint."""

OUTCOME, RESIDUAL, SLOPE, FEATURES = range(4)
"""``Learner.data``: rows outcome, mu(z) - outcome, mu'(z), then p rows of features, by column."""

START, COUNT, ROOM = range(3)
"""``Learner.segment``: block b has its data in the columns START .. START + COUNT - 1."""

REACH, MULTIPLIER, POOL, PASSES, FAILED, LEARNED, REFIT, LOSSES = range(8)
"""``Learner.number``: largest ||phi||, multiplier of the norm constraint, columns of the pool in
use, passes over data, fits that ran out of steps, outcomes learned from, how many they were at
the last refit, running difference of ECOLog's losses."""

REFRESH = 256
"""Rank-one updates of an inverse between two inversions from scratch."""


class Learner(NamedTuple):
    """All that is learned; updated in place."""

    matrix: Float  # (5, B, p, p)
    vector: Float  # (9, B, p)
    data: Float  # (3 + p, columns)
    segment: NDArray[np.int64]  # (3, B)
    number: Float  # (8,)


@jit
def new_learner(
    n_blocks: int, size: int, capacity: int, ridge: float, design_start: float
) -> Learner:
    """Nothing learned yet, room for ``capacity`` outcomes."""
    first_room = 8 if n_blocks > 1 else max(capacity, 1)
    pool = 4 * capacity + 16 * n_blocks if n_blocks > 1 else first_room
    matrix = np.zeros((5, n_blocks, size, size))
    segment = np.zeros((3, n_blocks), dtype=np.int64)
    for b in range(n_blocks):
        segment[START, b] = b * first_room
        segment[ROOM, b] = first_room
        for j in range(size):
            matrix[INFORMATION, b, j, j] = ridge
            matrix[COVARIANCE, b, j, j] = 1.0 / ridge
            matrix[DESIGN, b, j, j] = design_start
            matrix[DESIGN_INVERSE, b, j, j] = 1.0 / design_start
    number = np.zeros(8)
    number[POOL] = n_blocks * first_room
    data = np.empty((FEATURES + size, pool))
    return Learner(matrix, np.zeros((9, n_blocks, size)), data, segment, number)


@jit_in_place
def departure_probability(z: float) -> float:
    """mu(z) = 1 / (1 + exp(-z)), without overflow for any z."""
    e = math.exp(-abs(z))
    return 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)


@jit_in_place
def departure_slope(z: float) -> float:
    """mu'(z) = mu(z) (1 - mu(z)), above 0 as long as exp(-|z|) is."""
    e = math.exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


@jit_in_place
def log_loss(z: float, outcome: float) -> float:
    """-log of the probability of an outcome 0 or 1, finite for any finite z."""
    signed = -z if outcome > 0.5 else z
    return max(signed, 0.0) + math.log1p(math.exp(-abs(z)))


@jit_in_place
def append_outcome(learner: Learner, b: int, outcome: float) -> None:
    """Put the features at PHI and their outcome at the end of block b's data."""
    matrix, vector, data, segment, number = learner
    count = segment[COUNT, b]
    if count == segment[ROOM, b]:  # move to the end of the pool, with twice the room
        old, new = segment[START, b], np.int64(number[POOL])
        for row in range(data.shape[0]):
            for i in range(count):
                data[row, new + i] = data[row, old + i]
        segment[START, b] = new
        segment[ROOM, b] *= 2
        number[POOL] += segment[ROOM, b]
    at = segment[START, b] + count
    square = 0.0
    for j in range(matrix.shape[2]):
        phi = vector[PHI, 0, j]
        data[FEATURES + j, at] = phi
        square += phi * phi
    data[OUTCOME, at] = outcome
    segment[COUNT, b] = count + 1
    number[REACH] = max(number[REACH], math.sqrt(square))
    number[LEARNED] += 1


@jit_in_place
def dot(a: Float, b: Float, start: float) -> float:
    """start + a' b, added in four lanes."""
    n = a.shape[0]
    whole = n // 4 * 4
    s0, s1, s2, s3 = start, 0.0, 0.0, 0.0
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, n):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@jit_in_place
def pass_over_data(learner: Learner, b: int, ridge: float, slopes: bool) -> float:
    """Gradient of block b at its theta, with ``slopes`` its information instead.

    The information needs the slopes that the pass for the gradient at the same theta left behind.

    Returns:
        The largest entry of the gradient; 0 for the information.
    """
    matrix, vector, pool, segment, number = learner
    first = segment[START, b]
    data = pool[:, first : first + segment[COUNT, b]]
    size, n = matrix.shape[2], data.shape[1]
    outcome, work, slope = data[OUTCOME], data[RESIDUAL], data[SLOPE]
    if slopes:
        for j in range(size):
            row = data[FEATURES + j]
            for i in range(n):
                work[i] = slope[i] * row[i]
            for k in range(j + 1):
                entry = dot(data[FEATURES + k], work, ridge if j == k else 0.0)
                matrix[INFORMATION, b, j, k] = entry
                matrix[INFORMATION, b, k, j] = entry
        return 0.0
    number[PASSES] += 1
    for i in range(n):
        work[i] = 0.0
    for j in range(size):
        weight = vector[THETA, b, j]
        row = data[FEATURES + j]
        for i in range(n):
            work[i] += weight * row[i]
    for i in range(n):
        e = math.exp(-abs(work[i]))
        share = 1.0 / (1.0 + e)
        slope[i] = e * share * share
        work[i] = (share if work[i] >= 0.0 else e * share) - outcome[i]
    largest = 0.0
    for j in range(size):
        entry = dot(data[FEATURES + j], work, ridge * vector[THETA, b, j])
        vector[GRADIENT, b, j] = entry
        largest = max(largest, abs(entry))
    return largest


@jit_in_place
def factor_block(matrix: Float, kind: int, b: int, shift: float) -> None:
    """Lower Cholesky factor of matrix[kind, b] + shift I, at FACTOR; positive definite."""
    size = matrix.shape[2]
    for j in range(size):
        for k in range(j + 1):
            s = matrix[kind, b, j, k]
            if j == k:
                s += shift
            for i in range(k):
                s -= matrix[FACTOR, b, j, i] * matrix[FACTOR, b, k, i]
            matrix[FACTOR, b, j, k] = math.sqrt(s) if j == k else s / matrix[FACTOR, b, k, k]


@jit_in_place
def invert_block(matrix: Float, kind: int, b: int) -> None:
    """Put the inverse of the positive definite matrix[kind, b] at kind + 1, exactly symmetric."""
    size = matrix.shape[2]
    factor_block(matrix, kind, b, 0.0)
    for k in range(size):  # the inverse of the factor, in place, column by column
        matrix[FACTOR, b, k, k] = 1.0 / matrix[FACTOR, b, k, k]
        for j in range(k + 1, size):
            s = 0.0
            for i in range(k, j):
                s -= matrix[FACTOR, b, j, i] * matrix[FACTOR, b, i, k]
            matrix[FACTOR, b, j, k] = s / matrix[FACTOR, b, j, j]
    for j in range(size):
        for k in range(j + 1):
            s = 0.0
            for i in range(j, size):
                s += matrix[FACTOR, b, i, j] * matrix[FACTOR, b, i, k]
            matrix[kind + 1, b, j, k] = s
            matrix[kind + 1, b, k, j] = s


@jit_in_place
def image_of_phi(matrix: Float, vector: Float, kind: int, b: int) -> float:
    """A^-1 phi at POINT for the inverse A^-1 = matrix[kind, b]; phi' A^-1 phi."""
    square = 0.0
    for j in range(matrix.shape[2]):
        s = 0.0
        for k in range(matrix.shape[2]):
            s += matrix[kind, b, j, k] * vector[PHI, 0, k]
        vector[POINT, b, j] = s
        square += s * vector[PHI, 0, j]
    return square


@jit_in_place
def add_outcome(learner: Learner, kind: int, b: int, weight: float, square: float) -> None:
    """A <- A + weight phi phi' for A = matrix[kind, b] and, at kind + 1, its inverse.

    ``image_of_phi`` came before and gave ``square``. The inverse by Sherman and Morrison (1950),
    every REFRESH outcomes from scratch, so that rounding does not add up.
    """
    matrix, vector, _, segment, _ = learner
    size = matrix.shape[2]
    scale = weight / (1.0 + weight * square)
    for j in range(size):
        phi, image = weight * vector[PHI, 0, j], scale * vector[POINT, b, j]
        for k in range(size):
            matrix[kind, b, j, k] += phi * vector[PHI, 0, k]
            matrix[kind + 1, b, j, k] -= image * vector[POINT, b, k]
    if segment[COUNT, b] % REFRESH == 0:
        invert_block(matrix, kind, b)
