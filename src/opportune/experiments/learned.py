"""Compare policies that learn: reward beside a named ceiling, tasks to get near it, regret, waits.

All policies of a replication see the same tasks, durations and outcome uniforms. Percentages are of
the ceiling ``lag-known``: LAG on the true scores with one tie rule, not the optimum, so a learner
may exceed it. Definitions (``learned.md`` 1): windows have 40 log-spaced edges from task 50 on;
tasks to x % is the first edge after which the mean reward over replications is at least x % of the
ceiling's in every later window; regret is in tasks' worth of the ceiling's mean reward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.experiments.backends import Workers
from opportune.experiments.learn_settings import LearnSettings
from opportune.experiments.metrics import half_width
from opportune.experiments.settings import Progress
from opportune.experiments.workers import Watch, run_pieces
from opportune.model.hidden import HiddenWorld
from opportune.policies.beliefs import learned_policy, trait
from opportune.simulate.learned import simulate_learned

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SHARES = (90, 95, 99)
"""Percent of the ceiling that ``tasks_to`` is about."""

FIRST_EDGE, N_EDGES = 50, 40
"""First edge of the windows, in tasks, and how many edges there are."""

FORCED = "+forced"
"""What the id of a row with a forced share ends in."""

PAIRS = (
    ("lag-known", "greedy-known"),
    ("lag-known-features", "greedy-known-features"),
    ("lag-learned", "greedy-learned"),
    ("lag-effects", "greedy-learned"),
    ("lag-mean", "greedy-learned"),
    ("lag-features", "greedy-features"),
)
"""LAG and greedy on the same knowledge: what prices are worth."""

KNOWN_OF = {"lag-features": "lag-known-features"}
"""Known-score partner of a learner, where it is not the ceiling."""


@dataclass(frozen=True, eq=False)
class LearnedRuns:
    """What is kept of every replication n and row p.

    Attributes:
        grid: (G,) numbers of tasks.
        reward: (n, p, G) reward of the first ``grid`` tasks.
        dropped: (n, p) tasks without a start.
        wait: (n, p) mean steps from arrival to start.
        wait_p99: (n, p) 99th percentile of them.
        forced: (n, p) tasks that the forced share decided.
        solves: (n, p) rankings made.
    """

    grid: Int
    reward: Float
    dropped: Int
    wait: Float
    wait_p99: Float
    forced: Int
    solves: Int


@dataclass(frozen=True)
class LearnedRow:
    """One policy beside the ceiling.

    Attributes:
        policy: Policy id, with ``+forced`` where a forced share is on top.
        reward: Reward per 100 tasks.
        second_half: Percent of the ceiling's reward in the second half of the tasks.
        half_width: 95 % half width of it, paired by replication.
        tasks_to: For each of ``SHARES``, tasks until the reward stays above; None for never.
        regret: Tasks' worth of the ceiling's reward lost over the whole run.
        regret_half_width: 95 % half width of it.
        dropped: Share of tasks without a start.
        wait: Mean steps from arrival to start.
        wait_p99: 99th percentile of them.
        solves: Rankings made per replication.
        forced: Share of tasks that the forced share decided.
    """

    policy: str
    reward: float
    second_half: float
    half_width: float
    tasks_to: tuple[int | None, ...]
    regret: float
    regret_half_width: float
    dropped: float
    wait: float
    wait_p99: float
    solves: float
    forced: float


@dataclass(frozen=True)
class Gain:
    """A paired difference in the second half, per 100 tasks.

    Attributes:
        policy: The one.
        other: Minus the other.
        known: Whether both know the scores.
        difference: Reward per 100 tasks.
        half_width: 95 % half width over replications.
        percent: Difference in percent of the other's reward.
        errors: Difference in standard errors; 0 with one replication.
    """

    policy: str
    other: str
    known: bool
    difference: float
    half_width: float
    percent: float
    errors: float


@dataclass(frozen=True, eq=False)
class LearnedComparison:
    """The result of :func:`compare_learned`."""

    world: HiddenWorld
    settings: LearnSettings
    tasks: int
    names: tuple[str, ...]
    runs: LearnedRuns
    rows: tuple[LearnedRow, ...]
    gains: tuple[Gain, ...]

    def row(self, name: str) -> LearnedRow:
        """The row of a policy id.

        Raises:
            InputError: If that policy was not run.
        """
        return self.rows[self._place(name)]

    def gain(self, policy: str, other: str) -> Gain:
        """Paired difference of two rows in the second half, per 100 tasks.

        Raises:
            InputError: If one of them was not run.
        """
        known = all(
            trait(learned_policy(one.removesuffix(FORCED)), "knows_scores")
            for one in (policy, other)
        )
        return _gain(self.runs, self.names, (policy, other), known)

    def forced_price(self, name: str) -> tuple[float, float]:
        """What a forced share costs over the whole run: reward per 100 tasks, 95 % half width.

        Args:
            name: Id of the policy without it.

        Raises:
            InputError: If it was not run, or not with a forced share.
        """
        own, forced = self._place(name), self._place(name + FORCED)
        reward = 100.0 * self.runs.reward[:, :, -1] / self.tasks
        lost = reward[:, own] - reward[:, forced]
        return float(lost.mean()), half_width(lost)

    def windows(self) -> tuple[Int, Float]:
        """(W + 1,) edges, and (p, W) mean reward over replications as a share of the ceiling's."""
        edges = self.runs.grid[np.isin(self.runs.grid, window_edges(self.tasks))]
        return edges, _shares(self.runs, edges)

    def regret(self) -> tuple[Int, Float]:
        """(G,) tasks, and (p, G) mean regret up to them in tasks' worth of the ceiling."""
        return self.runs.grid, _regrets(self.runs).mean(axis=0)

    def _place(self, name: str) -> int:
        if name not in self.names:
            expected = f"one of the rows: {', '.join(self.names)}"
            raise InputError(Problem("policy", repr(name), expected))
        return self.names.index(name)


def compare_learned(
    world: HiddenWorld, settings: LearnSettings | None = None, progress: Progress | None = None
) -> LearnedComparison:
    """Run learners and the ceiling on the same tasks.

    Args:
        world: The truth.
        settings: Policies, tasks, replications, mode; defaults as documented.
        progress: Called with the share of the work done.

    Raises:
        InputError: If a policy cannot be used, or there are fewer tasks on record.
    """
    settings = LearnSettings() if settings is None else settings
    recorded = world.recorded
    tasks = settings.tasks or (30_000 if recorded is None else recorded.n_tasks)
    ids = settings.policy_ids(recorded is not None)
    learners = [one for one in ids if not trait(learned_policy(one), "is_static")]
    names = (*ids, *(one + FORCED for one in learners if settings.forced.share > 0))
    work = replace(settings, tasks=tasks)
    parts: dict[int, tuple[Float, ...]] = {}

    def done(i: int, part: tuple[Float, ...]) -> None:
        parts[i] = part
        if progress is not None:
            text = f"replication {len(parts)} of {settings.replications}"
            progress(len(parts) / settings.replications, text)

    items = [(world, work, names, i) for i in range(settings.replications)]
    run_pieces(_replication, items, Workers(settings.workers, settings.backend), done)
    grid = task_grid(tasks)
    stacked = [
        np.array(columns) for columns in zip(*(parts[i] for i in sorted(parts)), strict=True)
    ]
    runs = LearnedRuns(grid, *stacked)
    gains = tuple(
        _gain(runs, names, pair, i < 2) for i, pair in enumerate(PAIRS) if set(pair) <= set(names)
    )
    return LearnedComparison(world, settings, tasks, names, runs, _rows(names, runs, tasks), gains)


def window_edges(tasks: int) -> Int:
    """Edges of the windows: 40 from task 50 to the last, log-spaced; fewer in short runs."""
    first = min(FIRST_EDGE, max(tasks // 2, 1))
    return np.unique(np.geomspace(first, tasks, N_EDGES).round().astype(np.int64))


def task_grid(tasks: int) -> Int:
    """Numbers of tasks at which rewards are kept: edges, halvings, and some for pictures."""
    halvings = [tasks >> i for i in range(64) if tasks >> i > 0]
    even = np.linspace(0, tasks, 101).round().astype(np.int64)
    return np.unique(np.concatenate([window_edges(tasks), halvings, even]))


def doublings(result: LearnedComparison, name: str) -> list[tuple[int, int, float]]:
    """(from, to, regret per task) between halvings of the number of tasks, from 100 tasks on."""
    at = [result.tasks >> i for i in range(64) if result.tasks >> i >= 100][::-1]
    grid, regret = result.regret()
    own = regret[result.names.index(name)]
    total = {int(tasks): float(value) for tasks, value in zip(grid, own, strict=True)}
    return [(a, b, (total[b] - total[a]) / (b - a)) for a, b in pairwise(at)]


def _replication(
    item: tuple[HiddenWorld, LearnSettings, tuple[str, ...], int], watch: Watch
) -> tuple[Float, ...]:
    """Arrays of one replication, in the order of ``LearnedRuns``."""
    world, settings, names, replication = item
    streams = world.streams(settings.tasks, settings.seed, replication)
    grid = task_grid(settings.tasks)
    kept: list[list[object]] = [[] for _ in range(6)]
    for name in names:
        policy = learned_policy(name.removesuffix(FORCED))
        forced = settings.forced if name.endswith(FORCED) else None
        trace = simulate_learned(world, streams, policy, settings.run, forced, watch)
        total = np.concatenate([[0.0], np.cumsum(trace.reward)])
        waited = trace.wait[trace.wait >= 0]
        any_waits = len(waited) > 0
        values = (
            total[grid],
            int((trace.wait < 0).sum()),
            float(waited.mean()) if any_waits else 0.0,
            float(np.percentile(waited, 99)) if any_waits else 0.0,
            int(trace.forced.sum()),
            trace.solves,
        )
        for column, value in zip(kept, values, strict=True):
            column.append(value)
    return tuple(np.array(column) for column in kept)


def _rows(names: tuple[str, ...], runs: LearnedRuns, tasks: int) -> tuple[LearnedRow, ...]:
    edges = window_edges(tasks)
    shares = _shares(runs, edges)
    late = _second_half(runs)
    regret = _regrets(runs)[:, :, -1]
    rows = []
    for p, name in enumerate(names):
        ratio = 100.0 * _divided(late[:, p], late[:, 0])
        rows.append(
            LearnedRow(
                policy=name,
                reward=float(100.0 * runs.reward[:, p, -1].mean() / tasks),
                second_half=float(100.0 * _divided(late[:, p].mean(), late[:, 0].mean())),
                half_width=half_width(ratio) if p > 0 else 0.0,
                tasks_to=tuple(_tasks_to(edges, shares[p], share) for share in SHARES),
                regret=float(regret[:, p].mean()),
                regret_half_width=half_width(regret[:, p]) if p > 0 else 0.0,
                dropped=float(runs.dropped[:, p].mean() / tasks),
                wait=float(runs.wait[:, p].mean()),
                wait_p99=float(runs.wait_p99[:, p].mean()),
                solves=float(runs.solves[:, p].mean()),
                forced=float(runs.forced[:, p].mean() / tasks),
            )
        )
    return tuple(rows)


def _gain(runs: LearnedRuns, names: tuple[str, ...], pair: tuple[str, str], known: bool) -> Gain:
    tasks = int(runs.grid[-1])
    late = 100.0 * _second_half(runs) / (tasks - tasks // 2)
    one, other = (late[:, names.index(name)] for name in pair)
    apart = one - other
    width = half_width(apart)
    error = float(np.std(apart, ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else 0.0
    return Gain(
        policy=pair[0],
        other=pair[1],
        known=known,
        difference=float(apart.mean()),
        half_width=width,
        percent=float(100.0 * _divided(apart.mean(), other.mean())),
        errors=float(apart.mean() / error) if error > 0 else 0.0,
    )


def _second_half(runs: LearnedRuns) -> Float:
    """(n, p) reward of the tasks from the middle on."""
    middle = int(np.searchsorted(runs.grid, int(runs.grid[-1]) // 2))
    return np.asarray(runs.reward[:, :, -1] - runs.reward[:, :, middle])


def _regrets(runs: LearnedRuns) -> Float:
    """(n, p, G) ceiling's reward minus the policy's, over the ceiling's mean reward per task."""
    per_task = runs.reward[:, 0, -1].mean() / runs.grid[-1]
    return np.asarray((runs.reward[:, :1] - runs.reward) / (per_task if per_task > 0 else 1.0))


def _shares(runs: LearnedRuns, edges: Int) -> Float:
    """(p, W) mean reward in each window as a share of the ceiling's."""
    mean = runs.reward[:, :, np.searchsorted(runs.grid, edges)].mean(axis=0)
    earned = np.diff(mean, axis=1)
    return _divided(earned, earned[:1])


def _tasks_to(edges: Int, shares: Float, percent: int) -> int | None:
    """First edge from which on every window has at least that share; None if the last has not."""
    below = np.flatnonzero(shares < percent / 100.0)
    place = 0 if len(below) == 0 else int(below[-1]) + 1
    return int(edges[place]) if place < len(shares) else None


def _divided(value: Float | float, by: Float | float) -> Float:
    """The quotient, 0 where the divisor is 0."""
    by = np.asarray(by, dtype=np.float64)
    return np.divide(value, by, out=np.zeros(np.broadcast(value, by).shape), where=by != 0)
