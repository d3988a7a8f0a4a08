"""Expectations over the states of a memoryless loss system, matrix-free.

A state counts the running tasks of each *kind* j (who serves it, how fast it ends); kind j ends
with probability ``end[j]`` at each step, independently. The one-step kernel is a product of
binomial thinnings, one kind after another, so no transition matrix is ever stored.

A task that begins cannot end in the same step. Its expectation needs no thinning of its own: the
survivors of one more running task are the survivors, and that task unless it ended, so with
z(b) = E[h(survivors of b)],  z(b + e_j) = (1 - end_j) E[h(survivors of b + e_j)] + end_j z(b).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit


class Moves(NamedTuple):
    """Neighbors of N states in J kinds of running tasks."""

    up: NDArray[np.int32]  # (N, J) state with one more task of kind j, -1 where none fits
    down: NDArray[np.int32]  # (N, J) state with one task of kind j less, -1 where none runs
    row: NDArray[np.int32]  # states in which kind j runs, most tasks of it first
    start: NDArray[np.int64]  # (J+1,) where those of kind j start
    running: NDArray[np.int32]  # how many tasks of kind j run in that state
    ended: NDArray[np.float64]  # (J, M+1, M+1) P(Binomial(n, end[j]) = d) at [j, n, d]
    end: NDArray[np.float64]  # (J,)


class Offers(NamedTuple):
    """What each class of task types may be given, and what it earns."""

    rate: NDArray[np.float64]  # (C,) arrival probability
    start: NDArray[np.int64]  # (C+1,) where the kinds of class c start
    kind: NDArray[np.int32]  # kinds open to class c, best ones first where they tie
    reward: NDArray[np.float64]  # reward of the task with those servers


@jit
def thin(value: NDArray[np.float64], moves: Moves) -> None:
    """Replace value (N,) by its expectation after one step of endings, in place.

    States with most tasks of a kind come first, so those with fewer still hold the old value.
    """
    for j in range(moves.start.shape[0] - 1):
        for e in range(moves.start[j], moves.start[j + 1]):
            state, n = moves.row[e], moves.running[e]
            total, other = 0.0, state
            for d in range(n + 1):
                total += moves.ended[j, n, d] * value[other]
                other = moves.down[other, j]
            value[state] = total


@jit
def improve(
    after: NDArray[np.float64],
    moves: Moves,
    offers: Offers,
    swift: tuple[NDArray[np.int32], NDArray[np.float64]],
    slack: float,
    result: tuple[NDArray[np.float64], NDArray[np.int32]],
) -> None:
    """One step of the optimality equation: value and best kind for each state and class.

    Args:
        after: (N,) expected value after one step of endings.
        moves: Neighbors.
        offers: What each class may be given.
        swift: Kinds that end within the step (``end`` near 1), where the identity above
            divides by 0: (J,) row of each in the second array or -1, and their expectations
            (rows, N).
        slack: An action that was there before stays unless another is better by more.
        result: (N,) value and (N, C) action, -1 where the task is dropped.
    """
    value, action = result
    for state in range(after.shape[0]):
        stay = after[state]
        total, arrival = 0.0, 0.0
        for c in range(offers.rate.shape[0]):
            best, chosen, before = -np.inf, -1, -np.inf
            for e in range(offers.start[c], offers.start[c + 1]):
                j = offers.kind[e]
                if moves.up[state, j] < 0:
                    continue
                if swift[0][j] >= 0:
                    worth = offers.reward[e] + swift[1][swift[0][j], state]
                else:
                    later = after[moves.up[state, j]] - moves.end[j] * stay
                    worth = offers.reward[e] + later / (1.0 - moves.end[j])
                if j == action[state, c]:
                    before = worth
                if worth > best:
                    best, chosen = worth, j
            if chosen < 0:
                best = stay
            elif before >= best - slack:
                chosen = action[state, c]
            action[state, c] = chosen
            total += offers.rate[c] * best
            arrival += offers.rate[c]
        value[state] = total + (1.0 - arrival) * stay


@jit
def follow(
    after: NDArray[np.float64],
    moves: Moves,
    weight: NDArray[np.float64],
    swift: tuple[NDArray[np.int32], NDArray[np.float64]],
    value: NDArray[np.float64],
) -> None:
    """Expected value after one step under a fixed policy.

    Args:
        after: (N,) expected value after one step of endings.
        moves: Neighbors.
        weight: (N, J) probability that a step brings a task that gets kind j.
        swift: As for :func:`improve`.
        value: (N,) receives the result.
    """
    for state in range(after.shape[0]):
        stay = after[state]
        total, arrival = 0.0, 0.0
        for j in range(weight.shape[1]):
            w = weight[state, j]
            if w > 0.0:
                if swift[0][j] >= 0:
                    total += w * swift[1][swift[0][j], state]
                else:
                    later = after[moves.up[state, j]] - moves.end[j] * stay
                    total += w * later / (1.0 - moves.end[j])
                arrival += w
        value[state] = total + (1.0 - arrival) * stay
