"""Prices by headcount: HC-LP solved, certified on the full chain, turned into an index.

HC-LP (ours): the occupancy LP with every variable conditional on the number of tasks in
service N, whose law no policy can change. It bounds every work-conserving policy and is never
looser than OCC-LP(B) with the same B. Index: I(v,r|n) = s_vr - (A W_r)(n), the reward minus what
a busy server loses; see ``headcount_chain`` for A and ``headcount_certificate`` for W.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.loss import LossInstance
from opportune.pricing.blas import one_thread
from opportune.pricing.headcount_certificate import busy_loss, upper_bound
from opportune.pricing.headcount_chain import (
    HeadcountChain,
    headcount_chain,
    headcount_problem,
    surrogate_mean,
)
from opportune.pricing.headcount_interior import solve_interior
from opportune.pricing.headcount_newton import server_problem
from opportune.pricing.merged import Merged, arriving, merge

Float = NDArray[np.float64]

TOLERANCE = 1e-8
"""Relative gap asked of the interior point."""

MAX_WORK = 3e12
"""Arithmetic operations that a solve may take, estimated: a few minutes on one core."""

ITERATIONS = 30
"""Iterations that the estimate counts with."""


@dataclass(frozen=True, eq=False)
class HeadcountPrices:
    """Prices by headcount with their certificate.

    Attributes:
        instance: What was priced.
        merged: Arriving classes of types, groups of equal servers.
        chain: The full headcount chain.
        prices: (C, P) a[v,n] in reward.
        loss: (G, Q) W_r(n) in reward: what a server loses by being busy rather than free.
        bound: UB(a, W) in reward per step, in closed form.
        value: Primal value that the solver reached, in reward per step.
        gap: (bound - value) / bound.
        surrogate: Whether the durations are not memoryless with one mean, so that all this is
            about the memoryless instance of the same load and ``bound`` proves nothing.
        iterations: Iterations of the solver.
        seconds: Time it took.
    """

    instance: LossInstance
    merged: Merged
    chain: HeadcountChain
    prices: Float
    loss: Float
    bound: float
    value: float
    gap: float
    surrogate: bool
    iterations: int
    seconds: float

    @property
    def index(self) -> Float:
        """(V, R, M) I(v,r|n) = s_vr - (A W_r)(n) at headcounts n = 0, ..., M - 1, in reward."""
        cost = (self.loss @ self.chain.taken.T)[self.merged.group_of]
        return np.asarray(self.instance.match_reward[:, :, None] - cost)


@lru_cache(maxsize=16)
def headcount_prices(
    instance: LossInstance, tolerance: float = TOLERANCE, max_work: float = MAX_WORK
) -> HeadcountPrices:
    """Solve HC-LP and certify it; the last few results are remembered.

    Durations that are not memoryless with one mean are replaced by the memoryless ones with the
    mean of an arriving task, and the result says ``surrogate``.

    Args:
        instance: No forbidden pairs, one k.
        tolerance: Relative gap to reach.
        max_work: Limit of the estimated arithmetic.

    Raises:
        InputError: If the headcount depends on the policy, or the LP is too large.
    """
    problem = headcount_problem(instance, surrogate=True)
    if problem is not None:
        raise InputError(problem)
    with one_thread():
        return _solve(instance, tolerance, max_work)


def _solve(instance: LossInstance, tolerance: float, max_work: float) -> HeadcountPrices:
    start = time.perf_counter()
    merged = arriving(merge(instance))
    chain = headcount_chain(instance)
    unit = float(instance.match_reward.max()) or 1.0
    prices = np.zeros((merged.n_classes, len(chain.taken)))
    value, iterations = 0.0, 0
    near = headcount_chain(instance, keep=min(max(tolerance / 10, 1e-10), 1e-6))
    choice = bool(merged.n_classes) and len(near.taken) > (near.forced is not None)
    if choice:
        work = interior_work(merged, near)
        if work > max_work:
            raise InputError(_too_large(merged, near))
        solution = solve_interior(server_problem(merged, near, unit), tolerance)
        prices = unit * extended(solution.prices, near, chain)
        value, iterations = unit * solution.value, solution.iterations
    loss = busy_loss(merged, chain, prices)
    bound = upper_bound(merged, chain, prices, loss)
    if not choice:
        value = bound
    return HeadcountPrices(
        instance=instance,
        merged=merged,
        chain=chain,
        prices=prices,
        loss=loss,
        bound=bound,
        value=value,
        gap=max(bound - value, 0.0) / bound if bound > 0 else 0.0,
        surrogate=headcount_problem(instance) is not None,
        iterations=iterations,
        seconds=time.perf_counter() - start,
    )


def extended(prices: Float, part: HeadcountChain, full: HeadcountChain) -> Float:
    """Prices on all take levels: levels left out copy the nearest one kept; 0 if forced."""
    place = np.clip(full.take_levels - part.low, 0, prices.shape[1] - 1)
    if part.forced is not None and prices.shape[1] > 1:
        place = np.minimum(place, prices.shape[1] - 2)
    out = prices[:, place].copy()
    if full.forced is not None:
        out[:, full.forced] = 0.0
    return out


def interior_work(merged: Merged, chain: HeadcountChain) -> float:
    """Estimated arithmetic operations of the interior point."""
    levels, pairs = len(chain.busy), merged.n_classes * len(chain.taken)
    server = 24.0 * levels**3 + 2.0 * levels * pairs * (merged.n_classes + 2)
    return ITERATIONS * (merged.n_groups * server + pairs**3 / 3.0)


def _too_large(merged: Merged, chain: HeadcountChain) -> Problem:
    return Problem(
        "instance",
        f"{merged.n_groups} different servers, {merged.n_classes} types and "
        f"{len(chain.law)} headcounts",
        "fewer for prices by headcount",
        "in a pool of this size LAG's static prices lose little",
    )


def surrogate_note(instance: LossInstance) -> str:
    """What a reader should know of prices made with the memoryless surrogate; empty if exact."""
    if headcount_problem(instance) is None:
        return ""
    mean = surrogate_mean(instance)
    return f"surrogate: priced as if durations were memoryless with mean {mean:.6g}"
