"""The states of a memoryless loss system: how many running tasks of each kind.

All durations geometric. A *kind* of running task is who serves it (servers taken of each group
of equal servers, its *team*) and how fast it ends; tasks of a kind are interchangeable, so a
state is a count per kind, and every set of running tasks that fits the servers is reachable
from the empty system. With k = 1 and one mean a state is a busy count per group. (Ours.)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from opportune.errors import InputError, Problem
from opportune.kernels.states import Moves, Offers, thin
from opportune.model.duration import memoryless_mean
from opportune.model.loss import LossInstance
from opportune.pricing.merged import Merged, merge

Float = NDArray[np.float64]
Int = NDArray[np.int64]

MAX_STATES = 50_000
"""Default limit of the number of states."""

SWIFT = 1.0 - 1e-6
"""A kind that ends with at least this probability gets its expectations by a thinning of its
own (see ``kernels.states``)."""


@dataclass(frozen=True, eq=False)
class StateSpace:
    """All states of an instance, N of them, over J kinds of running tasks.

    State 0 is the empty system.

    Attributes:
        merged: The instance with equal servers and types merged.
        team: (J, G) servers of each group that a task of the kind takes.
        tasks: (N, J) running tasks of each kind.
        busy: (N, G) busy servers of each group.
        moves: Neighbors and endings, for the kernels.
        offers: What each class of types may be given, for the kernels; rewards divided by unit.
        unit: Largest match reward (1 if all are 0).
        swift: For the kernels: (J,) row of each kind that ends at once, or -1.
    """

    merged: Merged
    team: Int
    tasks: NDArray[np.uint16]
    busy: Int
    moves: Moves
    offers: Offers
    unit: float
    swift: NDArray[np.int32]

    @property
    def n_states(self) -> int:
        """Number of states N."""
        return len(self.busy)

    def begun(self, value: Float) -> tuple[Float, tuple[NDArray[np.int32], Float]]:
        """Expectations after one step of endings: without a new task, and of swift kinds."""
        after = value.copy()
        thin(after, self.moves)
        rows = np.flatnonzero(self.swift >= 0)
        swift = np.zeros((len(rows), self.n_states))
        for row, j in enumerate(rows):
            up = self.moves.up[:, j]
            swift[row] = np.where(up >= 0, value[up], 0.0)
            thin(swift[row], self.moves)
        return after, (self.swift, swift)


def memoryless_problem(instance: LossInstance) -> Problem | None:
    """What keeps the states of an instance from being counts, or None."""
    part_time = instance.one_headcount_problem("states that count busy servers")
    if part_time is not None:
        return part_time
    for v, duration in enumerate(instance.duration):
        if memoryless_mean((duration,)) is None:
            return Problem(
                f"duration[{v}]",
                f"{type(duration).__name__.lower()}, not memoryless",
                "geometric durations",
                "how long a task has run matters here; use the memoryless surrogate instead",
            )
    return None


def state_space(
    instance: LossInstance, limit: int = MAX_STATES, merge_servers: bool = True
) -> StateSpace:
    """Enumerate the states.

    Args:
        instance: All durations memoryless; means, servers per task and permitted pairs may
            differ between types.
        limit: Largest number of states.
        merge_servers: Count equal servers; otherwise every server is a group of its own.

    Raises:
        InputError: With the reason, if a duration is not memoryless or there are too many
            states.
    """
    problem = memoryless_problem(instance)
    if problem is not None:
        raise InputError(problem)
    merged = merge(instance, merge_servers)
    total = state_count(merged)
    if total is not None and total > limit:
        raise InputError(_too_many(f"{total:.6g}" if total > 1e15 else f"{int(total)}", limit))
    speed, teams = _kinds(merged, limit)
    tasks = _enumerate(teams, merged.copies, limit)
    end = 1.0 / np.array([merged.mean[c] for c in speed])
    unit = float(instance.match_reward.max()) or 1.0
    swift = np.full(len(end), -1, dtype=np.int32)
    swift[end > SWIFT] = np.arange(np.count_nonzero(end > SWIFT))
    return StateSpace(
        merged=merged,
        team=teams,
        tasks=tasks,
        busy=tasks.astype(np.int64) @ teams,
        moves=_moves(tasks, end),
        offers=_offers(merged, (speed, teams), unit),
        unit=unit,
        swift=swift,
    )


def state_count(merged: Merged) -> float | None:
    """Number of states where a product gives it (k = 1 for all types), else None."""
    if np.any(merged.k != 1):
        return None
    total = 1.0
    for g, copies in enumerate(merged.copies):
        speeds = len(np.unique(merged.mean[merged.allowed[:, g]]))
        total *= math.comb(int(copies) + speeds, speeds)
    return total


def _too_many(count: str, limit: int) -> Problem:
    return Problem(
        "states",
        f"{count} states of running tasks",
        f"at most {limit}",
        "use fewer servers, or more equal ones; or go by the headcount index",
    )


def _kinds(merged: Merged, limit: int) -> tuple[list[int], Int]:
    """Kinds of running tasks: a class with the mean and k of each, and the teams (J, G)."""
    speed: list[int] = []
    teams: list[Int] = []
    seen = set()
    for mean, k in sorted(set(zip(merged.mean.tolist(), merged.k.tolist(), strict=True))):
        alike = np.flatnonzero((merged.mean == mean) & (merged.k == k))
        for members in itertools.combinations_with_replacement(range(merged.n_groups), k):
            if len(speed) > limit:
                raise InputError(_too_many(f"more than {limit}", limit))
            groups = sorted(set(members))
            team = np.bincount(members, minlength=merged.n_groups)
            if np.all(team <= merged.copies) and merged.allowed[np.ix_(alike, groups)].all(1).any():
                key = (mean, team.tobytes())
                if key not in seen:
                    seen.add(key)
                    speed.append(int(alike[0]))
                    teams.append(team)
    return speed, np.array(teams, dtype=np.int64).reshape(len(teams), merged.n_groups)


def _enumerate(teams: Int, copies: Int, limit: int) -> NDArray[np.uint16]:
    """(N, J) all counts that fit, layer by layer of running tasks.

    A layer comes from the one before by one more task of the last kind present or a later one,
    so that every state appears once.
    """
    n_kinds = len(teams)
    layer = np.zeros((1, n_kinds), dtype=np.uint16)
    last = np.zeros(1, dtype=np.int64)
    layers, total = [layer], 1
    while len(layer):
        free = copies - layer.astype(np.int64) @ teams
        grown, grown_last = [], []
        for j in range(n_kinds):
            fits = np.flatnonzero((last <= j) & np.all(free >= teams[j], axis=1))
            total += len(fits)
            if total > limit:
                raise InputError(_too_many(f"more than {limit}", limit))
            more = layer[fits]
            more[:, j] += 1
            grown.append(more)
            grown_last.append(np.full(len(fits), j))
        layer, last = np.concatenate(grown), np.concatenate(grown_last)
        layers.append(layer)
    return np.concatenate(layers)


def _moves(tasks: NDArray[np.uint16], end: Float) -> Moves:
    """Neighbors by an additive hash of the counts: one more task adds the number of its kind."""
    n_states, n_kinds = tasks.shape
    draw = np.random.default_rng(0)
    number: NDArray[np.uint64] = draw.integers(1, 2**63, size=(n_kinds,), dtype=np.uint64)
    key: NDArray[np.uint64] = (tasks.astype(np.uint64) * number).sum(axis=1, dtype=np.uint64)
    order = np.argsort(key)
    ordered = key[order]
    if np.any(ordered[1:] == ordered[:-1]):
        raise ArithmeticError("two states share a hash")  # one chance in 10^10
    up = np.full((n_states, n_kinds), -1, dtype=np.int32)
    down = np.full((n_states, n_kinds), -1, dtype=np.int32)
    for j in range(n_kinds):
        wanted = key + number[j]
        place = np.minimum(np.searchsorted(ordered, wanted), n_states - 1)
        found = np.flatnonzero(ordered[place] == wanted)
        up[found, j] = order[place[found]]
        down[up[found, j], j] = found
    rows = [np.flatnonzero(tasks[:, j]) for j in range(n_kinds)]
    rows = [r[np.argsort(-tasks[r, j].astype(int), kind="stable")] for j, r in enumerate(rows)]
    counts = [tasks[r, j] for j, r in enumerate(rows)]
    most = int(tasks.max(initial=0))
    return Moves(
        up=up,
        down=down,
        row=np.concatenate(rows).astype(np.int32),
        start=np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64),
        running=np.concatenate(counts).astype(np.int32),
        ended=np.array([binomial_law(most, e) for e in end]).reshape(n_kinds, most + 1, most + 1),
        end=end,
    )


def binomial_law(most: int, p: float) -> Float:
    """(most+1, most+1) P(Binomial(n, p) = d) at [n, d], 0 for d > n; relative error 1e-13."""
    n, d = np.arange(most + 1)[:, None], np.arange(most + 1)[None, :]
    if p >= 1.0:
        return np.asarray(n == d, dtype=np.float64)
    kept = np.maximum(n - d, 0)
    log: Float = (
        gammaln(n + 1) - gammaln(d + 1) - gammaln(kept + 1) + d * np.log(p) + kept * np.log1p(-p)
    )
    law: Float = np.where(d <= n, np.exp(log), 0.0)
    return law


def _offers(merged: Merged, kinds: tuple[list[int], Int], unit: float) -> Offers:
    speed, teams = kinds
    mean = merged.mean[speed]
    size = teams.sum(axis=1)
    start, kind, reward = [0], [], []
    for c in range(merged.n_classes):
        permitted = ~np.any((teams > 0) & ~merged.allowed[c], axis=1)
        own = np.flatnonzero((mean == merged.mean[c]) & (size == merged.k[c]) & permitted)
        kind.append(own)
        reward.append(teams[own] @ merged.reward[c] / unit)
        start.append(start[-1] + len(own))
    return Offers(
        rate=merged.rate,
        start=np.array(start, dtype=np.int64),
        kind=np.concatenate(kind).astype(np.int32),
        reward=np.concatenate(reward),
    )
