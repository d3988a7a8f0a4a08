"""The occupancy LP seen from the servers: one small problem each, tied only by demand prices.

At demand prices l the dual of OCC-LP falls apart into servers ("arms"): q_r(l) is the root of
q = sum_v lambda_v max(s_vr - l_v - E[D_v] q, 0) (LAG section 3.2, reconstructed), found by
Newton's method: F(q) = q - sum ... is increasing and concave, so from any start the second
iterate lies below the root and all later ones climb to it, in finitely many steps.
Everything works on lists of pairs, so a forbidden pair costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import inline_by_type, jit

Float = NDArray[np.float64]
Words = NDArray[np.uint64]


class Pairs(NamedTuple):
    """Permitted pairs, n of them, server by server."""

    start: NDArray[np.int64]  # (R + 1,) first pair of each server
    task_type: NDArray[np.uint32]  # (n,)
    reward: Float  # (n,) s_vr, divided by the largest
    mean: Float  # E[D] in steps: (V,) by type, or (n, 1) by pair


class Market(NamedTuple):
    """What the pairs share: per task type and per server."""

    arrival_rate: Float  # (V,) lambda, above 0
    demand: Float  # (V,) k (1 - B): servers that an arriving task takes
    copies: Float  # (R,) equal servers that one row of pairs stands for


def _mean_by_shape(mean: Any, v: Any, p: Any) -> Callable[..., float]:
    """By the number of axes of the type of ``mean``."""
    if mean.ndim == 1:
        return lambda mean, v, p: mean[v]
    return lambda mean, v, p: mean[p, 0]


@inline_by_type(_mean_by_shape)
def mean_of(mean: Float, v: int, p: int) -> float:
    """E[D] of pair p, of type v: where durations depend on the server, each pair has its own."""
    return float(mean[v] if mean.ndim == 1 else mean[p, 0])


@jit
def arm_values(pairs: Pairs, market: Market, price: Float, capacity: Float, served: Float) -> float:
    """sum_r q_r(l): the dual value without the demand's own term.

    Args:
        pairs: The instance's pairs.
        market: And the rest of it.
        price: (V,) demand prices l.
        capacity: (R,) a guess of q; receives q.
        served: (V,) receives sum_r phi_r over L(v,r) > 0, so that lambda_v (demand - served) is
            a subgradient of the dual value by l_v.
    """
    start, task_type, reward, mean = pairs
    rate, _, copies = market
    served[:] = 0.0
    total = 0.0
    for r in range(copies.shape[0]):
        q, busy = capacity[r], 1.0
        climbing = False
        while True:
            gain, busy = 0.0, 1.0
            for p in range(start[r], start[r + 1]):
                v = task_type[p]
                x = reward[p] - price[v]
                if x > mean_of(mean, v, p) * q:
                    gain += rate[v] * x
                    busy += rate[v] * mean_of(mean, v, p)
            better = gain / busy
            if climbing and better <= q:
                break
            climbing = True
            q = better
        capacity[r] = q
        total += copies[r] * q
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            if reward[p] - price[v] > mean_of(mean, v, p) * q:
                served[v] += copies[r] / busy
    return total


@jit
def near_pairs(
    pairs: Pairs,
    market: Market,
    prices: tuple[Float, Float],
    margin: Float,
    kept: NDArray[np.int64],
) -> int:
    """Positions of the pairs with index at least -margin_v, in order; returns their number.

    Args:
        pairs: The instance's pairs.
        market: And the rest of it.
        prices: Demand prices l (V,) and capacity prices q (R,).
        margin: (V,) how far below 0 the index may be, per type.
        kept: Receives the positions; with no room for them they are only counted.
    """
    start, task_type, reward, mean = pairs
    price, capacity = prices
    n, room = 0, kept.shape[0]
    for r in range(capacity.shape[0]):
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            if reward[p] - price[v] - mean_of(mean, v, p) * capacity[r] >= -margin[v]:
                if n < room:
                    kept[n] = p
                n += 1
    return n


@jit
def list_pairs(reward: Float, allowed: NDArray[np.bool_], unit: float, pairs: Pairs) -> None:
    """Fill in the pairs of a dense instance.

    Args:
        reward: (V, R) match rewards.
        allowed: (V, R) permitted pairs.
        unit: Rewards are divided by it.
        pairs: Its ``start`` holds the counts already; the rest is filled in, types ascending.
    """
    n_types, n_servers = reward.shape
    place = pairs.start[:n_servers].copy()
    for v in range(n_types):
        for r in range(n_servers):
            if allowed[v, r]:
                pairs.task_type[place[r]] = v
                pairs.reward[place[r]] = reward[v, r] / unit
                place[r] += 1


@jit
def fingerprints(pairs: Pairs, bits: NDArray[np.uint64], prints: tuple[Words, Words]) -> None:
    """Hashes of 64 bits of each type's and each server's pairs, equal where the pairs are.

    Args:
        pairs: The pairs.
        bits: (n,) the rewards as integers.
        prints: Receive the hashes of the types (V,) and of the servers (R,).
    """
    of_type, of_server = prints
    of_type[:] = 0
    of_server[:] = 0
    for r in range(of_server.shape[0]):
        own = np.uint64(0)
        for p in range(pairs.start[r], pairs.start[r + 1]):
            v = pairs.task_type[p]
            own += _mix(bits[p] ^ _mix(np.uint64(v) + np.uint64(1)))
            of_type[v] += _mix(bits[p] ^ _mix(~np.uint64(r)))
        of_server[r] = own


@jit
def _mix(x: np.uint64) -> np.uint64:
    """SplitMix64's finalizer (Steele, Lea, Flood 2014): every bit depends on every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit
def top_rewards(pairs: Pairs, copies: Float, wanted: Float, counts: Float, ends: Float) -> None:
    """About the reward that the best ``wanted`` servers of each type exceed.

    Args:
        pairs: The instance's pairs.
        copies: (R,) equal servers that one row of pairs stands for.
        wanted: (V,) servers.
        counts: (V, bins) scratch: servers by reward, between the type's extremes.
        ends: (3, V) receives the threshold, the least and the largest reward of each type.
    """
    start, task_type, reward, _ = pairs
    bins = counts.shape[1]
    counts[:] = 0.0
    ends[0], ends[1], ends[2] = 0.0, np.inf, -np.inf
    for p in range(reward.shape[0]):
        v = task_type[p]
        ends[1, v] = min(ends[1, v], reward[p])
        ends[2, v] = max(ends[2, v], reward[p])
    for r in range(copies.shape[0]):
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            width = ends[2, v] - ends[1, v]
            place = (reward[p] - ends[1, v]) / width * bins if width > 0.0 else 0.0
            counts[v, min(int(place), bins - 1)] += copies[r]
    for v in range(wanted.shape[0]):
        left, place = wanted[v], bins
        while left > 0.0 and place > 0:
            place -= 1
            left -= counts[v, place]
        ends[0, v] = ends[1, v] + (ends[2, v] - ends[1, v]) * place / bins


@jit
def mixing_room(pairs: Pairs, rate: Float, alike: Float, more: Float) -> float:
    """The largest eta at which serving alike + eta more by every permitted server is feasible.

    Args:
        pairs: The instance's pairs.
        rate: (V,) lambda.
        alike: (V,) y of every pair of a type.
        more: (V,) what eta adds to it, at least 0.

    Returns:
        eta, or -1 if not even 0 is feasible: y <= phi = 1 - sum lambda E[D] y, linear in eta.
    """
    start, task_type, _, mean = pairs
    room = np.inf
    for r in range(start.shape[0] - 1):
        busy, growth = 0.0, 0.0
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            work = rate[v] * mean_of(mean, v, p)
            busy += work * alike[v]
            growth += work * more[v]
        for p in range(start[r], start[r + 1]):
            v = task_type[p]
            left, pace = 1.0 - busy - alike[v], growth + more[v]
            if left < 0.0:
                return -1.0
            if pace > 0.0:
                room = min(room, left / pace)
    return room
