"""A certified bound for large pools: HC-LP's dual with few free prices, by smoothing Newton.

Prices a[v,n] are linear in n between a few knots. The dual is smoothed, x+ by
(x + sqrt(x^2 + 4 t^2)) / 2 (larger by at most t), and minimized by a damped Newton method in the
knot prices for falling t; servers are solved one by one (their fixed point W by Newton), so
memory and work grow linearly with the servers. Any prices have a valid certificate, computed on
the full chain: the bound is proven whatever the knots, it is only a little looser. (Ours.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from opportune.errors import InputError, Problem
from opportune.model.loss import LossInstance
from opportune.pricing.blas import one_thread
from opportune.pricing.headcount import extended
from opportune.pricing.headcount_certificate import busy_loss, upper_bound
from opportune.pricing.headcount_chain import HeadcountChain, headcount_chain, headcount_problem
from opportune.pricing.headcount_newton import ServerProblem, server_problem
from opportune.pricing.merged import Merged, arriving, merge

Float = NDArray[np.float64]

KNOTS = 8
"""Headcounts with a price of their own."""

SMOOTH = (0.1, 0.02, 4e-3, 1e-3)
"""Widths t in units of the largest reward, one after another."""

STEPS = 8
"""Newton steps for each width."""

KEEP = 1e-7
"""Headcounts rarer than this share of the commonest are left out of the search."""

CHUNK = 2**22
"""Entries of the largest array made at once."""

MAX_WORK = 2e13
"""Arithmetic operations that a search may take, estimated."""


@dataclass(frozen=True, eq=False)
class KnotBound:
    """A proven bound from prices on a few knots.

    Attributes:
        bound: UB(a, W) on the full chain in reward per step.
        last_gain: Relative gain of the last round of smoothing: how far from done, roughly.
        prices: (C, P) a[v,n] at the take levels of the full chain.
        knots: Number of knots.
        seconds: Time it took.
    """

    bound: float
    last_gain: float
    prices: Float
    knots: int
    seconds: float


@dataclass(frozen=True, eq=False)
class _Search:
    """The smoothed dual in the knot prices (C, K), rewards divided by the largest."""

    merged: Merged
    problem: ServerProblem
    hats: Float  # (K, P), 0 at a forced level
    loss: Float  # (G, Q) warm start of W, updated in place


def knot_bound(instance: LossInstance, knots: int = KNOTS) -> KnotBound:
    """Minimize the dual of HC-LP over prices on a few knots, and certify the result.

    Raises:
        InputError: If the headcount is no chain that all policies share, nothing arrives, or
            the pool is too large even for this.
    """
    problem = headcount_problem(instance)
    merged = arriving(merge(instance))
    if problem is None and not merged.n_classes:
        problem = Problem("arrival_rate", "all zero", "a positive rate")
    if problem is not None:
        raise InputError(problem)
    near = headcount_chain(instance, keep=KEEP)
    work = merged.n_groups * len(SMOOTH) * STEPS * 8.0 * len(near.busy) ** 3
    if work > MAX_WORK:
        raise InputError(Problem("servers", f"{merged.n_groups} different servers", "fewer"))
    with one_thread():
        return _minimize(instance, merged, near, knots)


def _minimize(
    instance: LossInstance, merged: Merged, near: HeadcountChain, knots: int
) -> KnotBound:
    start = time.perf_counter()
    unit = float(instance.match_reward.max()) or 1.0
    hats = _hats(near, knots)
    search = _Search(
        merged,
        server_problem(merged, near, unit),
        hats,
        np.zeros((merged.n_groups, len(near.busy))),
    )
    mean = merged.reward @ merged.copies / (merged.copies.sum() * unit)
    price = np.repeat(mean[:, None], len(hats), axis=1)
    values = []
    for smooth in SMOOTH:
        price, value = _descend(search, price, smooth)
        values.append(value)
    full = headcount_chain(instance)
    prices = unit * extended(price @ hats, near, full)
    loss = busy_loss(merged, full, prices)
    bound = upper_bound(merged, full, prices, loss)
    return KnotBound(
        bound=bound,
        last_gain=abs(values[-2] - values[-1]) / max(abs(values[-1]), 1e-300),
        prices=prices,
        knots=len(hats),
        seconds=time.perf_counter() - start,
    )


def _hats(chain: HeadcountChain, knots: int) -> Float:
    """(K, P) piecewise linear bases at quantiles of the headcount; 0 at a forced level."""
    n = np.arange(len(chain.taken))
    mass = np.cumsum(chain.take_law) / chain.take_law.sum()
    at = np.searchsorted(mass, np.linspace(0.002, 0.998, knots))
    place = np.unique(np.clip(at, 0, len(n) - 1 - (chain.forced is not None)))
    hats = np.array([np.interp(n, place, row) for row in np.eye(len(place))])
    if chain.forced is not None:
        hats[:, chain.forced] = 0.0
    return hats


def _descend(search: _Search, price: Float, smooth: float) -> tuple[Float, float]:
    """Damped Newton (Levenberg, gain ratio) at one width; prices and smoothed value."""
    damping = 1e-6
    value, slope, curve = _evaluate(search, price, smooth, derivatives=True)
    for _ in range(STEPS):
        scale = np.sqrt(np.maximum(np.diag(curve), 1e-300))
        scaled = curve / scale / scale[:, None]
        while True:
            factor = cho_factor(scaled + damping * np.eye(len(scale)), check_finite=False)
            step = -cho_solve(factor, slope / scale, check_finite=False) / scale
            expected = -(slope @ step + step @ curve @ step / 2)
            trial = price + step.reshape(price.shape)
            reached, _, _ = _evaluate(search, trial, smooth, derivatives=False)
            moved = value - reached >= 1e-3 * expected or expected <= 1e-14 * abs(value)
            damping = max(damping / 10, 1e-12) if moved else damping * 10
            if moved or damping > 1e6:
                break
        if not moved:
            break
        gained, price = value - reached, trial
        value, slope, curve = _evaluate(search, price, smooth, derivatives=True)
        if gained <= 1e-7 * abs(value):
            break
    return price, value


def _evaluate(
    search: _Search, price: Float, smooth: float, derivatives: bool
) -> tuple[float, Float, Float]:
    """Smoothed dual value at knot prices, its gradient (C K,) and Hessian (C K, C K)."""
    problem, merged = search.problem, search.merged
    law, rate = problem.chain.take_law, merged.rate
    prices = price @ search.hats
    value = problem.chain.k * float(rate @ prices @ law)
    n = price.size if derivatives else 0
    slope, curve = np.zeros(n), np.zeros((n, n))
    if derivatives:
        slope += (problem.chain.k * rate[:, None] * (search.hats @ law)).ravel()
    for part in _chunks(search):
        advantage, loss = _fixed_point(search, prices, smooth, part)
        search.loss[part] = loss
        copies = problem.copies[part]
        positive = _smooth_positive(problem, advantage, smooth)
        value += float(copies @ np.einsum("c,gcp,p->g", rate, positive, law))
        if derivatives:
            own_slope, own_curve = _derivatives(search, advantage, smooth, copies)
            slope -= own_slope
            curve += own_curve
    return value, slope, curve


def _smooth_positive(problem: ServerProblem, advantage: Float, smooth: float) -> Float:
    positive = (advantage + np.sqrt(advantage**2 + 4 * smooth**2)) / 2
    return np.where(problem.open, positive, advantage)


def _chance(problem: ServerProblem, advantage: Float, smooth: float) -> Float:
    """Derivative of the smoothed maximum: the probability of taking."""
    chance = (1 + advantage / np.sqrt(advantage**2 + 4 * smooth**2)) / 2
    return np.where(problem.open, chance, 1.0)


def _system(problem: ServerProblem, chance: Float) -> Float:
    """(g, Q, Q) I - C + diag(P) A of some servers."""
    chain = problem.chain
    both, own = chain.overlap
    system = np.tile(np.eye(len(chain.busy)) - chain.busy, (len(chance), 1, 1))
    take = (problem.rate * chance).sum(axis=1)
    system[:, own] += take[:, both, None] * chain.taken[both]
    return system


def _fixed_point(search: _Search, prices: Float, smooth: float, part: slice) -> tuple[Float, Float]:
    """Advantage (g, C, P) and W (g, Q) of some servers, by Newton from the last W."""
    problem = search.problem
    worth = problem.reward[part] - prices
    loss = search.loss[part]
    for _ in range(30):
        advantage = worth - (loss @ problem.chain.taken.T)[:, None, :]
        earned = (problem.rate * _smooth_positive(problem, advantage, smooth)).sum(axis=1)
        left = loss - loss @ problem.chain.busy.T - problem.to_busy(earned)
        if np.abs(left).max() <= 1e-10 * (1.0 + np.abs(loss).max()):
            return advantage, loss
        system = _system(problem, _chance(problem, advantage, smooth))
        loss = loss - np.linalg.solve(system, left[:, :, None])[:, :, 0]
    return worth - (loss @ problem.chain.taken.T)[:, None, :], loss


def _derivatives(
    search: _Search, advantage: Float, smooth: float, copies: Float
) -> tuple[Float, Float]:
    """What some servers take, by knot price, and the Hessian.

    With B = A K^-1: d adv_vn = -da_vn + (B sum_w lambda_w p_w da_w)(n), and the Hessian is
    J' diag(pi lambda (1 - x) c'') J.
    """
    problem, hats = search.problem, search.hats
    chain, rate = problem.chain, search.merged.rate
    both, own = chain.overlap
    chance = _chance(problem, advantage, smooth)
    bend = 2 * smooth**2 / (advantage**2 + 4 * smooth**2) ** 1.5
    bend = np.where(problem.open, bend, 0.0)
    inverse = np.linalg.inv(_system(problem, chance))
    reach = chain.taken @ inverse  # B
    take = (problem.rate * chance).sum(axis=1)
    busy = ((chain.take_law * take)[:, None, :] @ reach)[:, 0] / chain.busy_law
    free = 1.0 - problem.to_take(busy)
    taken = np.einsum("g,c,gcp,gp,p,kp->ck", copies, rate, chance, free, chain.take_law, hats)
    weight = copies[:, None, None] * rate[:, None] * bend * (chain.take_law * free)[:, None, :]
    moved = (rate[:, None] * chance)[:, :, None, both] * hats[:, both]  # (g, C, K, own levels)
    g, n_types, n_knots, _ = moved.shape
    columns = moved.reshape(g, n_types * n_knots, -1).transpose(0, 2, 1)
    spread = reach[:, :, own] @ columns  # (g, P, C K)
    every = weight.sum(axis=1)
    flat = (spread * every[:, :, None]).transpose(0, 2, 1)
    curve = (flat @ spread).sum(axis=0)
    cross = np.zeros((n_types, n_knots, n_types * n_knots))
    for v in range(n_types):
        own_weight = weight[:, v, :, None] * spread
        cross[v] = hats @ own_weight.sum(axis=0)
        block = slice(v * n_knots, (v + 1) * n_knots)
        curve[block, block] += (hats * weight[:, v].sum(axis=0)) @ hats.T
    cross = cross.reshape(n_types * n_knots, -1)
    return np.asarray(taken).ravel(), curve - cross - cross.T


def _chunks(search: _Search) -> Iterator[slice]:
    levels, n = len(search.problem.chain.busy), search.merged.n_groups
    each = levels * (levels + search.merged.n_classes * len(search.hats))
    step = max(1, CHUNK // each)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))
