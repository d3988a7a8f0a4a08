"""Marked among drawn: an exact hypergeometric sampler that stays fast in huge urns.

From an urn of ``total`` items, ``marked`` of them marked, ``draws`` are taken without putting
back; how many of those are marked? Randomness is read by position from a counter-based
generator (``kernels.streams``), so a draw is a pure function of key, purpose, position and urn.

Method: by the symmetries of the law both ``marked`` and ``draws`` are brought to at most half
of ``total``. A small number of draws is sampled by inversion from 0. Otherwise rejection by
ratio of uniforms from a table mountain (HRUA; Stadlober 1990, "The ratio of uniforms approach
for generating discrete random variates"), without the usual cut at 16 standard deviations.
That its hat covers every urn is tested on a grid of urns and follows for none by proof here.
The acceptance test compares probabilities through their ratio to the mode, by differences of
log-gamma functions (Stirling with correction terms), so its error is about 1e-13 however large
the urn; differences of whole log-factorials would lose 1e-7 at 10^7 items.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit
from opportune.kernels.streams import unit, words

INVERSION = 12
"""Up to this many draws (after the symmetries) inversion is faster than rejection."""

HAT_WIDTH, HAT_SHIFT = 2.0 * math.sqrt(2.0 / math.e), 3.0 - 2.0 * math.sqrt(3.0 / math.e)
"""Width of the hat: HAT_WIDTH sqrt(variance + 1/2) + HAT_SHIFT (Stadlober's constants)."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_CORRECTION = np.array(
    [0.0] + [math.lgamma(z) - (z - 0.5) * math.log(z) + z - _HALF_LOG_2PI for z in range(1, 16)]
)

Key = tuple[np.uint64, np.uint64]


class Urn(NamedTuple):
    """What is drawn from; 0 <= marked, draws <= total."""

    total: int
    marked: int
    draws: int


@jit
def hypergeometric(key: Key, purpose: int, position: np.uint64, urn: Urn) -> int | np.int64:
    """The number of marked items among ``urn.draws`` drawn.

    Args:
        key: (seed, replication).
        purpose: Which stream, below 256; attempt a of a rejection reads purpose + 256 a.
        position: Where in the stream.
        urn: What is drawn from.
    """
    total, marked, draws = urn
    few = min(marked, total - marked)  # marked or unmarked, whichever are fewer
    taken = min(draws, total - draws)  # drawn or left behind
    large, small = max(few, taken), min(few, taken)  # the law is symmetric in these two
    if small == 0:
        found = np.int64(0)
    elif small <= INVERSION:
        w0, w1, _, _ = words(key, purpose, position)
        found = _invert(unit(w0, w1), total, large, small)
    else:
        found = _reject(key, purpose, position, Urn(total, large, small))
    if few < marked:  # ``found`` counts unmarked items
        found = taken - found
    if taken < draws:  # ``found`` counts items left behind
        found = marked - found
    return found


@jit
def _invert(u: float, total: int, large: int, small: int) -> np.int64:
    """Smallest x whose distribution function exceeds u; the walk starts at 0."""
    mass = 1.0
    for i in range(small):
        mass *= (total - large - i) / (total - i)
    x = np.int64(0)
    while u >= mass and x < small:
        u -= mass
        mass *= (large - x) * (small - x) / ((x + 1.0) * (total - large - small + x + 1.0))
        x += 1
    return x


@jit
def hat(urn: Urn) -> tuple[float, float, float]:
    """Center a, width and mode for rejection, from an urn with both numbers at most half.

    A point (u, v) of the unit square stands for x = floor(a + width (v - 1/2) / u) and is
    accepted if u^2 <= f(x) / f(mode): exact if |w - a| sqrt(f(floor w) / f(mode)) <= width / 2
    for all real w.
    """
    total, large, small = float(urn.total), float(urn.marked), float(urn.draws)
    share = large / total
    variance = small * share * (1.0 - share) * ((total - small) / (total - 1.0))
    width = HAT_WIDTH * math.sqrt(variance + 0.5) + HAT_SHIFT
    mode = math.floor((small + 1.0) * (large + 1.0) / (total + 2.0))
    return small * share + 0.5, width, mode


@jit
def _reject(key: Key, purpose: int, position: np.uint64, urn: Urn) -> np.int64:
    """Ratio of uniforms under the hat, both numbers at most half of the total."""
    center, width, mode = hat(urn)
    while True:
        w0, w1, w2, w3 = words(key, purpose, position)
        purpose += 256
        u = 1.0 - unit(w0, w1)
        x = math.floor(center + width * (unit(w2, w3) - 0.5) / u)
        if 0.0 <= x <= urn.draws and 2.0 * math.log(u) <= log_ratio(urn, mode, x - mode):
            return np.int64(x)


@jit
def log_ratio(urn: Urn, mode: float, d: float) -> float:
    """log f(mode + d) / f(mode) for 0 <= mode + d <= draws, both numbers at most half.

    With f(x) = c / (Gamma(z1) Gamma(z2) Gamma(z3) Gamma(z4)), each z moving by d or -d, and
    log Gamma(z) = (z - 1/2) log z - z + log(2 pi) / 2 + correction(z).
    """
    total, large, small = float(urn.total), float(urn.marked), float(urn.draws)
    z1, z2, z3 = mode + 1.0, large - mode + 1.0, small - mode + 1.0
    z4 = total - large - small + mode + 1.0
    start = _correction(z1) + _correction(z2) + _correction(z3) + _correction(z4)
    slope = math.log(z2 * z3 / (z1 * z4))
    return (
        d * slope
        - (z1 + d - 0.5) * math.log1p(d / z1)
        - (z2 - d - 0.5) * math.log1p(-d / z2)
        - (z3 - d - 0.5) * math.log1p(-d / z3)
        - (z4 + d - 0.5) * math.log1p(d / z4)
        + start
        - _correction(z1 + d)
        - _correction(z2 - d)
        - _correction(z3 - d)
        - _correction(z4 + d)
    )


@jit
def _correction(z: float) -> float:
    """log Gamma(z) minus Stirling's (z - 1/2) log z - z + log(2 pi) / 2, for whole z >= 1."""
    if z < 16.0:
        return _CORRECTION[int(z)]
    inverse = 1.0 / z
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))


@jit
def hypergeometric_block(key: Key, purpose: int, urn: Urn, found: NDArray[np.int64]) -> None:
    """Fill ``found`` (n,) with draws from one urn, at positions 0 .. n-1."""
    for i in range(found.shape[0]):
        found[i] = hypergeometric(key, purpose, np.uint64(i), urn)
