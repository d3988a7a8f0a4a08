"""Run learning policies on tasks whose scores are hidden.

A run is a row of stretches. Before each the policy makes a ranking from what the outcomes so far
say; within it the kernel serves tasks. A stretch ends when the tasks seen have grown by ``growth``
(2 %), at least ``least`` (10) tasks later, or when a server joins. All policies of a replication
see the same arrivals, durations and outcome uniforms, so differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.learned import (
    ENDED,
    NEXT,
    TIME,
    HiddenStreams,
    LearnedLog,
    LearnedState,
    Ranking,
    Rules,
    run_tasks,
)
from opportune.kernels.streams import NEVER
from opportune.learning.pace import Pace, estimated
from opportune.learning.regression import ScoreModel
from opportune.model.hidden import HiddenWorld
from opportune.model.loss import LossInstance
from opportune.policies.beliefs import Beliefs, Features, LearnedPolicy, Ranked, trait

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

MODES = ("loss", "queue")
"""What happens to a task that finds too few free servers: dropped, or it waits."""

DRAWS = 0x0E11
"""Marks the generators of policies that draw, beside seed, replication and task."""


@dataclass(frozen=True)
class Forced:
    """An explicit share of tasks that go to servers at random, for newcomers.

    Attributes:
        share: Probability that a task is forced onto its free pairs that qualify; 0 for none.
        floor: Least optimistic score (mean + 2 sd, in reward) of a pair that qualifies.
        width: A pair qualifies as long as its 95 % interval (4 sd) is wider than this share of the
            unit; 0 for always.
    """

    share: float = 0.0
    floor: float = 0.0
    width: float = 0.0

    def __post_init__(self) -> None:
        problems = []
        for name, value, most in (
            ("share", self.share, 1.0),
            ("floor", self.floor, np.inf),
            ("width", self.width, 1.0),
        ):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value <= most:
                expected = "a number of at least 0" + ("" if most > 1 else " and at most 1")
                problems.append(Problem(name, shorten(value), expected))
        if problems:
            raise InputError(problems)


@dataclass(frozen=True)
class LearnedRun:
    """How a world is run.

    Attributes:
        mode: ``loss`` or ``queue``.
        fifo: In queue mode, the task that waited longest begins first, whatever its index.
        known_pace: Whether policies are told the arrival rates and mean durations.
        growth: The ranking is made anew when the tasks seen grew by this share.
        least: And not before this many tasks.
    """

    mode: str = "loss"
    fifo: bool = False
    known_pace: bool = False
    growth: float = 0.02
    least: int = 10

    def __post_init__(self) -> None:
        problems = []
        if self.mode not in MODES:
            problems.append(Problem("mode", shorten(self.mode), "loss or queue"))
        if self.fifo and self.mode == "loss":
            problems.append(Problem("fifo", "with mode loss", "mode queue: nobody waits in loss"))
        number = isinstance(self.growth, (int, float)) and not isinstance(self.growth, bool)
        if not number or not 0 <= self.growth < np.inf:
            problems.append(Problem("growth", shorten(self.growth), "a number of at least 0"))
        whole = is_whole(self.least)
        if not whole or not self.least >= 1:
            problems.append(Problem("least", shorten(self.least), "a whole number of at least 1"))
        if problems:
            raise InputError(problems)


@dataclass(frozen=True, eq=False)
class LearnedTrace:
    """What happened to n tasks.

    Attributes:
        reward: (n,) reward of each task, 0 where dropped: its expected or recorded score.
        wait: (n,) steps from arrival to start; -1 where there was no start.
        chosen: (n, K) servers, -1 where dropped.
        forced: (n,) whether the forced share decided.
        solves: How often a ranking was made.
        last: The last ranking.
        success: (V, M) sums of outcomes that were seen.
        trials: (V, M) outcomes seen.
    """

    reward: Float
    wait: Int
    chosen: NDArray[np.int32]
    forced: Bool
    solves: int
    last: Ranked
    success: Float
    trials: Float


@dataclass(eq=False)
class _Run:
    """A run under way: kernel arrays, and what has been learned of its log."""

    world: HiddenWorld
    streams: HiddenStreams
    rules: Rules
    state: LearnedState
    log: LearnedLog
    success: Float
    trials: Float
    arrival: Int
    told: int = 0
    model: ScoreModel | None = None
    known_context_score: Float | None = field(default=None)


def simulate_learned(
    world: HiddenWorld,
    streams: HiddenStreams,
    policy: LearnedPolicy,
    run: LearnedRun,
    forced: Forced | None = None,
    progress: Callable[[float], None] | None = None,
) -> LearnedTrace:
    """Serve all tasks of ``streams`` by a policy that learns from their outcomes.

    Args:
        world: The truth.
        streams: Of this world; the same for all policies of a replication.
        policy: What ranks.
        run: Mode and schedule.
        forced: A share of tasks that go to servers at random; None for none.
        progress: Called with the share of tasks done after each stretch.

    Raises:
        InputError: If the policy needs features and tasks have none.
    """
    if trait(policy, "reads_features") and world.recorded is None:
        told = f"{trait(policy, 'id')} reads features, and tasks have none"
        raise InputError(Problem("policy", told, "recorded tasks, or another policy"))
    now = _started(world, streams, policy, run)
    n, done, solves = len(streams.gap), 0, 0
    joins = np.unique(world.joins[world.joins < n])
    static = bool(trait(policy, "is_static")) and (forced is None or forced.share == 0)
    ranked: Ranked | None = None
    ranking: Ranking | None = None
    while done < n:
        there = world.joins <= done
        joined = there & (now.state.busy_until == NEVER) & (now.state.serving < 0)
        now.state.busy_until[joined] = 0
        if ranked is None or not static or joined.any():
            beliefs = _beliefs(now, policy, run, there)
            ranked = policy.ranked(beliefs, ranked)
            ranking = _with_forced(ranked.ranking, beliefs, forced)
            solves += 1
        stop = n if static else done + max(run.least, int(np.ceil(run.growth * done)))
        coming = joins[joins > done]
        stop = min([stop, n, *coming[:1]])
        assert ranking is not None  # the first stretch makes one
        run_tasks(stop, streams, world.scores, (now.rules, ranking), now.state, now.log)
        _learn(now)
        done = int(now.state.number[NEXT])
        if progress is not None:
            progress(done / n)
    assert ranked is not None
    start = now.log.start
    return LearnedTrace(
        reward=now.log.reward * world.unit,
        wait=np.where(start >= 0, start - now.arrival, -1),
        chosen=now.log.chosen,
        forced=now.log.forced,
        solves=solves,
        last=ranked,
        success=now.success,
        trials=now.trials,
    )


def _started(
    world: HiddenWorld, streams: HiddenStreams, policy: LearnedPolicy, run: LearnedRun
) -> _Run:
    """Nothing served yet."""
    instance = world.instance
    n, k = streams.choice.shape
    n_types, n_servers, queue = instance.n_types, instance.n_servers, run.mode == "queue"
    alike = len(set(instance.duration)) == 1
    rules = Rules(instance.allowed, instance.servers_per_task, queue, run.fifo, queue and alike)
    state = LearnedState(
        busy_until=np.where(world.joins > 0, NEVER, 0),
        serving=np.full(n_servers, -1, dtype=np.int64),
        slot=np.zeros(n_servers, dtype=np.int64),
        waiting=np.zeros(n, dtype=np.int64),
        number=np.zeros(6, dtype=np.int64),
        picks=np.zeros((3, n_servers), dtype=np.int64),
        searched=np.zeros(n_types, dtype=np.int64),
    )
    state.number[TIME] = -1
    log = LearnedLog(
        chosen=np.full((n, k), -1, dtype=np.int32),
        start=np.full(n, -1, dtype=np.int64),
        finish=np.full(n, -1, dtype=np.int64),
        reward=np.zeros(n),
        forced=np.zeros(n, dtype=np.bool_),
        ended_task=np.zeros(n * k, dtype=np.int32),
        ended_server=np.zeros(n * k, dtype=np.int32),
        ended_outcome=np.zeros(n * k),
    )
    table = np.zeros((n_types, world.n_models))
    arrival = np.cumsum(streams.gap) - 1
    now = _Run(world, streams, rules, state, log, table, table.copy(), arrival)
    if trait(policy, "reads_features") and world.recorded is not None:
        recorded = world.recorded
        known = bool(trait(policy, "knows_scores"))
        room = recorded.score.size if known else n * k
        now.model = ScoreModel(world.n_models, recorded.features.shape[1], room)
        if known:
            column = np.tile(np.arange(world.n_models), recorded.n_tasks)
            x = np.repeat(recorded.features, world.n_models, axis=0)
            now.model.learn(x, column, recorded.score.ravel())
            now.known_context_score = now.model.score(recorded.features)
    return now


def _learn(now: _Run) -> None:
    """Take in the outcomes told since the last time."""
    last = int(now.state.number[ENDED])
    task = now.log.ended_task[now.told : last]
    column = now.world.model[now.log.ended_server[now.told : last]]
    outcome = now.log.ended_outcome[now.told : last]
    v = now.streams.task_type[task]
    np.add.at(now.success, (v, column), outcome)
    np.add.at(now.trials, (v, column), 1.0)
    if now.model is not None and now.known_context_score is None and now.world.recorded is not None:
        x = now.world.recorded.features[now.streams.row[task]]
        now.model.learn(x, column, outcome)
    now.told = last


def _beliefs(now: _Run, policy: LearnedPolicy, run: LearnedRun, there: Bool) -> Beliefs:
    """What the policy may look at before its next stretch."""
    world, done = now.world, int(now.state.number[NEXT])
    knows = bool(trait(policy, "knows_scores"))
    instance = _servers_there(world.instance, there)
    if not (knows or run.known_pace):
        instance = estimated(instance, _pace(now, done))
    features = None
    if now.model is not None and world.recorded is not None:
        arrived = np.zeros(world.recorded.n_tasks, dtype=np.bool_)
        arrived[now.streams.row[:done]] = True
        recorded = world.recorded
        features = Features(recorded.features, recorded.task_type, arrived, now.model)
    key = (DRAWS, *map(int, now.streams.key), done)
    return Beliefs(
        instance=instance,
        there=there,
        model=world.model,
        unit=world.unit,
        success=now.success,
        trials=now.trials,
        n_tasks=done,
        draws=np.random.default_rng(key),
        features=features,
        known_score=world.type_score if knows else None,
        known_context_score=now.known_context_score,
    )


def _servers_there(instance: LossInstance, there: Bool) -> LossInstance:
    """The instance with the servers that have joined, and without its scores."""
    return LossInstance(
        arrival_rate=instance.arrival_rate,
        match_reward=np.zeros((instance.n_types, int(there.sum()))),
        allowed=instance.allowed[:, there],
        duration=instance.duration,
        servers_per_task=instance.servers_per_task,
        task_types=instance.task_types,
        servers=tuple(np.array(instance.servers, dtype=object)[there]),
        name=instance.name,
    )


def _pace(now: _Run, done: int) -> Pace:
    """Counts of arrivals and services up to the last arrival."""
    n_types, time = now.world.instance.n_types, int(now.state.number[TIME])
    start, finish = now.log.start[:done], now.log.finish[:done]
    task_type = now.streams.task_type[:done]
    began = start >= 0
    ended = began & (finish <= time)
    served = np.where(began, np.minimum(finish - 1, time) - start, 0)
    return Pace(
        elapsed=time + 1,
        arrived=np.bincount(task_type, minlength=n_types),
        ended=np.bincount(task_type[ended], minlength=n_types),
        in_service=np.bincount(task_type, served, minlength=n_types).astype(np.int64),
    )


def _with_forced(ranking: Ranking, beliefs: Beliefs, forced: Forced | None) -> Ranking:
    """The ranking with the pairs that the forced share may take; none left ends the share."""
    if forced is None or forced.share == 0:
        return ranking
    mean = (beliefs.success + 1.0) / (beliefs.trials + 2.0)
    sd = np.sqrt(mean * (1.0 - mean) / (beliefs.trials + 3.0))
    qualifies = (mean + 2.0 * sd) * beliefs.unit >= forced.floor
    qualifies &= 4.0 * sd > forced.width
    pairs = qualifies[:, beliefs.model] & beliefs.there
    return ranking._replace(forced=pairs, share=forced.share if pairs.any() else 0.0)
