"""The least-squares choice of rates by the barrier: for many ties, and where PIQP fails.

Minimize sum_vr a_r y_vr^2 over the optimal rates: pairs with a positive index have y = phi, tied
pairs 0 <= y <= phi, all others are 0 (``pricing.ties``). It is the barrier's program with no
rewards and kappa_v = 1 / lambda_v, so it too costs V equations a step, however many pairs are
tied; on four levels of rewards half of all pairs can be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import SolverError
from opportune.kernels.arms import Market, Pairs
from opportune.model.loss import LossInstance
from opportune.pricing.demand import Demand
from opportune.pricing.interior import Center, Shape, System, iterate
from opportune.pricing.pairs import PairProblem

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

START = 1e-2
"""Mean product to start from; weights are of the order of 1."""

EXACT = 1e-10
"""Largest miss of a demand and relative gap of a solution."""

IDLE = 1e-5
"""Below it, the weight of a tied pair whose type need not be served is 0 (see ``ties``)."""

DOING = "the least-squares choice of rates"


def least_squares_weights(
    instance: LossInstance, demand: Demand, index: Float, slack: Bool
) -> tuple[Float, Float]:
    """u / lambda (V, R) and phi (R,) of least sum y^2 / a_r, given the signs of the index.

    Args:
        instance: The instance.
        demand: Demand of the LP.
        index: (V, R) index, exactly 0 for the ties, -inf forbidden.
        slack: (V,) types whose demand need not be met.

    Raises:
        SolverError: If the signs admit no feasible rates.
    """
    used = np.flatnonzero(instance.arrival_rate > 0)
    level = index if len(used) == instance.n_types else index[used]
    server, task_type = np.nonzero(((level >= 0) & (instance.on_duty > 0)).T)
    fixed = level[task_type, server] > 0
    loose = slack[used]
    rate = instance.arrival_rate[used]
    market = Market(
        rate,
        demand.servers_per_arrival(instance)[used],
        instance.on_duty,
    )
    keep = np.ones(len(server), dtype=np.bool_)
    mean = _means(instance, used, (server, task_type))
    y = squares_on_pairs(market, (server, task_type, mean), fixed, loose)
    idle = ~fixed & loose[task_type] & (y < IDLE)
    if idle.any():
        keep = ~idle
        y[idle] = 0.0
        left = mean if mean.ndim == 1 else mean[keep]
        kept = (server[keep], task_type[keep], left)
        y[keep] = squares_on_pairs(market, kept, fixed[keep], loose)
    work = rate[task_type] * (mean[task_type] if mean.ndim == 1 else mean[:, 0]) * y
    busy = np.bincount(server, weights=work, minlength=instance.n_servers)
    free = np.asarray(1.0 - busy, dtype=np.float64)
    y[fixed] = free[server[fixed]]
    weight = np.zeros_like(instance.match_reward)
    weight[used[task_type], server] = y * instance.on_duty[server]
    return weight, free * instance.on_duty


def _means(
    instance: LossInstance, used: NDArray[np.int64], pairs: tuple[NDArray[np.int64], ...]
) -> Float:
    """E[D] by used type (V,), or by pair (n, 1) where it depends on the server."""
    if instance.server_duration is None:
        return instance.mean_duration[used]
    server, task_type = pairs
    return np.ascontiguousarray(instance.server_duration.mean[used[task_type], server][:, None])


def squares_on_pairs(
    market: Market,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Float],
    fixed: Bool,
    loose: Bool,
) -> Float:
    """(n,) y of pairs given by server (ascending), type and E[D].

    Args:
        market: Rates, demand and servers.
        pairs: Server, type, and E[D] by type (V,) or by pair (n, 1).
        fixed: (n,) pairs with y = phi; all others are tied.
        loose: (V,) types whose demand need not be met.

    Raises:
        SolverError: If there are no such rates.
    """
    server, task_type, mean = pairs
    n_types, n_servers = len(market.demand), len(market.copies)
    start = np.searchsorted(server, np.arange(n_servers + 1))
    problem = PairProblem(
        pairs=Pairs(start, task_type.astype(np.uint32), np.zeros(len(server)), mean),
        market=market,
        at_most=False,
        unit=1.0,
        class_of=np.arange(n_types),
        group_of=np.arange(n_servers),
    )
    curvature = market.arrival_rate.max() / market.arrival_rate
    system = System(problem, Shape(curvature, fixed, loose))
    found: Center = iterate(system, (np.zeros(n_types), np.zeros(n_servers)), START)
    if not (found.gap <= EXACT and found.missed <= EXACT):
        raise SolverError("stalled", DOING)
    return found.rate
