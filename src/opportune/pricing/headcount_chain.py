"""The headcount chain: tasks in service N, and how one busy server sees it move.

Without forbidden pairs, with one k and memoryless durations of one mean, N follows the same
chain under every work-conserving policy (LAG Lemma 3.1, quoted): from n, c ~ Binomial(n, f) tasks
end, f = 1 / E[D], and one begins with probability L = sum lambda if n < M = floor(R / k). The new
task cannot end in the same step. Kernels of one server, rows n, columns n' (ours):

    A(n,n') = P(Bin(n,f) = n+1-n')                          taken at n: it is busy at n'
    C(n,n') = (1-f) [L P(Bin(n-1,f) = n+1-n') + (1-L) P(Bin(n-1,f) = n-n')]      busy, stays busy
    C(M,n') = (1-f) P(Bin(M-1,f) = M-n')
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import Problem
from opportune.kernels.markov import headcount_transition, stationary
from opportune.model.loss import LossInstance
from opportune.pricing.states import binomial_law, memoryless_problem

Float = NDArray[np.float64]

MAX_HEADCOUNT = 2000
"""Largest M for which the chain is built (its cost grows with M cubed)."""


@dataclass(frozen=True, eq=False)
class HeadcountChain:
    """The chain on the levels low, ..., high that are kept.

    *Take levels* are those at which a task can begin (all but M): P of them. *Busy levels* are
    those at which a server can be busy (all but 0): Q of them.

    Attributes:
        size: M, the largest number of tasks in service.
        low: Lowest level kept.
        high: Highest level kept.
        arrival: L, probability that a step brings a task.
        end: f, probability that a task ends at a step.
        k: Servers per task.
        law: (high - low + 1,) stationary law of the levels kept.
        taken: (P, Q) A: take levels by busy levels.
        busy: (Q, Q) C: busy levels by busy levels.
        forced: Place among the take levels of n = M - 1 if every free server is taken there
            (R = M k), else None.
    """

    size: int
    low: int
    high: int
    arrival: float
    end: float
    k: int
    law: Float
    taken: Float
    busy: Float
    forced: int | None

    @property
    def take_levels(self) -> NDArray[np.int64]:
        """(P,) headcounts at which a task can begin."""
        return np.arange(self.low, min(self.high, self.size - 1) + 1)

    @property
    def busy_levels(self) -> NDArray[np.int64]:
        """(Q,) headcounts at which a server can be busy."""
        return np.arange(max(self.low, 1), self.high + 1)

    @property
    def take_law(self) -> Float:
        """(P,) stationary law of the take levels."""
        return self.law[: len(self.taken)]

    @property
    def busy_law(self) -> Float:
        """(Q,) stationary law of the busy levels."""
        return self.law[-len(self.busy) :]

    @property
    def overlap(self) -> tuple[slice, slice]:
        """Where the levels that are both lie among the take and among the busy levels."""
        skipped = max(self.low, 1) - self.low
        n = len(self.taken) - skipped
        return slice(skipped, skipped + n), slice(0, n)


def headcount_problem(instance: LossInstance, surrogate: bool = False) -> Problem | None:
    """Why the headcount of an instance is no chain that all policies share, or None.

    Args:
        instance: The instance.
        surrogate: Durations may be anything: the memoryless surrogate is meant.
    """
    if instance.has_forbidden_pairs:
        return Problem(
            "allowed",
            "forbidden pairs",
            "every pair permitted",
            "the headcount depends on the policy here; the proven bound is OCC-LP(<=)",
        )
    part_time = instance.one_headcount_problem("the headcount chain")
    if part_time is not None:
        return part_time
    if instance.one_k is None:
        return Problem(
            "servers_per_task", "differs between task types", "one number of servers per task"
        )
    if not surrogate:
        problem = memoryless_problem(instance)
        if problem is not None:
            return problem
        if instance.memoryless_mean is None:
            return Problem(
                "duration",
                "mean durations differ between task types",
                "one mean",
                "the headcount alone is no chain; use the surrogate of the same load",
            )
    size = instance.n_servers // instance.one_k
    if size > MAX_HEADCOUNT:
        return Problem("servers", f"up to {size} tasks in service", f"at most {MAX_HEADCOUNT}")
    return None


def surrogate_mean(instance: LossInstance) -> float:
    """Mean duration of an arriving task in steps: sum lambda E[D] / sum lambda."""
    total = float(instance.arrival_rate.sum())
    if not total > 0:
        return float(instance.mean_duration.mean())
    return float(instance.arrival_rate @ instance.mean_duration) / total


def headcount_chain(instance: LossInstance, keep: float = 0.0) -> HeadcountChain:
    """The chain of an instance, or of its memoryless surrogate of the same mean duration.

    Args:
        instance: No forbidden pairs and one k (see :func:`headcount_problem`).
        keep: Levels whose stationary probability is below this share of the largest are left
            out at both ends; moves across a border stop there.
    """
    k = int(instance.servers_per_task[0])
    size = instance.n_servers // k
    arrival, end = float(min(instance.arrival_rate.sum(), 1.0)), 1.0 / surrogate_mean(instance)
    move = headcount_transition(size, arrival, end)
    if arrival > 0:
        law = stationary(move)
    else:
        law = np.zeros(size + 1)
        law[0] = 1.0
    likely = np.flatnonzero(law >= keep * law.max())
    low, high = int(likely[0]), max(int(likely[-1]), 1)
    taken, busy = _server_kernels(size, arrival, end)
    if low > 0 or high < size:
        law = stationary(_fold(move, low, high)) if arrival > 0 else law[low : high + 1]
        taken = _fold_columns(taken[low : min(high, size - 1) + 1], low, high)
        busy = _fold_columns(busy[max(low, 1) - 1 : high], low, high)
    last = min(high, size - 1)
    forced = instance.n_servers == size * k and last == size - 1
    return HeadcountChain(
        size=size,
        low=low,
        high=high,
        arrival=arrival,
        end=end,
        k=k,
        law=law,
        taken=np.ascontiguousarray(taken),
        busy=np.ascontiguousarray(busy),
        forced=last - low if forced else None,
    )


def _server_kernels(size: int, arrival: float, end: float) -> tuple[Float, Float]:
    """A (rows 0..M-1) and C (rows 1..M), columns 1..M, of the full chain."""
    ended = binomial_law(size, end)
    n, to = np.arange(size)[:, None], np.arange(1, size + 1)[None, :]
    gone = n + 1 - to
    taken = np.where(gone >= 0, ended[n, np.maximum(gone, 0)], 0.0)
    # The other n - 1 tasks: as seen with n' = n + 1 - (ended others) after an arrival.
    others = np.arange(size)[:, None]  # n - 1 for n = 1..M
    with_task = np.where(others + 2 - to >= 0, ended[others, np.maximum(others + 2 - to, 0)], 0.0)
    without = np.where(others + 1 - to >= 0, ended[others, np.maximum(others + 1 - to, 0)], 0.0)
    busy = (1.0 - end) * (arrival * with_task + (1.0 - arrival) * without)
    busy[-1] = (1.0 - end) * without[-1]
    return taken, busy


def _fold(move: Float, low: int, high: int) -> Float:
    """A transition matrix on the levels low..high: what leaves them stops at the border."""
    kept = move[low : high + 1, low : high + 1].copy()
    kept[:, 0] += move[low : high + 1, :low].sum(axis=1)
    kept[:, -1] += move[low : high + 1, high + 1 :].sum(axis=1)
    return kept


def _fold_columns(kernel: Float, low: int, high: int) -> Float:
    """Columns 1..M of a server's kernel on the busy levels kept."""
    first = max(low, 1)
    kept = kernel[:, first - 1 : high].copy()
    kept[:, 0] += kernel[:, : first - 1].sum(axis=1)
    kept[:, -1] += kernel[:, high:].sum(axis=1)
    return kept
