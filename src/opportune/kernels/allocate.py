"""Who gets the task: the one place where servers are picked.

All rules are work-conserving: they pick exactly k servers whenever k permitted ones are free.
PRIORITY walks a list, SAMPLE draws by weight, ``waterfill`` shares capacities (Appendix A of
the LAG paper; at one copy per server a list does the same). A server r is free at step t iff
``busy_until[r] <= t``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit

PRIORITY, PRIORITY_TIES, SAMPLE = 0, 1, 2
"""Rules of a plan: a list; a list with ties at random; by weight (then by the list)."""

FORGIVEN = 1e-9
"""Servers: amounts that differ by less differ by rounding only."""

_32 = np.uint64(32)

Steps = NDArray[np.int64]
Servers = NDArray[np.int64]
Fractions = NDArray[np.uint32]
Amounts = NDArray[np.float64]


class PlanTables(NamedTuple):
    """What a policy hands to the kernels. H levels of headcount (1: it does not matter)."""

    order: NDArray[np.uint32]  # (V, H, R) permitted servers in order, then anything
    level: NDArray[np.int32]  # (V, H, R) by position; equal neighbors are a tie, by choice
    n_allowed: NDArray[np.int32]  # (V,) how many positions of order count
    weight: NDArray[np.float64]  # (V, R) for SAMPLE, otherwise (V, 0)
    rule: int


class WaterfillTables(NamedTuple):
    """What ``waterfill`` needs, per task type: a policy for systems with many copies."""

    group: NDArray[np.int8]  # (V, R) 2 for P, 1 for T, 0 for N
    order: NDArray[np.int64]  # (V, R) P, then T, then N; within T by pi; forbidden ones last
    n_allowed: NDArray[np.int64]  # (V,) how many positions of order count
    weight: NDArray[np.float64]  # (V, R) tie weights of T


class Task(NamedTuple):
    """A task at the moment of decision."""

    time: int  # step
    task_type: int
    headcount: int  # index into H
    k: int  # servers it needs


@jit
def index_below(fraction: np.uint32, n: int) -> np.int64:
    """floor(u n) for the 32-bit fraction u: a number from 0 to n-1, in integer arithmetic."""
    return np.int64((np.uint64(fraction) * np.uint64(n)) >> _32)


@jit
def pick(
    tables: PlanTables, busy_until: Steps, task: Task, choice: Fractions, row: int, picks: Servers
) -> int:
    """Pick ``task.k`` free permitted servers into ``picks``; return how many were found.

    Fewer than ``task.k`` means that the task is dropped: the picks are then meaningless.
    ``choice[row]`` holds k 32-bit fractions; ``picks`` has room for R + 1 servers. The loss
    kernel makes the same three-way choice itself: a call between would cost four times the
    work (numba counts references of arrays that cross a branch).
    """
    if tables.rule == PRIORITY:
        return pick_first(tables, busy_until, task, picks)
    if tables.rule == PRIORITY_TIES:
        return pick_first_tied(tables, busy_until, task, choice, row, picks)
    return pick_by_weight(tables, busy_until, task, choice, row, picks)


@jit
def pick_first(tables: PlanTables, busy_until: Steps, task: Task, picks: Servers) -> int:
    """The first k free servers of a list without ties, written without a branch on who is free."""
    time, v, h, k = task
    found, position, n = 0, 0, tables.n_allowed[v]
    while position < n and found < k:
        r = tables.order[v, h, position]
        picks[found] = r
        found += busy_until[r] <= time
        position += 1
    return found


@jit
def pick_first_tied(
    tables: PlanTables, busy_until: Steps, task: Task, choice: Fractions, row: int, picks: Servers
) -> int:
    """The first k free servers of a list; of the tie that overflows k, a random sample."""
    time, v, h, k = task
    found, position, first, level, n = 0, 0, 0, -1, tables.n_allowed[v]
    while position < n and (found < k or tables.level[v, h, position] == level):
        first = first if tables.level[v, h, position] == level else found
        level = tables.level[v, h, position]
        r = tables.order[v, h, position]
        picks[found] = r
        found += busy_until[r] <= time
        position += 1
    for i in range(first, k if found > k else first):
        j = i + index_below(choice[row, i], found - i)
        picks[i], picks[j] = picks[j], picks[i]
    return min(found, k)


@jit
def pick_by_weight(
    tables: PlanTables, busy_until: Steps, task: Task, choice: Fractions, row: int, picks: Servers
) -> int:
    """One server after another with probability proportional to weight among the free ones.

    When no free server has weight, the rest of the task goes by the list, ties at random.
    Free servers that are not picked yet stay in picks[found:end], in list order.
    """
    time, v, h, k = task
    end, position = 0, 0
    for position in range(tables.n_allowed[v]):
        r = tables.order[v, h, position]
        picks[end] = r
        end += busy_until[r] <= time
    found, total = 0, 1.0
    while found < k and k <= end and total > 0.0:
        total = 0.0
        for i in range(found, end):
            total += tables.weight[v, picks[i]]
        target = total * (choice[row, found] / 4294967296.0)
        chosen = found
        for i in range(found, end):
            w = tables.weight[v, picks[i]]
            chosen = i if w > 0.0 else chosen
            if target < w:
                break
            target -= w
        r = picks[chosen]
        for i in range(chosen, found, -1):  # keep the list order of the others
            picks[i] = picks[i - 1]
        picks[found] = r
        found += total > 0.0
    position = 0
    while found < k and k <= end:  # no weight is left: by the list, one tie after another
        while tables.order[v, h, position] != picks[found]:
            position += 1
        level, stop = tables.level[v, h, position], found
        while position < tables.n_allowed[v] and tables.level[v, h, position] == level:
            stop += stop < end and tables.order[v, h, position] == picks[stop]
            position += 1
        for i in range(found, min(k, stop)):
            j = i + index_below(choice[row, i], stop - i)
            picks[i], picks[j] = picks[j], picks[i]
        found = min(k, stop)
    return min(end, k)


@jit
def waterfill(
    budget: float,
    capacity: Amounts,
    group: NDArray[np.int8],
    order: Servers,
    weight: Amounts,
    amount: Amounts,
) -> float:
    """Share ``budget`` over capacities: P by order, then T in proportion, then N by order.

    Implements: LAG Definition A.1 (quoted). ``group[r]`` is 2 for P (positive index), 1 for T
    (index 0, positive weight), 0 for N; ``order`` (R,) lists P, then T, then N, each in the
    order of the definition. ``amount`` (R,) is overwritten. Returns the budget left over.
    """
    left = budget
    for r in order:
        amount[r] = 0.0
    for r in order:
        if group[r] == 2:
            amount[r] = min(capacity[r], left)
            left -= amount[r]
    if left > 0.0:
        left = _fill_in_proportion(left, capacity, group, order, weight, amount)
    for r in order:
        if group[r] == 0:
            amount[r] = min(capacity[r], left)
            left -= amount[r]
    return left


@jit
def _fill_in_proportion(
    budget: float,
    capacity: Amounts,
    group: NDArray[np.int8],
    order: Servers,
    weight: Amounts,
    amount: Amounts,
) -> float:
    """Stage 2: amount = min(capacity, theta weight), theta the smallest that uses the budget.

    Servers reach their capacity in the order of capacity / weight; each round fixes those
    that are full at the present theta and shares what is left among the others.
    """
    left, open_weight = budget, 0.0
    for r in order:
        if group[r] == 1:
            amount[r] = -1.0  # not full yet
            open_weight += weight[r]
    full = True
    while full and open_weight > 0.0:
        full = False
        theta = left / open_weight
        for r in order:
            if group[r] == 1 and amount[r] < 0.0 and capacity[r] <= theta * weight[r]:
                amount[r] = capacity[r]
                full = True
        left, open_weight = budget, 0.0
        for r in order:
            if group[r] == 1:
                if amount[r] < 0.0:
                    open_weight += weight[r]
                else:
                    left -= amount[r]
        left = max(left, 0.0)
    for r in order:
        if group[r] == 1 and amount[r] < 0.0:
            amount[r] = min(capacity[r], left / open_weight * weight[r])
    spent = 0.0
    for r in order:
        if group[r] == 1:
            spent += amount[r]
    return max(budget - spent, 0.0)


@jit
def round_largest_remainder(
    amount: Amounts, n: int, total: int, order: Servers, counts: Servers
) -> None:
    """Whole counts that sum to ``total``: floors of n amount, then the largest remainders.

    Implements: LAG Appendix A.2 (quoted); equal remainders (within ``FORGIVEN``) by ``order``
    (the tie order pi; of the groups of a waterfill only T has remainders, if C_r is whole).
    """
    left = total
    for r in order:
        counts[r] = np.int64(whole_part(n * amount[r]))
        left -= counts[r]
    for _ in range(left):
        best, best_remainder = order[0], 0.0
        for r in order:
            remainder = n * amount[r] - counts[r]  # negative once it has got its one
            if remainder > best_remainder + FORGIVEN:
                best, best_remainder = r, remainder
        if best_remainder == 0.0:
            break
        counts[best] += 1


@jit
def whole_part(x: float) -> float:
    """Floor that forgives rounding, so that 2.9999999999 counts as 3."""
    return np.floor(x + FORGIVEN)
