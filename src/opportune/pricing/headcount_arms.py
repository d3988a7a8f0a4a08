"""A group of equal servers as a decision problem of its own: its tasks, and the headcount.

The arm of a group of m equal servers has state (l, n): l = (l_1, ..., l_k) counts the tasks that
hold c = 1, ..., k servers of the group, n is the number of tasks in service anywhere. Given how
many servers c the group contributes to each arriving task, (l, n) is Markov: the tasks of l and
the n - |l| others end independently. So this form is valid for every k; with k = 1, l is the
number of busy servers. (Ours; the notes had k = 1 only.)

At headcount n < M an arrival takes c of the group, k - c elsewhere, so c is at least k minus the
free servers elsewhere and at most k and the free servers here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from opportune.pricing.headcount_chain import HeadcountChain
from opportune.pricing.states import binomial_law

Float = NDArray[np.float64]
Int = NDArray[np.int64]


MANY = 10**9
"""States that are never made: what is more is not counted."""


@dataclass(frozen=True, eq=False)
class Arm:
    """States and moves of a group. S states, E pairs of a state and an action.

    Attributes:
        local: (S,) number of l.
        locals: (n_local, k) the l themselves, the empty one first.
        level: (S,) headcount n.
        busy: (S,) busy servers of the group.
        stay: (S, S) law of the next state without an arrival.
        pair_state: (E,) state of each pair, all with n < M.
        pair_take: (E,) servers c taken in it.
        begin: (E, S) law of the next state when a task arrives and takes c here.
    """

    local: Int
    locals: Int
    level: Int
    busy: Int
    stay: csr_matrix
    pair_state: Int
    pair_take: Int
    begin: csr_matrix

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(self.level)


def count_arm_states(copies: int, chain: HeadcountChain) -> int:
    """An upper bound of the number of states of an arm, without making it.

    Beyond ``MANY`` counting ends, with a number that is more than that.
    """
    return count_locals(copies, chain.k) * (chain.size + 1)


def count_locals(copies: int, k: int) -> int:
    """How many counts of tasks there are that hold 1, ..., k of the servers, or more than MANY."""
    ways = [1] + [0] * copies  # by servers held
    for c in range(1, min(k, copies) + 1):
        for n in range(c, copies + 1):
            ways[n] += ways[n - c]
        if sum(ways) > MANY:
            break
    return sum(ways)


def make_arm(copies: int, n_servers: int, chain: HeadcountChain) -> Arm:
    """The arm of a group of ``copies`` equal servers among ``n_servers``; full chain."""
    k, size = chain.k, chain.size
    tasks = _locals(copies, k)
    touching, holding = tasks.sum(axis=1), tasks @ np.arange(1, k + 1)
    local, level = (grid.ravel() for grid in np.indices((len(tasks), size + 1)))
    elsewhere = k * level - holding[local]
    real = (touching[local] <= level) & (elsewhere <= n_servers - copies)
    local, level, elsewhere = local[real], level[real], elsewhere[real]
    place = np.full((len(tasks), size + 1), -1)
    place[local, level] = np.arange(len(local))
    number = {tuple(row): i for i, row in enumerate(tasks.tolist())}
    unit = np.vstack([np.zeros(k, dtype=np.int64), np.eye(k, dtype=np.int64)])
    grown = [np.array([number.get(tuple(row), -1) for row in (tasks + e).tolist()]) for e in unit]
    survive, ended = _survivors(tasks, chain.end), binomial_law(size, chain.end)
    least = np.maximum(k - (n_servers - copies - elsewhere), 0)
    most = np.minimum(copies - holding[local], k)
    state, take, laws = [], [], []
    for c in range(k + 1):
        fits = np.flatnonzero((level < size) & (least <= c) & (c <= most))
        laws.append(_law((local[fits], level[fits]), (survive, ended), (place, touching), grown[c]))
        state.append(fits)
        take.append(np.full(len(fits), c))
    return Arm(
        local=local,
        locals=tasks,
        level=level,
        busy=holding[local],
        stay=_law((local, level), (survive, ended), (place, touching), None),
        pair_state=np.concatenate(state),
        pair_take=np.concatenate(take),
        begin=csr_matrix(vstack(laws)),
    )


def _locals(copies: int, k: int) -> Int:
    """(n, k) all counts of tasks that hold 1, ..., k of the servers, the empty one first."""
    rows: list[tuple[tuple[int, ...], int]] = [((), copies)]
    for c in range(1, k + 1):
        rows = [((*row, m), left - c * m) for row, left in rows for m in range(left // c + 1)]
    return np.array([row for row, _ in rows], dtype=np.int64)


def _survivors(tasks: Int, end: float) -> Float:
    """(n, n) law of the tasks left of each local state after one step of endings."""
    ended = binomial_law(int(tasks.max(initial=0)), end)
    law = np.ones((len(tasks), len(tasks)))
    for column in tasks.T:
        gone = column[:, None] - column[None, :]
        law *= np.where(gone >= 0, ended[column[:, None], np.maximum(gone, 0)], 0.0)
    return law


def _law(
    states: tuple[Int, Int],
    endings: tuple[Float, Float],
    where: tuple[Int, Int],
    grown: Int | None,
) -> csr_matrix:
    """(rows, S) law of the next state of each given one.

    Args:
        states: Local state and headcount of each row.
        endings: Survivors of a local state, and P(Binomial = d) of the other tasks.
        where: (n_local, M+1) number of each state, and the tasks of each local state.
        grown: Local state with the new task, for each; None if no task begins.
    """
    (local, level), (survive, ended), (place, touching) = states, endings, where
    row, column, value = [], [], []
    for before, after in zip(*np.nonzero(survive), strict=True):
        rows = np.flatnonzero(local == before)
        others = level[rows] - touching[before]
        for gone in range(int(others.max(initial=-1)) + 1):
            some = others >= gone
            n = others[some] - gone + touching[after]
            target = after if grown is None else grown[after]
            row.append(rows[some])
            column.append(place[target, n if grown is None else n + 1])
            value.append(survive[before, after] * ended[others[some], gone])
    shape = (len(local), int(place.max()) + 1)
    if not row:
        return csr_matrix(shape)
    entries = (np.concatenate(row), np.concatenate(column))
    return csr_matrix((np.concatenate(value), entries), shape=shape)
