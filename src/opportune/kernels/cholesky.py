"""Cholesky factors, in one thread and in a fixed order: the same bits on every run.

A linear algebra library that runs on several threads adds in another order with another number
of them, and waits for cores that others use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit

Float = NDArray[np.float64]

BLOCK = 32
"""Columns that are eliminated together; a multiple of 4."""


@jit
def factor(a: Float, scale: Float, ridge: float) -> int:
    """Factor a symmetric matrix in place: D A D + ridge I = L L', D = diag(A)^(-1/2).

    Args:
        a: (n, n), its lower triangle; receives L.
        scale: (n,) receives the diagonal of D.
        ridge: Added to the scaled diagonal, which is 1.

    Returns:
        -1, or the first column at which the matrix is not positive definite.
    """
    n = a.shape[0]
    for j in range(n):
        if not a[j, j] > 0.0:
            return j
        scale[j] = 1.0 / np.sqrt(a[j, j])
    for i in range(n):
        for j in range(i):
            a[i, j] *= scale[i] * scale[j]
        a[i, i] = 1.0 + ridge
    panel = np.empty((BLOCK, n))
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        width = last - first
        panel[:, first:] = 0.0
        for i in range(first, n):
            for c in range(min(width, i - first + 1)):
                panel[c, i] = a[i, first + c]
        for j in range(width):
            for c in range(j):
                x = panel[c, first + j]
                for i in range(first + j, n):
                    panel[j, i] -= x * panel[c, i]
            if not panel[j, first + j] > 0.0:
                return first + j
            x = 1.0 / np.sqrt(panel[j, first + j])
            for i in range(first + j, n):
                panel[j, i] *= x
        for i in range(first, n):
            for c in range(min(width, i - first + 1)):
                a[i, first + c] = panel[c, i]
        _eliminate(a, panel, last)
    return -1


@jit
def _eliminate(a: Float, panel: Float, first: int) -> None:
    """Subtract panel' panel from the rows and columns from ``first`` on, two rows at a time."""
    n = a.shape[0]
    for i in range(first, n - 1, 2):
        for c in range(0, BLOCK, 4):
            x0, x1, x2, x3 = panel[c, i], panel[c + 1, i], panel[c + 2, i], panel[c + 3, i]
            y0, y1 = panel[c, i + 1], panel[c + 1, i + 1]
            y2, y3 = panel[c + 2, i + 1], panel[c + 3, i + 1]
            for j in range(first, i + 2):
                z0, z1, z2, z3 = panel[c, j], panel[c + 1, j], panel[c + 2, j], panel[c + 3, j]
                a[i, j] -= x0 * z0 + x1 * z1 + x2 * z2 + x3 * z3
                a[i + 1, j] -= y0 * z0 + y1 * z1 + y2 * z2 + y3 * z3
    if (n - first) % 2 == 1:
        for c in range(BLOCK):
            x0 = panel[c, n - 1]
            for j in range(first, n):
                a[n - 1, j] -= x0 * panel[c, j]


@jit
def solve(a: Float, scale: Float, x: Float) -> None:
    """Solve with the factor: ``x`` holds the right-hand side and receives the solution."""
    n = a.shape[0]
    for i in range(n):
        x[i] *= scale[i]
    for i in range(n):
        total = x[i]
        for j in range(i):
            total -= a[i, j] * x[j]
        x[i] = total / a[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= a[i, i]
        for j in range(i):
            x[j] -= a[i, j] * x[i]
    for i in range(n):
        x[i] *= scale[i]


@jit
def subtract_product(matrix: Float, x: Float, out: Float) -> None:
    """out -= A x for a symmetric matrix given by its lower triangle."""
    for i in range(x.shape[0]):
        total, own = 0.0, x[i]
        for j in range(i):
            total += matrix[i, j] * x[j]
            out[j] -= matrix[i, j] * own
        out[i] -= total + matrix[i, i] * own
