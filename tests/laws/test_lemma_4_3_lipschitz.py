"""LAG Lemma 4.3: c -> waterfill(b, c) is Lipschitz with constant 4 in the sum of absolute values.

Exact on the twin (rational numbers, no tolerance), and on the kernel up to rounding.
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from opportune.kernels.allocate import waterfill
from tests import naive

Case = tuple[list[int], list[Fraction], list[int]]
"""Index, weights, pi."""


def random_case(rng: random.Random, n: int) -> Case:
    index = [rng.randint(-1, 1) for _ in range(n)]
    weight = [Fraction(rng.choice([0, 1, 1, 2, 5, 40]), 8) for _ in range(n)]
    pi = list(range(n))
    rng.shuffle(pi)
    return index, weight, pi


def random_pair(rng: random.Random, n: int) -> tuple[list[Fraction], list[Fraction]]:
    """Two capacities in [0, 1]^n: far apart, close together, or different in one place."""
    c = [Fraction(rng.randint(0, 24), 24) for _ in range(n)]
    kind = rng.randrange(3)
    if kind == 0:
        return c, [Fraction(rng.randint(0, 24), 24) for _ in range(n)]
    moved = range(n) if kind == 1 else [rng.randrange(n)]
    other = list(c)
    for r in moved:
        other[r] = min(Fraction(1), max(Fraction(0), c[r] + Fraction(rng.randint(-3, 3), 240)))
    return c, other


def apart(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((abs(x - y) for x, y in zip(a, b, strict=True)), Fraction(0))


def test_the_twin_is_lipschitz_with_constant_4_exactly() -> None:
    """And the allocation does react: a constant of 1 would not do."""
    rng = random.Random(1)
    worst = Fraction(0)
    for _ in range(4000):
        n = rng.randint(1, 7)
        index, weight, pi = random_case(rng, n)
        b = Fraction(rng.randint(0, 4 * n), 4)
        c, other = random_pair(rng, n)
        if c == other:
            continue
        u = naive.waterfill(b, c, index, weight, pi)
        w = naive.waterfill(b, other, index, weight, pi)
        worst = max(worst, apart(u, w) / apart(c, other))
    assert 1 < worst <= 4


def test_the_kernel_is_lipschitz_with_constant_4() -> None:
    """20,000 pairs of real capacities, down to a distance of 1e-6."""
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(20_000):
        n = int(rng.integers(1, 12))
        group = rng.integers(0, 3, n).astype(np.int8)
        weight = np.where(group == 1, rng.random(n) ** 3 + 1e-3, 0.0)
        order = np.lexsort((rng.random(n), -group))
        b = n * rng.random()
        c = rng.random(n)
        step = 10.0 ** -rng.integers(0, 7)
        other = np.clip(c + step * rng.normal(size=n) * (rng.random(n) < 0.5), 0, 1)
        if np.array_equal(c, other):
            continue
        u, w = np.empty(n), np.empty(n)
        waterfill(b, c, group, order, weight, u)
        waterfill(b, other, group, order, weight, w)
        worst = max(worst, float(np.abs(u - w).sum() / np.abs(c - other).sum()))
    assert 1.5 < worst <= 4 + 1e-6


@pytest.mark.parametrize("stage", [1, -1, 0])
def test_budget_and_capacity_of_one_stage(stage: int) -> None:
    """(F1): u grows with b in every coordinate. (F2): constant 2 in c. Priority and weighted."""
    rng = random.Random(stage)
    worst = Fraction(0)
    for _ in range(1500):
        n = rng.randint(1, 6)
        index = [stage] * n if stage == 0 else [stage * rng.randint(1, 3) for _ in range(n)]
        weight = [Fraction(rng.randint(1, 9), 4) for _ in range(n)]
        c, other = random_pair(rng, n)
        b = Fraction(rng.randint(0, 4 * n), 4)
        more = b + Fraction(rng.randint(0, 8), 8)
        u = naive.waterfill(b, c, index, weight, list(range(n)))
        grown = naive.waterfill(more, c, index, weight, list(range(n)))
        assert sum(u) == min(b, sum(c))
        assert all(x <= y for x, y in zip(u, grown, strict=True))
        if c != other:
            w = naive.waterfill(b, other, index, weight, list(range(n)))
            worst = max(worst, apart(u, w) / apart(c, other))
    assert 1 < worst <= 2
