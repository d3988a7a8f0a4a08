"""Pools for the engine's tests, with a log of their events and a check after every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opportune.service import engine, events
from opportune.service.answers import Answer
from opportune.service.applying import apply
from opportune.service.commands import (
    Command,
    CreateTask,
    PutPool,
    PutScores,
    PutServer,
    PutTaskType,
)
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings
from opportune.service.state import State, capacity_mismatch, empty_state
from opportune.service.storing import restore, snapshot, state_hash

DRAWS = np.arange(1, 9, dtype=np.uint32) * np.uint32(0x1F123BB5)


class Pool:
    """A pool as its owner drives it.

    After every command the ledger adds up, and a refusal without events left no trace.
    """

    def __init__(self, **settings: Any) -> None:
        self.state: State = empty_state("p")
        self.log: list[events.Event] = []
        self.now = 0.0
        self.do(PutPool(settings=PoolSettings(**settings)))

    def do(self, command: Command, now: float | None = None, draws: Any = DRAWS) -> Answer:
        """Decide, and check what must hold whatever was asked."""
        self.now = self.now if now is None else now
        before = state_hash(self.state) if len(self.state.servers) < 50 else ""
        answer = engine.decide(self.state, command, self.now, draws)
        self.log += answer.events
        assert capacity_mismatch(self.state) == 0
        if before and not answer.events:
            assert state_hash(self.state) == before
        return answer

    def ok(self, command: Command, now: float | None = None, draws: Any = DRAWS) -> Any:
        """The body of a command that must not be refused."""
        answer = self.do(command, now, draws)
        assert answer.problem is None, answer.problem
        return answer.body

    def refused(self, command: Command, now: float | None = None) -> str:
        """The code of a command that must be refused."""
        answer = self.do(command, now)
        assert answer.problem is not None
        return answer.problem.code

    def task(self, task_type: str = "a", now: float | None = None, **options: Any) -> Any:
        """Create a task that must be taken; its body."""
        return self.ok(CreateTask(task_type=task_type, **options), now)

    def replayed(self) -> State:
        """The state that the journal's records give, which must be this one."""
        state = empty_state("p")
        for event in self.log:
            apply(state, events.decode(events.encode(event)))
        assert state_hash(state) == state_hash(self.state)
        assert state_hash(restore(snapshot(state))) == state_hash(state)
        return state

    def restart(self, from_snapshot: bool = False) -> None:
        """Go on from what was written: the records, or a snapshot."""
        state = self.replayed()
        self.state = restore(snapshot(state)) if from_snapshot else state

    @property
    def free(self) -> list[str]:
        """Servers that can be picked."""
        return [
            server.settings.id
            for r, server in enumerate(self.state.servers)
            if self.state.closed[r] == 0
        ]


def pool_of(
    scores: dict[str, Sequence[float | None]],
    types: dict[str, dict[str, Any]] | None = None,
    **settings: Any,
) -> Pool:
    """A pool with servers s0, s1, ... and a row of scores for each type (None: forbidden)."""
    pool = Pool(**settings)
    n = max(len(row) for row in scores.values())
    for r in range(n):
        pool.ok(PutServer(settings=ServerSettings(id=f"s{r}")))
    for name in scores:
        options = {"mean_duration": 5.0, **(types or {}).get(name, {})}
        pool.ok(PutTaskType(settings=TaskTypeSettings(id=name, **options)))
    rows = [
        ScoreRow(name, f"s{r}", score)
        for name, row in scores.items()
        for r, score in enumerate(row)
        if score is not None
    ]
    if rows:
        pool.ok(PutScores(rows=rows))
    return pool


def names(body: Any, *states: str) -> list[str]:
    """Servers of an assignment, those in some states if any are named."""
    return [slot.id for slot in body.servers if not states or slot.state in states]
