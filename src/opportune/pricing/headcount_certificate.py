"""A proven upper bound on every work-conserving policy, in closed form from prices by headcount.

HC-LP (ours, ``docs/explanation/headcount.md``) is the occupancy LP with every variable
conditional on the headcount n. Its dual decomposes by server. With prices a[v,n] of serving a
task of type v at headcount n, and W_r(n) what server r loses by being busy rather than free,

    adv(v,r,n) = s_vr - a[v,n] - (A W_r)(n)
    F_r(W)(n)  = [n < M] sum_v lambda_v adv(v,r,n)+ + (C W)(n)
    UB(a,W)    = k sum_n pi_n sum_v lambda_v a[v,n]
                 + sum_r { sum_n pi_n sum_v lambda_v adv(v,r,n)+ + sum_n pi_n (W_r - F_r(W_r))(n)+ }

UB is the objective of a feasible point of the dual, so it bounds HC-LP and with it every policy
for *all* a and W: no tolerance of a solver enters. It is smallest at the fixed point W = F(W).
Where R = M k every free server is taken at n = M - 1: there adv stands instead of adv+.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from opportune.errors import SolverError
from opportune.pricing.headcount_chain import HeadcountChain
from opportune.pricing.merged import Merged

Float = NDArray[np.float64]

ROUNDING = 1e-12
"""Relative allowance for rounding that is added to every bound."""

CHUNK = 2**23
"""Entries of the largest array made at once."""

MAX_ROUNDS = 60
"""Policy iterations per server; three to six are needed."""


def upper_bound(merged: Merged, chain: HeadcountChain, prices: Float, loss: Float) -> float:
    """UB(a, W) in reward per step.

    Args:
        merged: Arriving classes C and groups of servers G.
        chain: The full chain (all levels kept).
        prices: (C, P) a[v,n] at the take levels, any numbers.
        loss: (G, Q) W_r(n) at the busy levels, any numbers.
    """
    law, k = chain.take_law, chain.k
    total = k * float(merged.rate @ prices @ law)
    size = abs(total)
    for part in _chunks(merged, chain):
        gained = _gain(merged, chain, prices, loss[part], part)
        short = loss[part] - loss[part] @ chain.busy.T
        short[:, chain.overlap[1]] -= gained[:, chain.overlap[0]]
        earned = gained @ law + np.maximum(short, 0.0) @ chain.busy_law
        total += float(merged.copies[part] @ earned)
        size += float(merged.copies[part] @ np.abs(earned))
    return total + ROUNDING * size


def busy_loss(
    merged: Merged, chain: HeadcountChain, prices: Float, start: Float | None = None
) -> Float:
    """(G, Q) the fixed points W_r = F_r(W_r), by policy iteration.

    F_r is convex and piecewise linear, so Newton's method on it is policy iteration.

    Args:
        merged: Arriving classes and groups of servers.
        chain: The chain.
        prices: (C, P) a[v,n].
        start: (G, Q) where to begin, default 0.

    Raises:
        SolverError: If it does not end.
    """
    n_groups, n_busy = merged.n_groups, len(chain.busy)
    loss = np.zeros((n_groups, n_busy)) if start is None else start.copy()
    for part in _chunks(merged, chain):
        loss[part] = _iterate(merged, chain, prices, loss[part], part)
    return loss


def _iterate(
    merged: Merged, chain: HeadcountChain, prices: Float, loss: Float, part: slice
) -> Float:
    worth = merged.reward[:, part].T[:, :, None] - prices  # (G, C, P)
    both, own = chain.overlap
    eye = np.eye(len(chain.busy)) - chain.busy
    best = np.full(len(loss), np.inf)
    for _ in range(MAX_ROUNDS):
        take = worth - (loss @ chain.taken.T)[:, None, :] > 0
        if chain.forced is not None:
            take[:, :, chain.forced] = True
        rate = np.einsum("c,gcp->gp", merged.rate, take)
        system = np.broadcast_to(eye, (len(loss), *eye.shape)).copy()
        system[:, own] += rate[:, both, None] * chain.taken[both]
        right = np.zeros_like(loss)
        right[:, own] = np.einsum("c,gcp->gp", merged.rate, np.where(take, worth, 0.0))[:, both]
        solved = np.asarray(np.linalg.solve(system, right[:, :, None])[:, :, 0], dtype=np.float64)
        change = np.abs(solved - loss).max(axis=1)
        loss = solved
        scale = 1e-13 * (np.abs(loss).max(axis=1) + 1e-300)
        if np.all((change <= scale) | ((change >= best) & (change <= 1e3 * scale))):
            return loss
        best = np.minimum(best, change)
    if np.all(best <= 1e-9 * (np.abs(loss).max(axis=1) + 1e-300)):
        return loss
    raise SolverError("no fixed point", "a server's value at given prices")


def _gain(merged: Merged, chain: HeadcountChain, prices: Float, loss: Float, part: slice) -> Float:
    """(G, P) sum_v lambda_v adv+ of some groups; adv itself at a forced level."""
    worth = merged.reward[:, part].T[:, :, None] - prices - (loss @ chain.taken.T)[:, None, :]
    gained = np.einsum("c,gcp->gp", merged.rate, np.maximum(worth, 0.0))
    if chain.forced is not None:
        gained[:, chain.forced] = worth[:, :, chain.forced] @ merged.rate
    return np.asarray(gained)


def _chunks(merged: Merged, chain: HeadcountChain) -> Iterator[slice]:
    """Groups of servers, a few at a time, so that no array grows beyond ``CHUNK``."""
    each = len(chain.busy) ** 2 + merged.n_classes * len(chain.taken)
    step = max(1, CHUNK // each)
    for first in range(0, merged.n_groups, step):
        yield slice(first, min(first + step, merged.n_groups))
