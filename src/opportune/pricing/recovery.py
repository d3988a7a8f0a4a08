"""Feasible rates from rates that are nearly so.

A solve that is stopped early, or a rounded dual, leaves rates that keep 0 <= y <= phi and the
capacity row exactly but miss the demand. Types served too much are scaled down; what is missing
elsewhere comes from a mixture with a plan that serves every type a little more than asked, by
all its permitted servers alike. The mixture is feasible exactly, and its weight, like what it
costs, is about the missing share over the room that the instance leaves (ours).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import mixing_room
from opportune.kernels.smoothing import CUT
from opportune.pricing.pairs import Columns, PairProblem, all_columns, near_columns, pair_means
from opportune.pricing.search import Search

Float = NDArray[np.float64]

EXACT = 1e-10
"""Servers per server demanded that may be missing before anything is done about it: the
feasibility tolerance of linear programming solvers."""

CLOSE = 1e-8
"""And where nothing can be done."""


def offer_feasible(search: Search, columns: Columns, rate: Float) -> bool:
    """Offer rates near these that are feasible; False if there are none to be had this way.

    Args:
        search: The solve.
        columns: Pairs.
        rate: (m,) y on them, at least 0; at most phi_r = 1 - sum_v lambda_v E[D_v] y_vr.
    """
    problem = search.problem
    demand = problem.market.demand
    served = served_by(problem, columns, rate)
    over = np.minimum(1.0, demand / np.maximum(served, 1e-300))
    missing = np.maximum(demand - served, 0.0)
    if problem.at_most or missing.max() <= EXACT * demand.max():
        if np.max(served - demand) > EXACT * demand.max():
            rate = rate * over[columns.pairs.task_type]
        search.offer_rates(columns, rate)
        return True
    mixed = _mixed(problem, columns, rate * over[columns.pairs.task_type], missing)
    if mixed is None:
        if missing.max() > CLOSE * demand.max():
            return False
        search.offer_rates(columns, rate)
        return True
    search.offer_rates(all_columns(problem), mixed)
    return True


def served_by(problem: PairProblem, columns: Columns, rate: Float) -> Float:
    """(types,) servers per arriving task: sum of copies y."""
    weight = problem.market.copies[columns.server] * rate
    served = np.bincount(columns.pairs.task_type, weights=weight, minlength=problem.n_types)
    return np.asarray(served, dtype=np.float64)


def rounded_rates(
    problem: PairProblem, prices: tuple[Float, Float], tau: float
) -> tuple[Columns, Float]:
    """The rates phi sigma of the rounded dual at temperature tau, on pairs with sigma > 0."""
    market = problem.market
    price, capacity = prices
    columns = near_columns(problem, price, capacity, CUT * tau)
    task_type, server = columns.pairs.task_type, columns.server
    mean = pair_means(columns.pairs)
    cost = mean * capacity[server]
    index = columns.pairs.reward - price[task_type] - cost
    share = 1.0 / (1.0 + np.exp(np.clip(-index / tau, -700.0, 700.0)))
    work = market.arrival_rate[task_type] * mean * share
    free = 1.0 / (1.0 + np.bincount(server, weights=work, minlength=problem.n_servers))
    return columns, free[server] * share


def _mixed(problem: PairProblem, columns: Columns, rate: Float, missing: Float) -> Float | None:
    """(n,) rates on all pairs: (1 - theta) rate + theta plan, which meet the demand.

    The plan serves d + eta missing by all permitted servers alike, theta = 1 / (1 + eta):
    then (1 - theta)(d - missing) + theta (d + eta missing) = d. The larger eta the better;
    y <= phi of the plan bounds it, linearly. None if not even eta = 0 is feasible.
    """
    pairs, market = problem.pairs, problem.market
    permitted = permitted_servers(problem)
    eta = mixing_room(pairs, market.arrival_rate, market.demand / permitted, missing / permitted)
    if eta < 0.0:
        return None
    eta *= 1.0 - 1e-9
    theta = 1.0 / (1.0 + eta)
    mixed = (theta * ((market.demand + eta * missing) / permitted))[pairs.task_type]
    at = slice(None) if columns.place is None else columns.place
    mixed[at] += (1.0 - theta) * rate
    return np.asarray(mixed)


def permitted_servers(problem: PairProblem) -> Float:
    """(types,) how many servers each type may use."""
    pairs = problem.pairs
    weight = np.repeat(problem.market.copies, np.diff(pairs.start))
    count = np.bincount(pairs.task_type, weights=weight, minlength=problem.n_types)
    return np.asarray(count, dtype=np.float64)
