"""An occupancy LP as lists of permitted pairs: what the gears of ``pricing.gears`` solve.

Nothing here is a matrix of types by servers: forbidden pairs take no room and no time. Rewards
are divided by the largest, types without arrivals are left out, and equal servers and equal
types are merged (their variables can be averaged: the LP is convex and symmetric in them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.arms import (
    Market,
    Pairs,
    arm_values,
    fingerprints,
    list_pairs,
    near_pairs,
)
from opportune.model.loss import LossInstance
from opportune.pricing.demand import AT_MOST, Demand

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairProblem:
    """An occupancy LP over pairs, equal servers and types merged.

    Attributes:
        pairs: Permitted pairs of a merged type and a merged server.
        market: Per merged type: arrival rate (summed), demand; per merged
            server: how many it stands for. A server on duty for a share a_r of the time counts
            a_r: with u = a_r u' and phi = a_r phi' its constraints are those of any other.
        at_most: Whether tasks may be turned away at will: OCC-LP(<=).
        unit: Reward that 1 stands for in ``pairs``.
        class_of: (V,) merged type of each type of the instance, -1 if left out.
        group_of: (R,) merged server of each server of the instance.
    """

    pairs: Pairs
    market: Market
    at_most: bool
    unit: float
    class_of: Int
    group_of: Int

    @property
    def pair_mean(self) -> Float:
        """(n,) E[D] of every pair."""
        return pair_means(self.pairs)

    @property
    def n_pairs(self) -> int:
        """Number of pairs n."""
        return len(self.pairs.reward)

    @property
    def n_types(self) -> int:
        """Number of merged types."""
        return len(self.market.demand)

    @property
    def n_servers(self) -> int:
        """Number of merged servers."""
        return len(self.market.copies)

    @property
    def demand_weight(self) -> Float:
        """lambda_v k_v (1 - B_v): what a demand price is multiplied by in the dual value."""
        return self.market.arrival_rate * self.market.demand

    def admissible(self, price: Float) -> Float:
        """The prices, raised to 0 where only l >= 0 gives a bound."""
        return np.maximum(price, 0.0) if self.at_most else price

    def dual_value(self, price: Float, capacity: Float) -> float:
        """D(l) in units of ``unit``; ``capacity`` is a guess of q and receives q."""
        price = self.admissible(price)
        served = np.empty(self.n_types)
        arms = arm_values(self.pairs, self.market, price, capacity, served)
        return float(arms + self.demand_weight @ price)

    def prices(self, price: Float) -> Float:
        """(V,) demand prices of the instance in reward; NaN for types left out."""
        known = np.append(price, np.nan) * self.unit
        return np.asarray(known[self.class_of])


def pair_means(pairs: Pairs) -> Float:
    """(n,) E[D] of every pair, by type or its own."""
    if pairs.mean.ndim == 1:
        return np.asarray(pairs.mean[pairs.task_type])
    return np.asarray(pairs.mean[:, 0])


def means_at(pairs: Pairs, place: Int | NDArray[np.bool_]) -> Float:
    """``mean`` of the lists that hold the pairs at these places."""
    return pairs.mean if pairs.mean.ndim == 1 else pairs.mean[place]


@dataclass(frozen=True, eq=False)
class Columns:
    """Some pairs of a problem, in order.

    Attributes:
        place: (m,) their positions among all pairs, None if they are all.
        pairs: The same as lists of their own.
    """

    place: Int | None
    pairs: Pairs

    @property
    def server(self) -> Int:
        """(m,) merged server of each pair."""
        return np.repeat(np.arange(len(self.pairs.start) - 1), np.diff(self.pairs.start))


def all_columns(problem: PairProblem) -> Columns:
    """All pairs of a problem."""
    return Columns(None, problem.pairs)


def columns_at(problem: PairProblem, place: Int) -> Columns:
    """The pairs at these positions (ascending)."""
    pairs = problem.pairs
    start = np.searchsorted(place, pairs.start)
    chosen = pairs.task_type[place], pairs.reward[place], means_at(pairs, place)
    return Columns(place, Pairs(start, *chosen))


def near_columns(
    problem: PairProblem, price: Float, capacity: Float, margin: float | Float
) -> Columns:
    """The pairs with index at least -margin (one, or one per type) at these prices."""
    margins = np.array(np.broadcast_to(margin, problem.n_types), dtype=np.float64)
    prices = price, capacity
    nothing = np.empty(0, dtype=np.int64)
    n = near_pairs(problem.pairs, problem.market, prices, margins, nothing)
    if n == problem.n_pairs:
        return all_columns(problem)
    place = np.empty(n, dtype=np.int64)
    near_pairs(problem.pairs, problem.market, prices, margins, place)
    return columns_at(problem, place)


def pair_problem(instance: LossInstance, demand: Demand) -> PairProblem:
    """The occupancy LP of an instance; types that do not arrive or get nothing are left out."""
    return _listed(instance, demand, instance.match_reward, 1.0)


def serving_problem(instance: LossInstance, factor: float) -> PairProblem:
    """How much can be served at most, all arrival rates multiplied by ``factor``.

    OCC-LP(<=) with the reward 1 / lambda_v for every pair of type v: its value is the sum over
    types of the servers that a task gets, and falls short of sum_v k_v by the least shortfall.
    A rare type that falls short weighs as much as a common one.
    """
    used = instance.arrival_rate > 0
    reward = np.divide(1.0, instance.arrival_rate, out=np.zeros(instance.n_types), where=used)
    return _listed(instance, AT_MOST, np.where(instance.allowed, reward[:, None], 0.0), factor)


def _listed(instance: LossInstance, demand: Demand, reward: Float, factor: float) -> PairProblem:
    wanted = demand.servers_per_arrival(instance)
    used = np.flatnonzero((instance.arrival_rate > 0) & (wanted > 0))
    whole = len(used) == instance.n_types
    allowed = instance.allowed if whole else instance.allowed[used]
    if instance.availability is not None:
        allowed = allowed & (instance.availability > 0)
    reward = reward if whole else reward[used]
    unit = float(reward.max(initial=0.0)) or 1.0
    start = np.zeros(instance.n_servers + 1, dtype=np.int64)
    np.cumsum(allowed.sum(axis=0), out=start[1:])
    mean = instance.mean_duration[used]
    pairs = Pairs(start, np.empty(start[-1], dtype=np.uint32), np.empty(start[-1]), mean)
    list_pairs(reward, allowed, unit, pairs)
    if instance.server_duration is not None:
        server = np.repeat(np.arange(instance.n_servers), np.diff(start))
        own = instance.server_duration.mean[used[pairs.task_type], server]
        pairs = pairs._replace(mean=np.ascontiguousarray(own[:, None]))
    market = Market(
        instance.arrival_rate[used] * factor,
        wanted[used],
        instance.on_duty,
    )
    class_of = np.full(instance.n_types, -1)
    class_of[used] = np.arange(len(used))
    group_of = np.arange(instance.n_servers)
    return merge_equal(PairProblem(pairs, market, demand.at_most, unit, class_of, group_of))


def merge_equal(problem: PairProblem) -> PairProblem:
    """The problem with equal servers and equal types merged, in order of first appearance.

    Equality of pair lists is equality of two hashes of 64 bits each. (A collision would make
    the certificate fail, not lie: it is computed from the instance.)
    """
    pairs, market = problem.pairs, problem.market
    prints = np.zeros(problem.n_types, np.uint64), np.zeros(problem.n_servers, np.uint64)
    bits = pairs.reward.view(np.uint64)
    if pairs.mean.ndim == 2:  # pairs are equal if both are: any mixture of the bits will do
        bits = bits ^ (pairs.mean[:, 0].view(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    fingerprints(pairs, bits, prints)
    keys = [prints[0], market.demand.view(np.uint64)]
    if pairs.mean.ndim == 1:
        keys.append(pairs.mean.view(np.uint64))
    types = np.column_stack(keys)
    class_of, type_at = _first_appearance(types)
    group_of, server_at = _first_appearance(prints[1][:, None])
    if len(type_at) == problem.n_types and len(server_at) == problem.n_servers:
        return problem
    keep_type = np.zeros(problem.n_types, dtype=np.bool_)
    keep_type[type_at] = True
    keep = keep_type[pairs.task_type] & np.repeat(
        np.isin(np.arange(problem.n_servers), server_at), np.diff(pairs.start)
    )
    place = np.flatnonzero(keep)
    before = np.searchsorted(place, pairs.start)
    start = np.append(0, np.cumsum(np.diff(before)[server_at]))
    return PairProblem(
        pairs=Pairs(
            start,
            class_of[pairs.task_type[place]].astype(np.uint32),
            pairs.reward[place],
            pairs.mean[type_at] if pairs.mean.ndim == 1 else pairs.mean[place],
        ),
        market=Market(
            _sums(class_of, market.arrival_rate),
            market.demand[type_at],
            _sums(group_of, market.copies),
        ),
        at_most=problem.at_most,
        unit=problem.unit,
        class_of=np.append(class_of, -1)[problem.class_of],
        group_of=group_of[problem.group_of],
    )


def _sums(number: Int, values: Float) -> Float:
    return np.asarray(np.bincount(number, weights=values), dtype=np.float64)


def _first_appearance(keys: NDArray[np.uint64]) -> tuple[Int, Int]:
    """Number of each row in the order in which rows first appear, and where they do."""
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number.ravel()], np.sort(first)


def expand(problem: PairProblem, columns: Columns, weight: Float) -> tuple[Int, Int, Float]:
    """Pairs of the instance: type, server and the weight of the merged pair they belong to.

    A weight y_vr = u_vr / (lambda_v a_r) is the same for all pairs that were merged.
    """
    used = np.flatnonzero(weight > 0)
    merged_type = columns.pairs.task_type[used].astype(np.int64)
    merged_server = columns.server[used]
    if len(problem.class_of) == problem.n_types and len(problem.group_of) == problem.n_servers:
        return merged_type, merged_server, weight[used]
    n_types = np.bincount(problem.class_of[problem.class_of >= 0], minlength=problem.n_types)
    n_servers = np.bincount(problem.group_of, minlength=problem.n_servers)
    type_order = np.argsort(problem.class_of, kind="stable")[-int(n_types.sum()) :]
    server_order = np.argsort(problem.group_of, kind="stable")
    first_type = np.cumsum(n_types) - n_types
    first_server = np.cumsum(n_servers) - n_servers
    times = n_types[merged_type] * n_servers[merged_server]
    which = np.repeat(np.arange(len(used)), times)
    step = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    a, b = np.divmod(step, n_servers[merged_server[which]])
    return (
        type_order[first_type[merged_type[which]] + a],
        server_order[first_server[merged_server[which]] + b],
        weight[used][which],
    )
