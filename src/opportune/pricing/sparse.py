"""Prices, certificate and plan of an instance given as lists of pairs: no matrix anywhere.

The same program, gears, choice of rates and certificate as ``pricing.occupancy``; only what is
kept is different: an index, a rate and a tie weight for every permitted pair, and per task type
its permitted servers in the order of LAG.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import OverloadError, Problem, SolverError
from opportune.kernels.arms import Market, Pairs
from opportune.model.axes import Quantity
from opportune.model.sparse import SparseInstance
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.gears import AUTO, INFEASIBLE, run
from opportune.pricing.least_squares import squares_on_pairs
from opportune.pricing.pairs import PairProblem, expand, merge_equal
from opportune.pricing.recovery import served_by
from opportune.pricing.search import Search, Stop, relative_gap

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SNAP = 1e-9
"""|L| up to this share of the largest reward counts as 0."""

CLEAN = 1e-11
"""Weights below it are 0."""

SOLVED = 1e-7
"""Up to this gap the signs of the index are known."""


@dataclass(frozen=True, eq=False)
class SparsePrices:
    """An optimal primal and dual pair by pair, with its certificate.

    Attributes:
        instance: What was priced.
        value: Reward per step of the rates.
        dual_value: D(l), in closed form from ``demand_price`` alone.
        gap: (dual_value - value) / dual_value.
        demand_price: (V,) l.
        capacity_price: (R,) q.
        free_fraction: (R,) phi.
        index: (n,) L of every pair, in the order of the instance.
        assignment_rate: (n,) u of every pair.
        worst_residual: Largest violation of (2) to (4) and of LAG Lemma B.1, relative.
        solver: Which gear, and how many pairs it needed.
        seconds: Time it took.
    """

    instance: SparseInstance
    value: float
    dual_value: float
    gap: float
    demand_price: Annotated[Float, Quantity("l_v", "V", "reward", "price of serving a task")]
    capacity_price: Annotated[
        Float, Quantity("q_r", "R", "reward per step", "price of a server's step")
    ]
    free_fraction: Annotated[Float, Quantity("phi_r", "R", "share of time", "free fraction")]
    index: Float
    assignment_rate: Float
    worst_residual: float
    solver: str
    seconds: float

    def order(self) -> tuple[Int, Int]:
        """LAG's lists: (V + 1,) where each type's begins, and (n,) servers, best first.

        P (L > 0) by L, then T (L = 0 and u > 0) by u / lambda, then N by L; equal ones by the
        arrival-weighted mean score of the server, then by position (``policies.loss.lag``).
        """
        instance = self.instance
        top = float(instance.match_reward.max()) or 1.0
        rate = instance.arrival_rate[instance.task_type]
        weight = np.divide(
            self.assignment_rate, rate, out=np.zeros(instance.n_pairs), where=rate > 0
        )
        weight, level = np.round(weight, 9), np.round(self.index / top, 9)
        group = np.where(self.index > 0, 2, np.where((self.index == 0) & (weight > 0), 1, 0))
        within = np.where(group == 1, weight, level)
        share = instance.arrival_rate / max(float(instance.arrival_rate.sum()), 1e-300)
        useful = np.bincount(
            instance.server,
            weights=share[instance.task_type] * instance.match_reward,
            minlength=instance.n_servers,
        )
        pi = np.round(useful / top, 9)[instance.server]
        by = np.lexsort((instance.server, pi, -within, -group, instance.task_type))
        begin = np.searchsorted(instance.task_type[by], np.arange(instance.n_types + 1))
        return begin, instance.server[by]


def price_sparse(
    instance: SparseInstance, demand: Demand = FULL, *, stop: Stop | None = None
) -> SparsePrices:
    """Prices, rates and a certified bound of OCC-LP over lists of pairs.

    Args:
        instance: At least one type must arrive.
        demand: ``FULL``, ``AT_MOST``, or ``Demand(blocking=B)``.
        stop: When to end; by default at a gap of 1e-9, and an interrupt is an interrupt.

    Raises:
        OverloadError: Naming the types that fall short, if not every task can be served.
        SolverError: If no feasible rates were found in the time.
    """
    began = time.perf_counter()
    problem = merge_equal(_problem(instance, demand, instance.match_reward))
    search = Search(problem, Stop(catch_interrupt=False) if stop is None else stop)
    try:
        ended = run(search, AUTO)
    except SolverError as error:
        if error.status != INFEASIBLE or demand.at_most:
            raise
        raise _overload(instance) from error
    if search.columns is None or search.rate is None:
        if ended in ("time", "interrupt") or demand.at_most:
            raise SolverError(ended, f"OCC-LP of {instance.name}: no feasible rates yet")
        raise _overload(instance)
    price = _filled(instance, problem.prices(search.best_prices[0]))
    capacity = capacity_prices(instance, price)
    index = _index(instance, price, capacity)
    weight = _pair_weights(instance, problem, search)
    if search.gap <= SOLVED:
        weight = _least_squares(instance, demand, (price, index), weight)
    told = f"{search.gear}, {len(search.rate) / problem.n_pairs:.2%} of {problem.n_pairs:,} pairs"
    return _certified(instance, demand, (price, capacity, index, weight), (told, began))


def capacity_prices(instance: SparseInstance, price: Float) -> Float:
    """(R,) q_r(l): the best prefix of each server's types by (s - l) / E[D], as a closed form."""
    mean = instance.mean_duration[instance.task_type]
    gain = instance.match_reward - price[instance.task_type]
    server = instance.server
    order = np.lexsort((-gain / mean, server))
    rate = np.where(gain > 0, instance.arrival_rate[instance.task_type], 0.0)[order]
    earned = np.cumsum(rate * np.maximum(gain[order], 0.0))
    busy = np.cumsum(rate * mean[order])
    first = instance.start[:-1]
    some = np.diff(instance.start) > 0
    before = np.maximum(first - 1, 0)
    base = [np.where(first > 0, total[before], 0.0) for total in (earned, busy)]
    value = (earned - base[0][server]) / (1.0 + busy - base[1][server])
    capacity = np.zeros(instance.n_servers)
    capacity[some] = np.maximum(np.maximum.reduceat(value, first[some]), 0.0)
    return capacity


def _problem(instance: SparseInstance, demand: Demand, reward: Float) -> PairProblem:
    """The program over the pairs of types that arrive and get something."""
    wanted = instance.servers_per_task * (1.0 - np.broadcast_to(demand.blocking, instance.n_types))
    used = np.flatnonzero((instance.arrival_rate > 0) & (wanted > 0))
    number = np.full(instance.n_types, -1)
    number[used] = np.arange(len(used))
    keep = np.flatnonzero(number[instance.task_type] >= 0)
    unit = float(reward[keep].max(initial=0.0)) or 1.0
    return PairProblem(
        Pairs(
            np.searchsorted(keep, instance.start),
            number[instance.task_type[keep]].astype(np.uint32),
            reward[keep] / unit,
            instance.mean_duration[used],
        ),
        Market(instance.arrival_rate[used], wanted[used], np.ones(instance.n_servers)),
        demand.at_most,
        unit,
        number,
        np.arange(instance.n_servers),
    )


def _filled(instance: SparseInstance, price: Float) -> Float:
    """Prices with the top reward for types that the program left out: nothing is gained there."""
    return np.where(np.isnan(price), float(instance.match_reward.max(initial=0.0)), price)


def _index(instance: SparseInstance, price: Float, capacity: Float) -> Float:
    """(n,) L of every pair, exactly 0 within ``SNAP``."""
    mean = instance.mean_duration[instance.task_type]
    cost = price[instance.task_type] + mean * capacity[instance.server]
    index = instance.match_reward - cost
    index[np.abs(index) <= SNAP * (float(instance.match_reward.max()) or 1.0)] = 0.0
    return np.asarray(index)


def _pair_weights(instance: SparseInstance, problem: PairProblem, search: Search) -> Float:
    """(n,) u / lambda of the rates that were found."""
    assert search.columns is not None
    assert search.rate is not None
    task_type, server, found = expand(problem, search.columns, search.rate)
    weight = np.zeros(instance.n_pairs)
    keys = instance.server * instance.n_types + instance.task_type  # ascending
    weight[np.searchsorted(keys, server * instance.n_types + task_type)] = found
    return weight


def _least_squares(
    instance: SparseInstance, demand: Demand, known: tuple[Float, Float], weight: Float
) -> Float:
    """The optimal rates of least sum (u / lambda)^2; the ones given where there are none."""
    price, index = known
    rate = instance.arrival_rate
    used = np.flatnonzero(rate > 0)
    number = np.full(instance.n_types, -1)
    number[used] = np.arange(len(used))
    tied = np.flatnonzero((index >= 0) & (rate[instance.task_type] > 0))
    wanted = instance.servers_per_task * (1.0 - np.broadcast_to(demand.blocking, instance.n_types))
    market = Market(rate[used], wanted[used], np.ones(instance.n_servers))
    server, task_type = instance.server[tied], number[instance.task_type[tied]]
    fixed = index[tied] > 0
    slack = demand.at_most & (price[used] <= SNAP * float(instance.match_reward.max()))
    try:
        mean = instance.mean_duration[used]
        y = squares_on_pairs(market, (server, task_type, mean), fixed, np.atleast_1d(slack))
    except SolverError:
        return weight
    work = rate[used][task_type] * mean[task_type] * y
    free = 1.0 - np.bincount(server, weights=work, minlength=instance.n_servers)
    y[fixed] = free[server[fixed]]
    found = np.zeros(instance.n_pairs)
    found[tied] = np.where(y < CLEAN, 0.0, y)
    return found


def _certified(
    instance: SparseInstance,
    demand: Demand,
    parts: tuple[Float, Float, Float, Float],
    told: tuple[str, float],
) -> SparsePrices:
    """The result, with residuals of (2) to (4) and of Lemma B.1 computed pair by pair."""
    price, capacity, index, weight = parts
    task_type, server = instance.task_type, instance.server
    rate = instance.arrival_rate
    wanted = instance.servers_per_task * (1.0 - np.broadcast_to(demand.blocking, instance.n_types))
    u = rate[task_type] * weight
    mean = instance.mean_duration
    busy = np.bincount(server, weights=mean[task_type] * u, minlength=instance.n_servers)
    free = 1.0 - busy
    top = float(instance.match_reward.max()) or 1.0
    bound = np.maximum(price, 0.0) if demand.at_most else price
    value = math.fsum(instance.match_reward * u)
    dual_value = float(capacity_prices(instance, bound).sum() + np.sum(rate * wanted * bound))
    served = np.bincount(task_type, weights=weight, minlength=instance.n_types)
    short = np.where(rate > 0, served - wanted, 0.0)
    positive, negative = np.maximum(index, 0.0), np.minimum(index, 0.0)
    earned = np.bincount(server, weights=rate[task_type] * positive, minlength=instance.n_servers)
    lost = math.fsum(positive * (rate[task_type] * free[server] - u) - negative * u)
    if demand.at_most:
        lost += float(np.sum(price * rate * (wanted - served)))
    worst = max(
        float(np.max(np.maximum(short, 0.0) if demand.at_most else np.abs(short))),
        float(np.max(-free, initial=0.0)),
        float(np.max(weight - free[server], initial=0.0)),
        float(np.max(np.abs(capacity - earned))) / top,
        abs(lost) / max(value, 1e-12 * top),
    )
    return SparsePrices(
        instance=instance,
        value=value,
        dual_value=dual_value,
        gap=relative_gap(dual_value, value),
        demand_price=price,
        capacity_price=capacity,
        free_fraction=np.asarray(free),
        index=index,
        assignment_rate=u,
        worst_residual=worst,
        solver=told[0],
        seconds=time.perf_counter() - told[1],
    )


def _overload(instance: SparseInstance) -> OverloadError:
    """Which types fall short, beside the others: OCC-LP(<=) with reward 1 / lambda each."""
    rate = instance.arrival_rate[instance.task_type]
    reward = np.divide(1.0, rate, out=np.zeros(instance.n_pairs), where=rate > 0)
    problem = _problem(instance, AT_MOST, reward)
    search = Search(problem, Stop(gap=1e-9, catch_interrupt=False))
    run(search)
    problems = []
    if search.columns is not None and search.rate is not None:
        missing = problem.market.demand - served_by(problem, search.columns, search.rate)
        for c in np.flatnonzero(missing > 1e-7):
            v = int(np.flatnonzero(problem.class_of == c)[0])
            rate_v, k = float(instance.arrival_rate[v]), int(instance.servers_per_task[v])
            problems.append(
                Problem(
                    f"type {instance.task_types[v]}",
                    f"type {instance.task_types[v]} needs {k * rate_v:.4g} assignments per step "
                    f"and can get {(k - missing[c]) * rate_v:.4g} beside the others",
                    "enough permitted servers for all types together",
                    "lower the arrival rates, or permit more servers for it",
                )
            )
    told = f"load {instance.load:.6g} cannot be served by the permitted pairs"
    generic = Problem("load", told, "a lower load", "lower the arrival rates, or permit more pairs")
    return OverloadError(problems[:20] or generic, math.nan)
