"""The dual with its corners rounded off, and Newton's step on it without a matrix.

max(x, 0) becomes tau log(1 + exp(x / tau)): per server, q_r is the root of
q = sum_v lambda_v tau log(1 + exp(L / tau)), L = s - l - E[D] q, and a pair is used for the
share sigma = 1 / (1 + exp(-L / tau)) of the time in which the server is free,
phi_r = 1 / (1 + sum_v lambda_v E[D_v] sigma_vr). The rounded dual is convex and smooth, lies
above the dual, and tends to it as tau falls (ours; the primal counterpart adds the entropy of
sigma, weighted by phi). Its Hessian is a sum over servers,

    phi / tau  M' diag(lambda w) M,   w = sigma (1 - sigma),   M = I - phi E[D] (lambda sigma)',

and is never formed: the step comes from conjugate gradients over the pairs with sigma > 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import Market, Pairs, mean_of
from opportune.kernels.jit import inline_by_type, jit

Float = NDArray[np.float64]

CUT = 30.0
"""Pairs with |L| above CUT tau count as fully used or not at all: exp(-30) is 1e-13."""


class Active(NamedTuple):
    """Pairs with sigma > 0, as the last look at the dual left them; room for all pairs."""

    start: NDArray[np.int64]  # (R + 1,)
    task_type: NDArray[np.uint32]  # (n,)
    share: NDArray[np.float32]  # (n,) sigma
    spread: NDArray[np.float32]  # (n,) w
    free: Float  # (R,) phi
    mean: Float  # E[D]: (V,) by type, or room for (n, 1) by pair


def _keep_by_shape(kept: Any, i: Any, mean: Any, p: Any) -> Callable[..., None]:
    """By the number of axes of the type of ``mean``."""
    if mean.ndim == 1:
        return lambda kept, i, mean, p: None

    def keep(kept: Any, i: Any, mean: Any, p: Any) -> None:
        kept[i, 0] = mean[p, 0]

    keep.__annotations__ = {}  # as in inline_by_type
    return keep


@inline_by_type(_keep_by_shape)
def keep_mean(kept: Float, i: int, mean: Float, p: int) -> None:
    """Where each pair has a mean of its own, the one of pair p in place i."""
    if mean.ndim == 2:
        kept[i, 0] = mean[p, 0]


@jit
def smooth_arms(
    pairs: Pairs, market: Market, point: tuple[Float, Float, float], active: Active, slope: Float
) -> float:
    """sum_r q_r of the rounded dual at ``point`` = (l, guess of q, tau).

    The guess receives q, ``active`` the pairs in use; ``slope`` (2, V) receives
    sum_r phi sigma and sum_r phi w / tau.
    """
    start, task_type, reward, mean = pairs
    rate, _, copies = market
    price, capacity, tau = point
    cut, steep = CUT * tau, 1.0 / tau
    slope[:] = 0.0
    total, n = 0.0, 0
    longest = 0.0
    for p in range(mean.shape[0]):
        longest = max(longest, mean_of(mean, p, p))
    fine = 1e-3 * tau / longest
    for r in range(copies.shape[0]):
        q = capacity[r]
        for _ in range(50):
            gain, busy = 0.0, 1.0
            for p in range(start[r], start[r + 1]):
                v = task_type[p]
                x = reward[p] - price[v] - mean_of(mean, v, p) * q
                if x > cut:
                    gain += rate[v] * x
                    busy += rate[v] * mean_of(mean, v, p)
                elif x > -cut:
                    e = np.exp(-abs(x) * steep)
                    gain += rate[v] * (tau * np.log1p(e) + max(x, 0.0))
                    busy += rate[v] * mean_of(mean, v, p) * ((1.0 if x > 0.0 else e) / (1.0 + e))
            move = (gain - q) / busy
            q += move
            if abs(move) <= fine:
                break
        q = max(q, 0.0)
        capacity[r] = q
        active.start[r] = n
        gain, busy = 0.0, 1.0
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            x = reward[p] - price[v] - mean_of(mean, v, p) * q
            if x > -cut:
                share, spread, value = 1.0, 0.0, x
                if x <= cut:
                    e = np.exp(-abs(x) * steep)
                    share = (1.0 if x > 0.0 else e) / (1.0 + e)
                    spread = share * (1.0 - share)
                    value = tau * np.log1p(e) + max(x, 0.0)
                gain += rate[v] * value
                busy += rate[v] * mean_of(mean, v, p) * share
                active.task_type[n] = v
                active.share[n] = share
                active.spread[n] = spread
                keep_mean(active.mean, n, mean, p)
                n += 1
        free = 1.0 / busy
        active.free[r] = free
        total += copies[r] * (q + (gain - q) * free)
        for i in range(active.start[r], n):
            v = active.task_type[i]
            slope[0, v] += copies[r] * free * active.share[i]
            slope[1, v] += copies[r] * free * steep * active.spread[i]
    active.start[copies.shape[0]] = n
    return total


@jit
def _curve(active: Active, market: Market, tau: float, x: Float, out: Float) -> None:
    """out = H x, H the Hessian of the arms."""
    start, task_type, share, spread, free, mean = active
    rate, _, copies = market
    out[:] = 0.0
    for r in range(copies.shape[0]):
        used = 0.0
        for i in range(start[r], start[r + 1]):
            v = task_type[i]
            used += rate[v] * share[i] * x[v]
        used *= free[r]
        weight, back = copies[r] * free[r] / tau, 0.0
        for i in range(start[r], start[r + 1]):
            v = task_type[i]
            ED = mean_of(mean, v, i)
            change = rate[v] * spread[i] * (x[v] - ED * used)
            back += ED * change
            out[v] += weight * change
        back *= weight * free[r]
        for i in range(start[r], start[r + 1]):
            v = task_type[i]
            out[v] -= back * rate[v] * share[i]


@jit
def newton_step(
    active: Active,
    market: Market,
    tau: float,
    slopes: tuple[Float, Float, Float],
    step: Float,
    most: int,
) -> int:
    """Solve (H + diag(extra)) step = -gradient by conjugate gradients; returns the rounds.

    Args:
        active: Pairs in use where the dual was last looked at.
        market: The instance.
        tau: Temperature.
        slopes: The gradient (V,); the diagonal that is added (V,); that of H (V,), which
            with it scales the residual.
        step: (V,) receives the step.
        most: Largest number of rounds; it also ends when the residual is a tenth.
    """
    gradient, extra, diagonal = slopes
    n = step.shape[0]
    residual, direction, scaled = np.empty(n), np.empty(n), np.empty(n)
    image = np.empty(n)
    size = 0.0
    for v in range(n):
        step[v] = 0.0
        residual[v] = -gradient[v]
        direction[v] = residual[v] / (diagonal[v] + extra[v])
        size += residual[v] * direction[v]
    first = size
    for rounds in range(most):
        if not size > 1e-2 * first:
            return rounds
        _curve(active, market, tau, direction, image)
        bend = 0.0
        for v in range(n):
            image[v] += extra[v] * direction[v]
            bend += direction[v] * image[v]
        length, before = size / bend, size
        size = 0.0
        for v in range(n):
            step[v] += length * direction[v]
            residual[v] -= length * image[v]
            scaled[v] = residual[v] / (diagonal[v] + extra[v])
            size += residual[v] * scaled[v]
        for v in range(n):
            direction[v] = scaled[v] + size / before * direction[v]
    return most
