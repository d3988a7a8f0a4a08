"""Stationary laws against exact fractions, the headcount chain against subsets one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from opportune.kernels.markov import headcount_transition, stationary
from tests import naive


def as_floats(rows: list[list[Fraction]]) -> np.ndarray:
    """The nearest float matrix."""
    return np.array([[float(x) for x in row] for row in rows])


def test_stationary_laws_are_exact_to_the_last_digits_however_small() -> None:
    rng = np.random.default_rng(1)
    for case in range(60):
        n = int(rng.integers(1, 7))
        weights = rng.integers(0, 5, (n, n)) + np.eye(n, dtype=int)
        weights[np.arange(n), (np.arange(n) + 1) % n] += 1  # irreducible
        rows = [[Fraction(int(w)) for w in row] for row in weights]
        if case % 2 and n > 1:  # the last state is hardly ever entered
            for row in rows[:-1]:
                row[-1] = Fraction(1, 2**60)
        rows = [[x / sum(row) for x in row] for row in rows]
        want = [float(x) for x in naive.stationary(rows)]
        assert stationary(as_floats(rows)) == pytest.approx(want, rel=1e-13)


def test_the_input_is_left_as_it_is() -> None:
    chain = headcount_transition(3, 0.5, 0.25)
    copy = chain.copy()
    stationary(chain)
    assert np.array_equal(chain, copy)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("arrival", [Fraction(1, 8), Fraction(3, 4), Fraction(1)])
@pytest.mark.parametrize("end", [Fraction(1, 16), Fraction(1, 2), Fraction(1)])
def test_the_headcount_chain(size: int, arrival: Fraction, end: Fraction) -> None:
    want = naive.headcount_transition(size, arrival, end)
    chain = headcount_transition(size, float(arrival), float(end))
    assert chain == pytest.approx(as_floats(want), rel=1e-13, abs=1e-300)
    law = [float(x) for x in naive.stationary(want)]
    assert stationary(chain) == pytest.approx(law, rel=1e-12, abs=0)


def test_rows_of_a_large_chain_sum_to_one() -> None:
    chain = headcount_transition(400, 0.3, 1e-3)
    assert chain.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert chain.min() >= 0.0


def test_states_below_a_closed_class_are_transient() -> None:
    """A task at every step, D = 1: after the first step exactly one task is in service."""
    assert stationary(headcount_transition(3, 1.0, 1.0)).tolist() == [0.0, 1.0, 0.0, 0.0]
    assert stationary(np.array([[0.5, 0.5], [0.0, 1.0]])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("size", "load"), [(800, 0.9), (800, 1.3), (1500, 0.95)])
def test_a_large_chain_does_not_overflow(size: int, load: float) -> None:
    """The empty state is less likely than the smallest float; Little's law holds all the same."""
    arrival, mean = 0.5, load * size / 0.5
    law = stationary(headcount_transition(size, arrival, 1.0 / mean))
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    in_service = float(law @ np.arange(size + 1))
    assert arrival * (1.0 - law[-1]) * mean == pytest.approx(in_service, rel=1e-10)
    assert law[-1] > 1e-6
