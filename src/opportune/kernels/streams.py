"""Randomness drawn before a run, by a compiled counter-based generator.

Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy
as 1, 2, 3"). A draw is a pure function of (seed, replication, purpose, position), so block i
needs no block i-1, any number of workers gives the same bits, and a stream can be read again.

Key: the two halves of the seed. Counter: (position low, position high, purpose, replication).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit

GAP, TYPE, DURATION, CHOICE = 1, 2, 3, 4
"""Purposes: each has its own stream."""

DETERMINISTIC, GEOMETRIC, EMPIRICAL = 0, 1, 2
"""Kinds of duration in a ``Law``."""

NEVER = 2**62
"""A gap longer than any run: what a rate of almost 0 gives instead of infinity."""

_MASK = np.uint64(0xFFFFFFFF)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_32, _11, _21 = np.uint64(32), np.uint64(11), np.uint64(21)
_INV53 = 1.0 / 9007199254740992.0

Words = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


class LossStreams(NamedTuple):
    """A block of n arrivals. ``choice`` holds 32-bit fractions: c / 2**32 lies in [0, 1)."""

    gap: NDArray[np.int64]  # (n,) steps since the previous arrival, at least 1
    task_type: NDArray[np.int32]  # (n,)
    duration: NDArray[np.int64]  # (n,) steps, at least 1
    choice: NDArray[np.uint32]  # (n, k) one per server of the task, for ties and samples


class Law(NamedTuple):
    """The laws that a block is drawn from; all arrays, so one compiled function serves all."""

    arrival: float  # probability that a step brings a task
    type_threshold: NDArray[np.float64]  # (V,) alias table of the types
    type_alias: NDArray[np.int32]  # (V,)
    kind: NDArray[np.int8]  # (V,) DETERMINISTIC, GEOMETRIC, EMPIRICAL
    steps: NDArray[np.int64]  # (V,) deterministic duration
    log_stay: NDArray[np.float64]  # (V,) log(1 - 1/mean) of a geometric one
    start: NDArray[np.int64]  # (V+1,) where the alias table of an empirical one starts
    value: NDArray[np.int64]  # (n,) its values
    threshold: NDArray[np.float64]  # (n,)
    alias: NDArray[np.int64]  # (n,) index relative to start


@jit
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> Words:
    """Ten rounds of Philox4x32: four words and a key of two to four words (as uint64)."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _MASK, (p0 >> _32) ^ c3 ^ k1, p0 & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@jit
def words(key: tuple[np.uint64, np.uint64], purpose: int, position: np.uint64) -> Words:
    """Four 32-bit words at ``position`` of a purpose's stream; key is (seed, replication)."""
    seed, replication = key
    return philox(
        position & _MASK,
        position >> _32,
        np.uint64(purpose),
        replication,
        seed & _MASK,
        seed >> _32,
    )


@jit
def unit(high: np.uint64, low: np.uint64) -> float:
    """Two 32-bit words as a number in [0, 1) with 53 bits."""
    return ((high << _21) ^ (low >> _11)) * _INV53


@jit
def geometric(u: float, log_stay: float) -> int | np.int64:
    """Inverse of the geometric law on 1, 2, ...; log_stay = log(1 - p), -inf for p = 1."""
    x = math.log1p(-u) / log_stay
    return 1 + np.int64(x) if x < 4.0e18 else NEVER


@jit
def _duration(u: float, v: np.int32, law: Law) -> int | np.int64:
    if law.kind[v] == DETERMINISTIC:
        return law.steps[v]
    if law.kind[v] == GEOMETRIC:
        return geometric(u, law.log_stay[v])
    start = law.start[v]
    scaled = u * (law.start[v + 1] - start)
    j = np.int64(scaled)
    if scaled - j >= law.threshold[start + j]:
        j = law.alias[start + j]
    return law.value[start + j]


@jit
def draw_arrivals(
    key: tuple[np.uint64, np.uint64], first: int, law: Law, streams: LossStreams
) -> None:
    """Fill ``streams`` with arrivals first, first+1, ... of the run keyed (seed, replication).

    ``first`` must be a multiple of 4, so that blocks of four words fall on block edges.
    Sources: arrivals are Bernoulli per step, so gaps are geometric; type and duration by
    Walker's alias method (Vose 1991).
    """
    n = streams.gap.shape[0]
    n_types = law.type_threshold.shape[0]
    log_stay = math.log1p(-law.arrival) if law.arrival < 1.0 else -np.inf
    k = streams.choice.shape[1]
    for i in range(0, n, 2):
        at = np.uint64(first + i) >> np.uint64(1)
        a0, a1, a2, a3 = words(key, GAP, at)
        b0, b1, b2, b3 = words(key, TYPE, at)
        d0, d1, d2, d3 = words(key, DURATION, at)
        for j in range(min(2, n - i)):
            if j == 1:
                a0, a1, b0, b1, d0, d1 = a2, a3, b2, b3, d2, d3
            streams.gap[i + j] = geometric(unit(a0, a1), log_stay)
            scaled = unit(b0, b1) * n_types
            v = np.int32(scaled)
            if scaled - v >= law.type_threshold[v]:
                v = law.type_alias[v]
            streams.task_type[i + j] = v
            streams.duration[i + j] = _duration(unit(d0, d1), v, law)
    flat = streams.choice.reshape(n * k)
    base = np.uint64(first) * np.uint64(k) >> np.uint64(2)
    for i in range(0, n * k, 4):
        c0, c1, c2, c3 = words(key, CHOICE, base + np.uint64(i >> 2))
        flat[i] = c0
        if i + 1 < n * k:
            flat[i + 1] = c1
        if i + 2 < n * k:
            flat[i + 2] = c2
        if i + 3 < n * k:
            flat[i + 3] = c3
