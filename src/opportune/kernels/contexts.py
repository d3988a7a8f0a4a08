"""Contexts and uniforms of a queue run, drawn before it by position.

The i-th arrival reads its own part of the stream, so a run with a longer horizon begins with the
same arrivals, and no arrival depends on how many candidates another one rejected.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit
from opportune.kernels.streams import unit, words

Float = NDArray[np.float64]
Key = tuple[np.uint64, np.uint64]

ARRIVAL, DEPARTURE, EXPLORE, SERVER, TIE, DELAY, COPIES = 30, 31, 32, 33, 34, 38, 39
"""Purposes of the uniforms of a round, each with its own stream."""

CONTEXT, WEIGHT, PROBE = 35, 36, 37
"""Purposes of contexts, of a drawn weight, and of the contexts that try it."""

BITS = 24
"""Each arrival has 2**24 positions of the context stream of its own."""

_1 = np.uint64(1)
_HALF = 2.0**-31


@jit
def fill_units(key: Key, purpose: int, out: Float) -> None:
    """Numbers 0, 1, ... in [0, 1) of a purpose's stream, 53 bits each, into ``out`` (n,)."""
    n = out.shape[0]
    for i in range(0, n, 2):
        a, b, c, d = words(key, purpose, np.uint64(i) >> _1)
        out[i] = unit(a, b)
        if i + 1 < n:
            out[i + 1] = unit(c, d)


@jit
def departure_rates(features: Float, weight: Float, rate: Float) -> None:
    """mu(<phi(x, a), theta>) of every context and server into ``rate`` (n, K).

    ``features`` is (n, K, d) with ``weight`` (1, d), or (n, 1, p) with one row of ``weight`` (K, p)
    a server.
    """
    n, m, q = features.shape
    for i in range(n):
        for a in range(rate.shape[1]):
            z = 0.0
            for j in range(q):
                z += features[i, a if m > 1 else 0, j] * weight[a if m == 1 else 0, j]
            rate[i, a] = 1.0 / (1.0 + math.exp(-z))


@jit
def draw_uniform_contexts(
    key: Key,
    purpose: int,
    weight: Float,
    limits: tuple[float, float, float],
    out: tuple[Float, Float],
) -> int:
    """Contexts with entries uniform on (-scale, scale), by rejection.

    Candidate after candidate is drawn for each arrival until the largest logit over the servers
    is at least ``least`` and no logit is beyond ``largest`` in size.

    Args:
        key: (seed, replication).
        purpose: Which stream.
        weight: (1, d) for features of their own a server, (K, p) for one weight a server.
        limits: ``least``, ``largest``, ``scale``.
        out: Features (n, K, d) or (n, 1, p), and rates (n, K), to be filled.

    Returns:
        Candidates drawn; -1 if an arrival ran out of positions of its stream.
    """
    least, largest, scale = limits
    features, rate = out
    n, m, q = features.shape
    n_servers = rate.shape[1]
    size = m * q
    blocks = (size + 3) // 4
    most = (1 << BITS) // blocks
    drawn = 0
    for i in range(n):
        base = np.uint64(i) << np.uint64(BITS)
        attempt = 0
        while True:
            if attempt == most:
                return -1
            at = base + np.uint64(attempt * blocks)
            for b in range(blocks):
                w0, w1, w2, w3 = words(key, purpose, at + np.uint64(b))
                for j in range(min(4, size - 4 * b)):
                    word = w0 if j == 0 else (w1 if j == 1 else (w2 if j == 2 else w3))
                    entry = 4 * b + j
                    features[i, entry // q, entry % q] = scale * ((float(word) + 0.5) * _HALF - 1.0)
            attempt += 1
            best, worst = -math.inf, 0.0
            for a in range(n_servers):
                z = 0.0
                for j in range(q):
                    z += features[i, a if m > 1 else 0, j] * weight[a if m == 1 else 0, j]
                rate[i, a] = 1.0 / (1.0 + math.exp(-z))
                best = max(best, z)
                worst = max(worst, abs(z))
            if best >= least and worst <= largest:
                break
        drawn += attempt
    return drawn
