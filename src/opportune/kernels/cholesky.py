"""Cholesky factors, in one thread and in a fixed order: the same bits on every run.

A linear algebra library that runs on several threads adds in another order with another number
of them, and waits for cores that others use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit

Float = NDArray[np.float64]

Order = NDArray[np.int64]

BLOCK = 32
"""Columns that are eliminated together; a multiple of 4."""

DENSE = 0.8
"""Share of the rest that the least degree must reach for the rest to count as dense."""


@jit
def factor(a: Float, scale: Float, ridge: float) -> int:
    """Factor a symmetric matrix in place: D A D + ridge I = L L', D = diag(A)^(-1/2).

    Rows that a block of columns leaves alone are skipped, which pays after
    :func:`elimination_order`.

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
    rows = np.empty(n, dtype=np.int64)
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
                if x != 0.0:
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
        count = 0
        for i in range(last, n):
            for c in range(BLOCK):
                if panel[c, i] != 0.0:
                    rows[count] = i
                    count += 1
                    break
        _eliminate(a, panel, last, rows[:count])
    return -1


@jit
def _eliminate(a: Float, panel: Float, first: int, rows: NDArray[np.int64]) -> None:
    """Subtract panel' panel from these rows, columns from ``first`` on, two rows at a time."""
    for place in range(0, rows.shape[0] - 1, 2):
        i, k = rows[place], rows[place + 1]
        for c in range(0, BLOCK, 4):
            x0, x1, x2, x3 = panel[c, i], panel[c + 1, i], panel[c + 2, i], panel[c + 3, i]
            y0, y1, y2, y3 = panel[c, k], panel[c + 1, k], panel[c + 2, k], panel[c + 3, k]
            for j in range(first, i + 1):
                z0, z1, z2, z3 = panel[c, j], panel[c + 1, j], panel[c + 2, j], panel[c + 3, j]
                a[i, j] -= x0 * z0 + x1 * z1 + x2 * z2 + x3 * z3
                a[k, j] -= y0 * z0 + y1 * z1 + y2 * z2 + y3 * z3
            for j in range(i + 1, k + 1):
                z0, z1, z2, z3 = panel[c, j], panel[c + 1, j], panel[c + 2, j], panel[c + 3, j]
                a[k, j] -= y0 * z0 + y1 * z1 + y2 * z2 + y3 * z3
    if rows.shape[0] % 2 == 1:
        i = rows[rows.shape[0] - 1]
        for c in range(BLOCK):
            x0 = panel[c, i]
            for j in range(first, i + 1):
                a[i, j] -= x0 * panel[c, j]


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


@jit
def elimination_order(start: NDArray[np.int64], member: NDArray[np.uint32], n: int) -> Order:
    """An order of n unknowns in which factoring fills in little: least degree first.

    Two unknowns are joined where a list holds both. Once nearly all that are left are joined
    the rest comes as it is.

    Args:
        start: (m + 1,) first entry of each list.
        member: Unknowns, list by list.
        n: Number of unknowns.

    Returns:
        (n,) the unknowns in order.
    """
    work = 0
    for r in range(start.shape[0] - 1):
        work += (start[r + 1] - start[r]) ** 2
    order = np.arange(n)
    if work > n * n:
        return order
    words = (n + 63) // 64
    joined = np.zeros((n, words), dtype=np.uint64)
    for r in range(start.shape[0] - 1):
        for p in range(start[r], start[r + 1]):
            for other in range(start[r], start[r + 1]):
                _join(joined, member[p], member[other])
    degree = np.zeros(n, dtype=np.int64)
    for v in range(n):
        degree[v] = _count(joined, v)
    gone = np.zeros(n, dtype=np.bool_)
    done = 0
    while done < n:
        best = -1
        for v in range(n):
            if not gone[v] and (best < 0 or degree[v] < degree[best]):
                best = v
        if degree[best] >= DENSE * (n - done):
            break
        gone[best] = True
        order[done] = best
        done += 1
        for v in range(n):
            if not gone[v] and _are_joined(joined, best, v):
                for w in range(words):
                    joined[v, w] |= joined[best, w]
                joined[v, best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
                degree[v] = _count(joined, v)
    for v in range(n):
        if not gone[v]:
            order[done] = v
            done += 1
    return order


@jit
def _join(joined: NDArray[np.uint64], v: int, other: int) -> None:
    joined[v, other >> 6] |= np.uint64(1) << np.uint64(other & 63)


@jit
def _are_joined(joined: NDArray[np.uint64], v: int, other: int) -> bool:
    return (joined[v, other >> 6] >> np.uint64(other & 63)) & np.uint64(1) == np.uint64(1)


@jit
def _count(joined: NDArray[np.uint64], v: int) -> int:
    """Bits set in row v."""
    total = 0
    for w in range(joined.shape[1]):
        x = joined[v, w]
        while x != np.uint64(0):
            x &= x - np.uint64(1)
            total += 1
    return total
