"""Slow twins of the kernels, in plain Python, written from the papers and not from the kernels.

Sources: the loss system step by step, LAG section 1 (X_r(t), one step of service a step);
Appendix A (waterfill, rounding); Philox4x32-10, Salmon et al. 2011, section 3.3; the plan rules
as the docstring of ``PlanTables`` states them. Numbers may be floats or ``Fraction``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, PlanTables
from opportune.kernels.streams import LossStreams
from opportune.model.loss import LossInstance
from opportune.model.streams import draw_block, loss_law, stream_key

# ------------------------------------------------------------------------------ Philox


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, ...]:
    """Philox4x32-10: ten rounds on four words, the key raised by the Weyl constants between."""
    c, k = list(counter), list(key)
    for round_number in range(10):
        if round_number > 0:
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
    return tuple(c)


def words(seed: int, replication: int, purpose: int, position: int) -> tuple[int, ...]:
    """Four words of a purpose's stream: counter (position low, high, purpose, replication)."""
    high, low = divmod(position, 2**32)
    return philox((low, high, purpose, replication), (seed % 2**32, seed // 2**32))


def unit(seed: int, replication: int, purpose: int, i: int) -> float:
    """The i-th number in [0, 1) of a stream: 53 bits of two words, two numbers to four words."""
    four = words(seed, replication, purpose, i // 2)
    high, low = four[2 * (i % 2)], four[2 * (i % 2) + 1]
    return float(Fraction((high * 2**32 + low) // 2**11, 2**53))


def choice(seed: int, replication: int, purpose: int, i: int) -> int:
    """The i-th 32-bit word of a stream."""
    return words(seed, replication, purpose, i // 4)[i % 4]


def geometric(u: float, mean: float) -> int:
    """The least n with P(D <= n) > u for P(D > n) = (1 - 1/mean)^n."""
    if mean == 1.0:
        return 1
    return 1 + math.floor(math.log1p(-u) / math.log1p(-1.0 / mean))


# -------------------------------------------------------------------------- allocation


def pick(
    tables: PlanTables, v: int, k: int, free: set[int], fraction: Sequence[int], h: int = 0
) -> list[int] | None:
    """The k servers that a plan takes for a task of type v, None where it is dropped.

    ``fraction`` holds k 32-bit words u 2^32; the i-th server of the task is drawn with the
    i-th: among j tied servers it is the one at place floor(u j), and the first of them takes
    its place; by weight it is the one in whose share of the total u falls.
    """
    n = int(tables.n_allowed[v])
    listed = [int(r) for r in tables.order[v, h, :n]]
    level = dict(zip(listed, (int(x) for x in tables.level[v, h, :n]), strict=True))
    candidates = [r for r in listed if r in free]
    if len(candidates) < k:
        return None
    if tables.rule == PRIORITY:
        return candidates[:k]
    if tables.rule == PRIORITY_TIES:
        return _by_level(candidates, level, k, [], fraction)
    taken: list[int] = []
    while len(taken) < k:
        weights = [float(tables.weight[v, r]) for r in candidates]
        total = sum(weights)
        if not total > 0:
            return _by_level(candidates, level, k, taken, fraction)
        target = total * (fraction[len(taken)] / 2**32)
        shares = list(itertools.accumulate(weights))
        positive = [i for i, w in enumerate(weights) if w > 0]
        place = next((i for i in positive if target < shares[i]), positive[-1])
        taken.append(candidates.pop(place))
    return taken


def _by_level(
    candidates: list[int], level: dict[int, int], k: int, taken: list[int], fraction: Sequence[int]
) -> list[int]:
    """Complete ``taken`` to k servers by level; of the level that is too large, a sample."""
    taken = list(taken)
    for _, tie in itertools.groupby(candidates, key=lambda r: level[r]):
        pool = list(tie)
        if len(pool) <= k - len(taken):
            taken += pool
            continue
        while len(taken) < k:
            place = fraction[len(taken)] * len(pool) // 2**32
            pool[0], pool[place] = pool[place], pool[0]
            taken.append(pool.pop(0))
    return taken


def waterfill(
    budget: Any, capacity: Sequence[Any], index: Sequence[Any], weight: Sequence[Any], pi: list[int]
) -> list[Any]:
    """LAG Definition A.1, stage by stage; ``pi`` lists the servers in the order of ties."""
    n = len(capacity)
    allocation: list[Any] = [0 * budget] * n
    left = budget
    p = [r for r in range(n) if index[r] > 0]
    t = [r for r in range(n) if index[r] == 0 and weight[r] > 0]
    rest = [r for r in range(n) if r not in p and r not in t]
    for r in sorted(p, key=lambda r: (-index[r], pi.index(r))):
        allocation[r] = min(capacity[r], left)
        left -= allocation[r]
    if t:
        goal = min(left, sum(capacity[r] for r in t))
        theta = _smallest_theta(goal, [capacity[r] for r in t], [weight[r] for r in t])
        for r in t:
            allocation[r] = min(capacity[r], theta * weight[r])
        left -= goal
    for r in sorted(rest, key=lambda r: (-index[r], pi.index(r))):
        allocation[r] = min(capacity[r], left)
        left -= allocation[r]
    return allocation


def _smallest_theta(goal: Any, capacity: list[Any], weight: list[Any]) -> Any:
    """The smallest theta >= 0 with sum min(c, theta w) = goal, between two breakpoints."""

    def filled(theta: Any) -> Any:
        return sum(min(c, theta * w) for c, w in zip(capacity, weight, strict=True))

    low: Any = 0 * goal
    if filled(low) >= goal:
        return low
    for high in sorted(c / w for c, w in zip(capacity, weight, strict=True)):
        if filled(high) >= goal:
            slope = sum(w for c, w in zip(capacity, weight, strict=True) if c / w > low)
            return low + (goal - filled(low)) / slope
        low = high
    return low


def round_largest_remainder(
    allocation: Sequence[Any], n: int, total: int, pi: list[int]
) -> list[int]:
    """LAG Appendix A.2: floors of n a_r, then one more for the largest positive remainders."""
    counts = [math.floor(n * a) for a in allocation]
    remainder = {r: n * a - math.floor(n * a) for r, a in enumerate(allocation)}
    ranked = sorted(remainder, key=lambda r: (-remainder[r], pi.index(r)))
    for r in [r for r in ranked if remainder[r] > 0][: total - sum(counts)]:
        counts[r] += 1
    return counts


def lag_order(index: Sequence[Any], weight: Sequence[Any], pi: list[int]) -> list[int]:
    """The static list: P by index, T by weight, N by index, each descending, ties by pi."""

    def key(r: int) -> tuple[int, Any, int]:
        if index[r] > 0:
            return 0, -index[r], pi.index(r)
        if index[r] == 0 and weight[r] > 0:
            return 1, -weight[r], pi.index(r)
        return 2, -index[r], pi.index(r)

    return sorted(range(len(index)), key=key)


def whittle_index(instance: LossInstance, load_aware: bool = False) -> list[list[float]]:
    """W(v,r) = s_vr - E[D_v] sum_w p_w max(s_wr - s_vr, 0); with lambda_w where load-aware."""
    s, rate = instance.match_reward.tolist(), instance.arrival_rate.tolist()
    total = 1.0 if load_aware else math.fsum(rate)
    types, servers = range(instance.n_types), range(instance.n_servers)
    return [
        [
            s[v][r]
            - instance.duration[v].mean
            * math.fsum(rate[w] / total * max(s[w][r] - s[v][r], 0.0) for w in types)
            for r in servers
        ]
        for v in types
    ]


# ------------------------------------------------------------------------ loss system


def first_block(instance: LossInstance, seed: int, replication: int = 0) -> LossStreams:
    """The first block of a run's streams, as the simulator draws it."""
    k = int(instance.servers_per_task.max())
    return draw_block(stream_key(seed, replication), 0, loss_law(instance), k)


@dataclass
class Counts:
    """What a run counted, and who served which arrival (None: dropped)."""

    assigned: list[list[int]]
    busy_steps: list[int]
    arrived: list[int]
    blocked: list[int]
    reward: list[float]
    picks: list[list[int] | None] = field(default_factory=list)
    busy_path: list[int] = field(default_factory=list)


def simulate(
    instance: LossInstance,
    tables: PlanTables,
    streams: LossStreams,
    window: tuple[int, int],
    n_batches: int = 1,
    shift: int = 0,
) -> Counts:
    """Every step of LAG section 1, from empty, to the end of the window (warm_up, horizon).

    ``shift`` = -1 frees every server one step early, which is wrong: a test shows what it does.
    """
    warm_up, horizon = window
    servers = range(instance.n_servers)
    X = [0 for _ in servers]
    counts = _no_counts(instance, n_batches)
    arrival_steps = [total - 1 for total in itertools.accumulate(int(g) for g in streams.gap)]
    if arrival_steps[-1] < horizon:
        raise ValueError("not enough arrivals for this horizon")
    edges = [warm_up + b * (horizon - warm_up) // n_batches for b in range(1, n_batches)]
    i = 0
    for t in range(horizon):
        free = {r for r in servers if X[r] == 0}
        counts.busy_path.append(len(X) - len(free))
        counted = t >= warm_up
        taken: list[int] = []
        duration = 0
        if arrival_steps[i] == t:
            v, duration = int(streams.task_type[i]), int(streams.duration[i])
            k = int(instance.servers_per_task[v])
            h = min((len(X) - len(free)) // k, tables.order.shape[1] - 1)
            found = pick(tables, v, k, free, [int(c) for c in streams.choice[i]], h)
            counts.picks.append(found)
            taken = [] if found is None else found
            counts.arrived[v] += counted
            counts.blocked[v] += counted and found is None
            for r in taken if counted else []:
                counts.assigned[v][r] += 1
                batch = sum(t >= edge for edge in edges)
                counts.reward[batch] += float(instance.match_reward[v, r])
            i += 1
        for r in servers:
            counts.busy_steps[r] += counted and X[r] > 0
            X[r] = duration + shift if r in taken else max(X[r] - 1, 0)
    return counts


def _no_counts(instance: LossInstance, n_batches: int) -> Counts:
    V, R = instance.n_types, instance.n_servers
    return Counts([[0] * R for _ in range(V)], [0] * R, [0] * V, [0] * V, [0.0] * n_batches)


# ----------------------------------------------------------------------------- chains


def stationary(transition: list[list[Fraction]]) -> list[Fraction]:
    """The stationary law of a chain with one recurrent class, by exact elimination."""
    n = len(transition)
    rows = [[transition[i][j] - (i == j) for i in range(n)] + [Fraction(0)] for j in range(n)]
    rows[0] = [Fraction(1)] * n + [Fraction(1)]
    for column in range(n):
        pivot = next(row for row in range(column, n) if rows[row][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = rows[column][column]
        rows[column] = [x / scale for x in rows[column]]
        for row in range(n):
            factor = rows[row][column]
            if row != column and factor != 0:
                rows[row] = [x - factor * y for x, y in zip(rows[row], rows[column], strict=True)]
    return [rows[row][n] for row in range(n)]


def headcount_transition(size: int, arrival: Fraction, end: Fraction) -> list[list[Fraction]]:
    """Tasks in service, every subset of them that may end written out one by one."""
    transition = [[Fraction(0)] * (size + 1) for _ in range(size + 1)]
    for n in range(size + 1):
        for ends in itertools.product((False, True), repeat=n):
            mass = Fraction(1)
            for one in ends:
                mass *= end if one else 1 - end
            stay = n - sum(ends)
            admitted = arrival if n < size else Fraction(0)
            transition[n][stay] += mass * (1 - admitted)
            if admitted > 0:
                transition[n][stay + 1] += mass * admitted
    return transition


def deterministic_blocking(size: int, arrival: float, steps: int) -> float:
    """B for D = ``steps``: the chain on who was admitted in the last D steps, by iteration.

    A task admitted at t is in service at t+1, ..., t+D; ``size`` tasks fit.
    """
    law = {(False,) * steps: 1.0}
    for _ in range(4000):
        following: dict[tuple[bool, ...], float] = {}
        for state, mass in law.items():
            admit = arrival if sum(state) < size else 0.0
            for admitted, p in ((True, admit), (False, 1.0 - admit)):
                after = (*state[1:], admitted)
                following[after] = following.get(after, 0.0) + mass * p
        law = following
    return sum(mass for state, mass in law.items() if sum(state) >= size)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of an increasing function by bisection, to the last bit."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return (low + high) / 2
