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

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from opportune.pricing.headcount_chain import HeadcountChain
from opportune.pricing.states import binomial_law

Float = NDArray[np.float64]
Int = NDArray[np.int64]


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
    """An upper bound of the number of states of an arm, without making it."""
    return len(_locals(copies, chain.k)) * (chain.size + 1)


def make_arm(copies: int, n_servers: int, chain: HeadcountChain) -> Arm:
    """The arm of a group of ``copies`` equal servers among ``n_servers``; full chain."""
    k, size = chain.k, chain.size
    tasks = _locals(copies, k)
    touching, holding = tasks.sum(axis=1), tasks @ np.arange(1, k + 1)
    local, level = (grid.ravel() for grid in np.indices((len(tasks), size + 1)))
    elsewhere = k * level - holding[local]
    real = (touching[local] <= level) & (elsewhere <= n_servers - copies)
    local, level, elsewhere = local[real], level[real], elsewhere[real]
    busy = holding[local]
    place = np.full((len(tasks), size + 1), -1)
    place[local, level] = np.arange(len(local))
    survive, others = _survivors(tasks, size, chain.end)
    number = {tuple(row): i for i, row in enumerate(tasks.tolist())}
    ended = (local, level, touching[local])
    stay = _law(ended, (survive, others), place, np.arange(len(tasks)), 0)
    least = np.maximum(k - (n_servers - copies - elsewhere), 0)
    most = np.minimum(copies - busy, k)
    state, take, laws = [], [], []
    for c in range(k + 1):
        fits = np.flatnonzero((level < size) & (least <= c) & (c <= most))
        grown = [
            number.get(tuple(row[:i] + [row[i] + 1] + row[i + 1 :]) if c else tuple(row), -1)
            for row in tasks.tolist()
            for i in [c - 1]
        ]
        rows = tuple(part[fits] for part in ended)
        laws.append(_law(rows, (survive, others), place, np.array(grown), 1))
        state.append(fits)
        take.append(np.full(len(fits), c))
    return Arm(
        local=local,
        locals=tasks,
        level=level,
        busy=busy,
        stay=stay,
        pair_state=np.concatenate(state),
        pair_take=np.concatenate(take),
        begin=csr_matrix(np.concatenate([law.toarray() for law in laws])),
    )
