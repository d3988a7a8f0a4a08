"""Stationary laws of small chains, componentwise accurate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit


@jit
def stationary(transition: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) stationary law of an (n, n) chain by GTH elimination.

    Grassmann, Taksar, Heyman 1985: no subtraction, so every component has small relative
    error, however small it is (below 1e-300 of the largest it counts as 0). If the last state
    cannot be left downwards below some state, all states under that one are transient: law 0.
    """
    p = transition.copy()
    n = p.shape[0]
    lowest = 0
    for last in range(n - 1, 0, -1):
        leave = 0.0
        for j in range(last):
            leave += p[last, j]
        if leave == 0.0:
            lowest = last
            break
        for i in range(last):
            p[i, last] /= leave
        for i in range(last):
            factor = p[i, last]
            if factor != 0.0:
                for j in range(last):
                    p[i, j] += factor * p[last, j]
    law = np.zeros(n)
    law[lowest] = 1.0
    total = 1.0
    for j in range(lowest + 1, n):
        for i in range(lowest, j):
            law[j] += law[i] * p[i, j]
        total += law[j]
        if total > 1e100:  # the lowest states of a large chain can be less likely than 1e-308
            for i in range(lowest, j + 1):
                law[i] /= total
            total = 1.0
    return law / total


@jit
def headcount_transition(size: int, arrival: float, end: float) -> NDArray[np.float64]:
    """(M+1, M+1) chain of the tasks in service, M = size.

    From n, Binomial(n, end) tasks end, and one begins with probability ``arrival`` if n < M;
    it cannot end in the same step (LAG section 4 of our notes, reconstructed and checked).
    """
    p = np.zeros((size + 1, size + 1))
    for n in range(size + 1):
        for ended in range(n + 1):
            mass = _binomial(n, ended, end)
            if n < size:
                p[n, n - ended] += (1.0 - arrival) * mass
                p[n, n - ended + 1] += arrival * mass
            else:
                p[n, n - ended] += mass
    return p


@jit
def _binomial(n: int, c: int, p: float) -> float:
    """P(Binomial(n, p) = c) by logarithms: relative error about 1e-13 up to n of 10,000."""
    if p >= 1.0:
        return 1.0 if c == n else 0.0
    if p <= 0.0:
        return 1.0 if c == 0 else 0.0
    choose = math.lgamma(n + 1.0) - math.lgamma(c + 1.0) - math.lgamma(n - c + 1.0)
    return np.exp(choose + c * np.log(p) + (n - c) * np.log1p(-p))
