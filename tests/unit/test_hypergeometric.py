"""The hypergeometric sampler: its law against SciPy's, its hat, its symmetries, its positions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import chi2, hypergeom

from opportune.kernels.hypergeometric import (
    INVERSION,
    Urn,
    hat,
    hypergeometric,
    hypergeometric_block,
    log_ratio,
)

PURPOSE = 20
LEVEL = 1e-4
"""Error probability of each chi-square test below, if the sampler is right (seeds are fixed)."""


def key(seed: int, replication: int = 0) -> tuple[np.uint64, np.uint64]:
    return np.uint64(seed), np.uint64(replication)


def drawn(urn: Urn, size: int, seed: int) -> NDArray[np.int64]:
    found = np.empty(size, dtype=np.int64)
    hypergeometric_block(key(seed), PURPOSE, urn, found)
    return found


def p_value(found: NDArray[np.int64], urn: Urn) -> float:
    """Chi-square test of draws against the law; cells with at least ten expected draws."""
    least, most = int(found.min()), int(found.max())
    mass = hypergeom.pmf(np.arange(least, most + 1), urn.total, urn.marked, urn.draws)
    seen = np.bincount(found - least)
    cells: list[tuple[float, float]] = []
    expected = observed = 0.0
    for e, o in zip(mass * len(found), seen, strict=True):
        expected, observed = expected + e, observed + o
        if expected >= 10:
            cells.append((expected, observed))
            expected = observed = 0.0
    if len(cells) < 2:
        return 1.0
    e, o = (np.array(column) for column in zip(*cells, strict=True))
    e[-1] += len(found) - e.sum()  # what lies outside of all cells
    o[-1] += len(found) - o.sum()
    return float(chi2.sf(np.sum((o - e) ** 2 / e), len(e) - 1))


def random_urns(number: int) -> list[Urn]:
    """Urns of 1 to 20 million items, small and large shares of marked and drawn ones."""
    rng = np.random.default_rng(5)
    urns = []
    for i in range(number):
        total = int(10 ** rng.uniform(0, 7.3))
        few = [int(10 ** rng.uniform(0, math.log10(total + 1))) for _ in range(2)]
        even = [int(x) for x in rng.integers(0, total + 1, 2)]
        marked, draws = [(few, even)[(i >> j) & 1][j] for j in range(2)]
        urns.append(Urn(total, min(marked, total), min(draws, total)))
    return urns


SCALES = [
    Urn(m * n, round(m * n * share), n)
    for n, m in ((4, 2), (16, 4), (256, 16), (4096, 64), (65536, 256))
    for share in (0.02, 0.35, 0.9)
]
"""What the scaled system draws from."""

EDGES = [Urn(30, 14, 13), Urn(26, 13, 13), Urn(40, 13, 20), Urn(10**6, 13, 13), Urn(10**6, 5, 3)]
"""Around the switch from inversion to rejection."""

RARE = [Urn(1000, 100, 20), Urn(10_000, 1000, 13), Urn(10**7, 40_000, 300)]
"""Means of about 1 to 2, by rejection."""


@pytest.mark.parametrize("urn", SCALES + EDGES + RARE + random_urns(80), ids=str)
def test_the_law_is_hypergeometric(urn: Urn) -> None:
    found = drawn(urn, 40_000, seed=urn.total + urn.marked)
    assert found.min() >= max(0, urn.draws + urn.marked - urn.total)
    assert found.max() <= min(urn.draws, urn.marked)
    assert p_value(found, urn) > LEVEL


def test_a_wrong_law_is_found() -> None:
    """The test above can fail: one item in a thousand more marked is seen in more draws."""
    urn = Urn(1_000_000, 300_000, 4000)
    found = drawn(urn, 200_000, seed=1)
    assert p_value(found, urn) > LEVEL
    assert p_value(found, urn._replace(marked=300_300)) < LEVEL
    assert p_value(np.minimum(found + (found % 7 == 0), 4000), urn) < LEVEL


@pytest.mark.parametrize(
    ("urn", "only"),
    [
        (Urn(0, 0, 0), 0),
        (Urn(1, 0, 1), 0),
        (Urn(1, 1, 1), 1),
        (Urn(1, 1, 0), 0),
        (Urn(9, 9, 4), 4),
        (Urn(9, 0, 4), 0),
        (Urn(9, 5, 9), 5),
        (Urn(10**9, 10**9, 10**6), 10**6),
        (Urn(10**9, 123_456, 10**9), 123_456),
    ],
    ids=str,
)
def test_what_is_certain(urn: Urn, only: int) -> None:
    assert set(drawn(urn, 50, seed=3).tolist()) == {only}


def test_probabilities_relative_to_the_mode_are_exact() -> None:
    """log f(mode + d) / f(mode) to 1e-11, by whole-number binomials; urns of up to 10^8 items."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        total = int(10 ** rng.uniform(1.5, 8))
        most = min(math.log10(total / 2), 3.3)
        a, b = (int(10 ** rng.uniform(math.log10(INVERSION + 1), most)) for _ in range(2))
        urn = Urn(total, max(a, b), min(a, b))
        mode = int(hat(urn)[2])
        x = int(np.clip(mode + rng.integers(-8, 9), 0, urn.draws))
        want = math.log(Fraction(ways(urn, x), ways(urn, mode)))
        assert log_ratio(urn, float(mode), float(x - mode)) == pytest.approx(want, abs=1e-11)


def ways(urn: Urn, x: int) -> int:
    """In how many ways x marked items are among those drawn."""
    unmarked = urn.total - urn.marked
    return math.comb(urn.marked, x) * math.comb(unmarked, urn.draws - x)


def hat_excess(urn: Urn) -> float:
    """Largest |w - a| sqrt(f(floor w) / f(mode)) by half the width of the hat, w at both ends.

    Rejection is exact if it is at most 1: then the table mountain covers the law.
    """
    total, large, small = urn
    center, width, mode = hat(urn)
    wide = 12 * width
    x = np.arange(max(0, int(mode - wide)), min(small, int(mode + wide)) + 1.0)

    def log_mass(x: NDArray[np.float64] | float) -> NDArray[np.float64]:
        parts = (x + 1, large - x + 1, small - x + 1, total - large - small + x + 1)
        return -np.sum([gammaln(part) for part in parts], axis=0)

    root = np.exp((log_mass(x) - log_mass(mode)) / 2)
    reach = np.maximum(np.abs(x - center), np.abs(x + 1 - center))
    return float(np.max(reach * root) / (width / 2))


def test_the_hat_covers_every_small_urn() -> None:
    """All urns of up to 80 items that are sampled by rejection."""
    worst = max(
        hat_excess(Urn(total, large, small))
        for total in range(2 * INVERSION + 2, 81)
        for large in range(INVERSION + 1, total // 2 + 1)
        for small in range(INVERSION + 1, large + 1)
    )
    assert 0.5 < worst <= 1.0


def test_the_hat_covers_large_urns() -> None:
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(3000):
        total = int(10 ** rng.uniform(1.5, 8))
        most = math.log10(total / 2)
        a, b = (int(10 ** rng.uniform(math.log10(INVERSION + 1), most)) for _ in range(2))
        worst = max(worst, hat_excess(Urn(total, max(a, b), min(a, b))))
    assert 0.9 < worst <= 1.0


def test_a_draw_is_a_function_of_its_position() -> None:
    urn = Urn(10_000, 3000, 700)
    found = drawn(urn, 100, seed=9)
    again = [int(hypergeometric(key(9), PURPOSE, np.uint64(i), urn)) for i in reversed(range(100))]
    assert again[::-1] == found.tolist()
    other = [int(hypergeometric(key(9, 1), PURPOSE, np.uint64(i), urn)) for i in range(100)]
    assert other != found.tolist()
    assert [int(hypergeometric(key(9), 21, np.uint64(i), urn)) for i in range(100)] != other


def test_neighbors_are_independent() -> None:
    """Correlation of draws at positions i and i+1: below four standard errors of 100,000."""
    for urn in (Urn(64, 20, 8), Urn(100_000, 30_000, 5000)):
        found = drawn(urn, 100_000, seed=4).astype(np.float64)
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4 / math.sqrt(100_000)
