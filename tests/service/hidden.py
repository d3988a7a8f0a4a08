"""A pool whose truth is hidden: the simulation's own streams, served by the engine.

The learner runs between two commands, so that all is a function of the streams and nothing of a
clock. A step of the world is a second of the pool.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from opportune.model.hidden import HiddenWorld
from opportune.service import commands, engine, events
from opportune.service.applying import apply
from opportune.service.journal import Append
from opportune.service.learner import PoolLearner
from opportune.service.memory import MemoryJournal
from opportune.service.planning import plan_pool
from opportune.service.resources import (
    LearnerSettings,
    PoolSettings,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service.state import State, empty_state
from opportune.service.storing import restore, snapshot

Float = NDArray[np.float64]


@dataclass
class Serving:
    """A pool, its journal and its learner.

    Attributes:
        settings: Of the pool.
        restart_every: Commands between two restarts from what is written; 0 for never.
        from_snapshot: Whether a restart begins at a snapshot taken half of the way before.
    """

    settings: PoolSettings
    restart_every: int = 0
    from_snapshot: bool = False
    state: State = field(init=False)
    log: list[events.Event] = field(default_factory=list)
    n_plans: int = 0

    def __post_init__(self) -> None:
        self.state = empty_state("p")
        self.journal = MemoryJournal()
        self.token = self.journal.acquire("p")
        self.learner = PoolLearner("p", self.journal)
        self._commands = 0
        self._saved: tuple[int, bytes, bytes] = (0, b"", b"")
        self.ask(commands.PutPool(settings=self.settings), 0.0)

    def ask(self, command: commands.Command, now: float) -> object:
        """Carry a command out, write it, learn from it."""
        self._commands += 1
        draws = np.random.default_rng(self._commands).integers(0, 2**32, 16, dtype=np.uint32)
        answer = engine.decide(self.state, command, now, draws)
        self.log += answer.events
        if answer.events:
            first = self.journal.last("p") + 1
            records = [events.encode(event) for event in answer.events]
            self.journal.append(Append("p", self.token, first, records)).result()
        every = self.restart_every
        if every and self._commands % every == every // 2:
            learned = self.learner.checkpoint() if self.from_snapshot else b""
            self._saved = (self.journal.last("p"), snapshot(self.state), learned)
        if every and self._commands % every == 0:
            self._restart()
        return answer.body if answer.problem is None else None

    def _restart(self) -> None:
        """All that is in memory is lost."""
        sequence, state, learned = self._saved
        self.state = restore(state) if self.from_snapshot else empty_state("p")
        for _, record in self.journal.read("p", sequence if self.from_snapshot else 0):
            apply(self.state, events.decode(record))
        self.learner = PoolLearner("p", self.journal, learned)

    def learn(self, now: float) -> None:
        """What the learner's loop does, and the planner's."""
        self.learner.read()
        command = self.learner.publication(self.state, looks_at_changes=False)
        if command is None:
            return
        self.ask(command, now)
        self.learner.read()
        if self.settings.learning == "on":
            self.plan(now)

    def plan(self, now: float) -> None:
        """A new plan in force."""
        self.n_plans += 1
        plan = plan_pool(self.state, f"plan-{self.n_plans}", source="plan")
        self.ask(commands.PutPlan(plan=plan, activate=True), now)


def declare(serving: Serving, world: HiddenWorld, scores: Float | None) -> None:
    """Servers, types with true rates and durations, and declared scores (V, R), if any."""
    instance = world.instance
    for name in instance.servers:
        serving.ask(commands.PutServer(settings=ServerSettings(id=name)), 0.0)
    for v, name in enumerate(instance.task_types):
        settings = TaskTypeSettings(
            id=name,
            rate=float(instance.arrival_rate[v]),
            mean_duration=float(instance.duration[v].mean),
            k=int(instance.servers_per_task[v]),
        )
        serving.ask(commands.PutTaskType(settings=settings), 0.0)
    if scores is not None:
        rows = [
            ScoreRow(name, server, float(scores[v, r]))
            for v, name in enumerate(instance.task_types)
            for r, server in enumerate(instance.servers)
        ]
        serving.ask(commands.PutScores(rows=rows), 0.0)
    serving.plan(0.0)


def serve(serving: Serving, world: HiddenWorld, n_tasks: int, key: tuple[int, int]) -> Float:
    """(n_tasks,) expected reward of each task, 0 where it was dropped; ``key`` names the streams.

    Outcomes are Bernoulli, told when a service ends: server by server.
    """
    streams = world.streams(n_tasks, *key)
    instance, unit = world.instance, world.unit
    arrival = np.cumsum(streams.gap) - 1
    place = {name: r for r, name in enumerate(instance.servers)}
    open_: list[tuple[int, int, str, list[str]]] = []  # free at, number, assignment, servers
    reward = np.zeros(n_tasks)
    for i in range(n_tasks):
        now, v = int(arrival[i]), int(streams.task_type[i])
        for due in sorted(one for one in open_ if one[0] <= now):
            _complete(serving, world, streams.outcome, due)
        open_ = [one for one in open_ if one[0] > now]
        task = commands.CreateTask(task_type=instance.task_types[v])
        body = serving.ask(task, float(now))
        if body is not None:
            chosen = [slot.id for slot in body.servers]  # type: ignore[attr-defined]
            reward[i] = instance.match_reward[v, [place[name] for name in chosen]].sum()
            name = body.assignment_id  # type: ignore[attr-defined]
            open_.append((now + int(streams.duration[i]) + 1, i, name, chosen))
        if serving.settings.learning != "off":
            serving.learn(float(now))
    return reward / unit


def _complete(
    serving: Serving, world: HiddenWorld, outcome: Float, due: tuple[int, int, str, list[str]]
) -> None:
    """A service ends, and what came of it is told."""
    when, i, name, chosen = due
    place = {server: r for r, server in enumerate(world.instance.servers)}
    task = serving.state.tasks[int(name.rpartition(".a")[2])]
    for j, server in enumerate(chosen):
        success = outcome[i, j] < world.type_score[task.task_type, world.model[place[server]]]
        value = world.unit if success else 0.0
        report = commands.ReportOutcome(subject=name, server=server, value=value)
        serving.ask(report, float(when))
    serving.ask(commands.Complete(assignment=name), float(when))


def pool_settings(world: HiddenWorld, learning: str, **learner: float) -> PoolSettings:
    """A pool that learns outcomes from 0 to the world's unit."""
    own = LearnerSettings(high=world.unit, **learner)  # type: ignore[arg-type]
    return PoolSettings(learning=learning, learner=own)  # type: ignore[arg-type]


def sustained(reward: Float, ceiling: Float, share: float) -> int | None:
    """First task after which every later of 40 log-spaced windows earns that share of the ceiling.

    ``reward`` and ``ceiling`` are (runs, tasks); the runs are averaged.
    """
    n = reward.shape[1]
    edges = np.unique(np.geomspace(50, n, 41).astype(int))
    good = [
        reward[:, a:b].sum() >= share * ceiling[:, a:b].sum() for a, b in itertools.pairwise(edges)
    ]
    bad = [i for i, fine in enumerate(good) if not fine]
    first = bad[-1] + 1 if bad else 0
    return int(edges[first]) if first < len(good) else None
