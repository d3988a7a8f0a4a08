"""Which optimal assignment rates: the least squares among them, unique whatever the solver.

Lemma B.1 fixes u where the index is not 0: u = lambda phi where L > 0, u = 0 where L < 0.
Among all optimal (u, phi) take the least sum_vr (u_vr / lambda_v)^2: it is unique in u, equal
servers get equal rates, and no solver's whim decides (ours; LAG leaves the choice open). With
servers on duty for a share a_r of the time it is sum_vr (u_vr / lambda_v)^2 / a_r: what a server
does while it is there counts, for as long as it is there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import SolverError
from opportune.model.loss import LossInstance
from opportune.pricing.demand import Demand
from opportune.pricing.least_squares import least_squares_weights
from opportune.pricing.lp import Program, least_squares

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Int = NDArray[np.int64]

SMALL = 2_000
"""Permitted pairs up to which PIQP is asked first; the barrier solves the rest."""

SCARCE = 1e-6
"""Share of time on duty below which a server's rates weigh no more in the least squares."""

CLEAN = 1e-11
"""Weights below it are 0: what an interior point leaves on a server that is not used."""

IDLE = 1e-5
"""Below it, the weight of a pair that need not serve is 0, and the rest is solved again: nothing
pushes such a weight off its bound, so an interior point leaves the root of its tolerance there."""


def least_squares_rates(
    instance: LossInstance, demand: Demand, index: Float, slack: Bool
) -> tuple[Float, Float]:
    """The optimal u of least sum (u / lambda)^2, given the signs of the index.

    Args:
        instance: The instance.
        demand: Demand of the LP.
        index: (V, R) index, exactly 0 for the ties (snapped by the caller), -inf forbidden.
        slack: (V,) types whose demand row need not be tight (price 0 and "at most").

    Returns:
        u (V, R) and phi (R,).

    Raises:
        SolverError: If the signs admit no feasible rates.
    """
    if int(instance.allowed.sum()) <= SMALL:
        try:
            return _by_piqp(instance, demand, index, slack)
        except SolverError:
            pass  # it gives up on some degenerate programs
    weight, free = least_squares_weights(instance, demand, index, slack)
    weight[weight < CLEAN] = 0.0
    weight *= instance.arrival_rate[:, None]
    return weight, free


def _by_piqp(
    instance: LossInstance, demand: Demand, index: Float, slack: Bool
) -> tuple[Float, Float]:
    used = instance.arrival_rate > 0
    positive = (index > 0) & used[:, None]
    tie_type, tie_server = np.nonzero((index == 0) & used[:, None] & instance.allowed)
    n = len(tie_type)
    program = _tie_program(instance, positive, (tie_type, tie_server))
    types = np.flatnonzero(used)
    want = demand.servers_per_arrival(instance)[types]
    program.row_upper[: len(types)] = want
    program.row_lower[: len(types)] = np.where(slack[types], 0.0, want)
    weight = 1.0 / np.maximum(instance.on_duty, SCARCE)
    curvature = np.concatenate([weight[tie_server], positive.sum(axis=0) * weight])
    x = least_squares(program, curvature, "the least-squares choice of rates")
    idle = slack[tie_type] & (x[:n] < IDLE)
    if idle.any():
        program.upper[:n][idle] = 0.0
        x = least_squares(program, curvature, "the least-squares choice of rates")
    x = np.where(x < CLEAN, 0.0, x)
    free = x[n:]
    weight = np.where(positive, free, 0.0)
    weight[tie_type, tie_server] = x[:n]
    return instance.arrival_rate[:, None] * weight, free


def _tie_program(instance: LossInstance, positive: Bool, ties: tuple[Int, Int]) -> Program:
    """Columns: u / lambda of the tied pairs, then phi. Rows: demand, capacity, availability.

    Pairs with a positive index take phi itself. The demand rows' bounds are left to the caller.
    """
    tie_type, tie_server = ties
    types = np.flatnonzero(instance.arrival_rate > 0)
    n, n_types, n_servers = len(tie_type), len(types), instance.n_servers
    row_of = np.full(instance.n_types, -1)
    row_of[types] = np.arange(n_types)
    work, on_duty = instance.arrival_rate[:, None] * instance.pair_mean, instance.on_duty
    fixed_type, fixed_server = np.nonzero(positive)
    pair, server = np.arange(n), np.arange(n_servers)
    capacity_row, pair_row = n_types + server, n_types + n_servers + pair
    one = np.ones(n)
    entries = (
        (row_of[tie_type], pair, one),
        (row_of[fixed_type], n + fixed_server, np.ones(len(fixed_type))),
        (n_types + tie_server, pair, np.broadcast_to(work, positive.shape)[ties]),
        (capacity_row, n + server, 1.0 + (work * positive).sum(axis=0)),
        (pair_row, pair, one),
        (pair_row, n + tie_server, -one),
    )
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    demand = np.zeros(n_types)
    return Program(
        cost=np.zeros(n + n_servers),
        lower=np.zeros(n + n_servers),
        upper=np.ones(n + n_servers),
        row_lower=np.concatenate([demand, on_duty, np.full(n, -np.inf)]),
        row_upper=np.concatenate([demand, on_duty, np.zeros(n)]),
        row=row,
        column=column,
        value=value,
    )
