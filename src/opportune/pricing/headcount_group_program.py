"""HC-group-LP as a program, all variables conditional on the headcount.

Columns of each arm: x(l|n), then y_vc(l|n) = u_vc(l|n) / lambda_v for every pair of a state and
an action, type by type. Rows: demand of every type and headcount; then of each arm sum_l x = 1 by
headcount, the balance of every state but the empty ones, and sum_c y_vc = x by type and state.
The balance of the empty states and the headcount rows follow from these and are left out. With
weights pi_n P(n -> n') / pi_n', all at most 1, no row is ill-scaled however rare its headcount
(leaving rare headcounts out made the rows of their neighbors inconsistent); headcounts that
never occur are left out, rows and columns empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.pricing.headcount_arms import Arm
from opportune.pricing.headcount_chain import HeadcountChain
from opportune.pricing.lp import Program
from opportune.pricing.merged import Merged

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Entries = list[tuple[Int, Int, Float]]

NEVER = 1e-200
"""Headcounts this much rarer than the commonest count as impossible."""


def group_program(
    merged: Merged, chain: HeadcountChain, arms: tuple[Arm, ...], unit: float
) -> Program:
    """The program; its first C * M rows are the demand rows, by class and headcount.

    Args:
        merged: Arriving classes C and groups.
        chain: The headcount chain, all levels.
        arms: One for each group.
        unit: Rewards are divided by it.
    """
    real = chain.law >= NEVER * chain.law.max()
    n_classes, n_levels = merged.n_classes, chain.size + 1
    demanded = real[:-1].copy()
    if chain.forced is not None:  # follows from the rest there
        demanded[chain.forced] = False
    entries: Entries = []
    right, bound, cost = [np.full(n_classes * chain.size, float(chain.k))], [], []
    bound.append(np.tile(demanded, n_classes))
    row, column = n_classes * chain.size, 0
    for g, arm in enumerate(arms):
        n, pairs, serving = arm.n_states, len(arm.pair_state), np.unique(arm.pair_state)
        entries += _shifted(_state_entries(chain, arm, real), row, column)
        cost.append(np.zeros(n))
        level = arm.level[arm.pair_state]
        for v in range(n_classes):
            y = column + n + v * pairs
            first = row + n_levels + n + v * len(serving)
            entries += _choice_entries(arm, first, column, y)
            entries += _shifted(_taking_entries(chain, arm, merged.rate[v], real), row, y)
            takes = np.where(demanded[level], arm.pair_take, 0).astype(np.float64)
            entries.append((v * chain.size + level, y + np.arange(pairs), takes))
            reward = merged.rate[v] * merged.reward[v, g] / unit
            cost.append(chain.law[level] * reward * arm.pair_take)
        counts = real[arm.level]
        right += [np.ones(n_levels), np.zeros(n + n_classes * len(serving))]
        bound += [real, counts & (arm.local > 0), np.tile(counts[serving], n_classes)]
        column += n + n_classes * pairs
        row += n_levels + n + n_classes * len(serving)
    return _assemble(entries, (np.concatenate(right), np.concatenate(bound)), np.concatenate(cost))


def _shifted(entries: Entries, row: int, column: int) -> Entries:
    return [(one + row, other + column, value) for one, other, value in entries]


def _state_entries(chain: HeadcountChain, arm: Arm, real: Bool) -> Entries:
    """Entries of the columns x in the rows sum_l x = 1 and in the balance, from 0."""
    state = np.arange(arm.n_states)
    quiet = np.where(arm.level < chain.size, 1.0 - chain.arrival, 1.0)
    still = arm.stay.tocoo()
    value = still.data * quiet[still.row] * _backward(chain, arm, (still.row, still.col), real)
    first = chain.size + 1
    return [
        (arm.level, state, np.ones(len(state))),
        (first + still.col.astype(np.int64), still.row.astype(np.int64), value),
        (first + state, state, -np.ones(len(state))),
    ]


def _taking_entries(chain: HeadcountChain, arm: Arm, rate: float, real: Bool) -> Entries:
    """Entries of the columns y of one type in the balance, from 0."""
    flow = arm.begin.tocoo()
    before = arm.pair_state[flow.row]
    value = rate * flow.data * _backward(chain, arm, (before, flow.col), real)
    return [(chain.size + 1 + flow.col.astype(np.int64), flow.row.astype(np.int64), value)]


def _backward(chain: HeadcountChain, arm: Arm, moves: tuple[Int, Int], real: Bool) -> Float:
    """pi_n / pi_n' of moves from one state to another; 0 if either never occurs."""
    before, after = arm.level[moves[0]], arm.level[moves[1]]
    both = real[before] & real[after]
    law = chain.law
    return np.divide(law[before], law[after], out=np.zeros(len(before)), where=both)


def _choice_entries(arm: Arm, first: int, column: int, y: int) -> Entries:
    """Entries of sum_c y_vc(l|n) = x(l|n) for one type; its rows begin at ``first``."""
    serving = np.unique(arm.pair_state)
    row_of = np.full(arm.n_states, -1)
    row_of[serving] = first + np.arange(len(serving))
    pairs = len(arm.pair_state)
    return [
        (row_of[arm.pair_state], y + np.arange(pairs), np.ones(pairs)),
        (row_of[serving], column + serving, -np.ones(len(serving))),
    ]


def _assemble(entries: Entries, rows: tuple[Float, Bool], cost: Float) -> Program:
    """One program; entries of the same place add up, rows that do not count are free."""
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    right, counts = rows
    used = counts[row] & (value != 0)
    key, place = np.unique(row[used] * len(cost) + column[used], return_inverse=True)
    return Program(
        cost=cost,
        lower=np.zeros(len(cost)),
        upper=np.full(len(cost), np.inf),  # x <= 1 follows
        row_lower=np.where(counts, right, -np.inf),
        row_upper=np.where(counts, right, np.inf),
        row=key // len(cost),
        column=key % len(cost),
        value=np.bincount(place, weights=value[used]).astype(np.float64),
    )
