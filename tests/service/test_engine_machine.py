"""Anything in any order, over every journal: the ledger adds up, and a restart forgets nothing."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from opportune.service import commands, engine, events
from opportune.service.answers import Answer
from opportune.service.applying import apply
from opportune.service.journal import Append, Snapshot
from opportune.service.ordering import permitted
from opportune.service.reading import pool_body, server_bodies, task_type_bodies, waiting_tasks
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings
from opportune.service.state import RUNNING, capacity_mismatch, empty_state
from opportune.service.storing import restore, snapshot, state_hash
from tests.service.journals import JOURNALS, WAIT, Open
from tests.service.ledger import OVER, Ledger

SERVERS = [f"s{i}" for i in range(5)]
TYPES = ["a", "b"]

pools = st.builds(
    PoolSettings,
    mode=st.sampled_from(["loss", "queue"]),
    k=st.integers(1, 2),
    min_servers=st.sampled_from([None, 1]),
    auto_accept=st.booleans(),
    offer_timeout=st.sampled_from([3.0, 50.0, 50.0]),
    lease=st.sampled_from([4.0, 60.0, 60.0]),
    wrap_up=st.sampled_from([0.0, 2.0]),
    start_within=st.sampled_from([6.0, 80.0, 80.0]),
    age_weight=st.sampled_from([0.0, 0.25]),
    reserve_after=st.sampled_from([None, 0.0, 5.0]),
    quarantine_after=st.sampled_from([None, 1, 2]),
    quarantine_backoff=st.just(5.0),
    heartbeat_timeout=st.sampled_from([None, None, 20.0]),
    missing_score=st.sampled_from(["forbid", "zero", "zero"]),
)
some_servers = st.lists(st.sampled_from(SERVERS), max_size=2, unique=True)


class Service(RuleBasedStateMachine):
    """The owner of one pool: decides, writes, sometimes dies and reads again."""

    journal_kind: Open = staticmethod(JOURNALS["memory"])

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.journal = self.journal_kind(self.folder, None)
        self.token = self.journal.acquire("p")
        self.state = empty_state("p")
        self.ledger = Ledger()
        self.now = 0.0
        self.ended: dict[int, str] = {}

    def teardown(self) -> None:
        """Left alone for long enough, everything ends by itself."""
        if self.state.settings is not None:
            for _ in range(60):
                when = engine.next_deadline(self.state)
                if when is None or self.state.n_tasks_open == 0:
                    break
                self.now = max(self.now, when)
                self.do(commands.Tick())
                self.the_ledger_adds_up()
            assert self.state.n_tasks_open == 0
            assert self.state.open_slots == 0
            self.die_and_read_again()
        self.journal.close()
        shutil.rmtree(self.folder)

    def do(self, command: commands.Command, draws: Any = (7, 1 << 31, 9)) -> Answer:
        """Decide and write; every event is one that the ledger can follow."""
        answer = engine.decide(self.state, command, self.now, draws)
        if answer.events:
            first = self.journal.last("p") + 1
            records = [events.encode(event) for event in answer.events]
            self.journal.append(Append("p", self.token, first, records)).result(WAIT)
        for event in answer.events:
            self.ledger.see(event)
        if answer.repeated:
            assert answer.problem is None
        assert (answer.body is None) >= (answer.problem is not None)
        return answer

    @initialize(pool=pools, auto=st.data())
    def create(self, pool: PoolSettings, auto: st.DataObject) -> None:
        assert self.do(commands.PutPool(settings=pool)).created
        for name in TYPES:
            mean = auto.draw(st.sampled_from([None, 5.0]))
            self.do(commands.PutTaskType(settings=TaskTypeSettings(id=name, mean_duration=mean)))
        for name in SERVERS[:3]:
            self.do(commands.PutServer(settings=ServerSettings(id=name)))

    @rule(pool=pools, seldom=st.integers(0, 5))
    def change_the_pool(self, pool: PoolSettings, seldom: int) -> None:
        if seldom == 0:
            self.do(commands.PutPool(settings=pool))

    @rule(task_type=st.sampled_from(TYPES), draw=st.integers(0, 2**32 - 1))
    def create_a_plain_task(self, task_type: str, draw: int) -> None:
        answer = self.do(commands.CreateTask(task_type=task_type), [draw])
        if answer.problem is not None and answer.problem.code == "no-capacity":
            self.nothing_more_could_be_done(self.state.last_task)

    @rule(which=st.integers(0, 9), decline=st.booleans(), alone=st.booleans())
    def answer_an_offer(self, which: int, decline: bool, alone: bool) -> None:
        """Somebody who was asked accepts or declines; it must be taken."""
        asked = self.slots_in("offered")
        if asked:
            number, server = asked[which % len(asked)]
            kind: Any = commands.Decline if decline else commands.Accept
            named = server if alone or decline else None
            answer = self.do(kind(assignment=f"p.a{number}", server=named))
            timed_out = any(isinstance(event, events.SlotsMoved) for event in answer.events)
            assert answer.problem is None or timed_out

    @rule(
        which=st.integers(0, 9),
        kind=st.sampled_from(
            [
                commands.Complete,
                commands.Complete,
                commands.Complete,
                commands.Fail,
                commands.Release,
                commands.Heartbeat,
            ]
        ),
        alone=st.booleans(),
    )
    def end_a_service(self, which: int, kind: Any, alone: bool) -> None:
        """Somebody who serves is done, fails, leaves or goes on."""
        serving = self.slots_in("accepted")
        if serving:
            number, server = serving[which % len(serving)]
            self.do(kind(assignment=f"p.a{number}", server=server if alone else None))

    def slots_in(self, wanted: str) -> list[tuple[int, str]]:
        """Tasks and servers of the slots in a state."""
        return [
            (number, server)
            for number, task in self.ledger.tasks.items()
            for server, (state, _) in task.slots.items()
            if state == wanted
        ]

    @rule(
        name=st.sampled_from(SERVERS),
        capacity=st.integers(1, 2),
        available=st.booleans(),
        drain=st.booleans(),
        remove=st.integers(0, 5),
    )
    def change_a_server(
        self, name: str, capacity: int, available: bool, drain: bool, remove: int
    ) -> None:
        if remove == 0:
            self.do(commands.RemoveServer(server=name))
            return
        own = ServerSettings(
            id=name,
            capacity=capacity,
            available=available or remove > 2,
            drain=drain and available,
        )
        answer = self.do(commands.PutServer(settings=own))
        assert answer.problem is None

    @rule(name=st.sampled_from(SERVERS), clear=st.booleans())
    def hear_of_a_server(self, name: str, clear: bool) -> None:
        kind: Any = commands.ClearQuarantine if clear else commands.ServerHeartbeat
        self.do(kind(server=name))

    @rule(data=st.data(), replace=st.booleans())
    def score(self, data: st.DataObject, replace: bool) -> None:
        pairs = [(v, r) for v in TYPES for r in SERVERS if r in self.state.server_index]
        chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6))
        rows = [ScoreRow(v, r, float(data.draw(st.integers(0, 3)))) for v, r in chosen]
        assert self.do(commands.PutScores(rows=rows, replace=replace)).problem is None

    @rule(
        task_type=st.sampled_from(TYPES),
        k=st.sampled_from([None, 1, 2, 3]),
        pins=some_servers,
        conflicts=some_servers,
        external=st.sampled_from([None, None, "x", "y"]),
        priority=st.sampled_from([0.0, 1.0]),
        draws=st.lists(st.integers(0, 2**32 - 1), max_size=4),
    )
    def create_a_task(self, draws: list[int], external: str | None, **asked: Any) -> None:
        asked["pins"] = [name for name in asked["pins"] if name not in asked["conflicts"]][:1]
        command = commands.CreateTask(external_id=external, **asked)
        answer = self.do(command, draws)
        if answer.problem is not None and answer.problem.code == "no-capacity":
            self.nothing_more_could_be_done(self.state.last_task)

    def nothing_more_could_be_done(self, number: int) -> None:
        """A drop is right: fewer than k permitted servers, or not every pin, can take the task."""
        task = self.state.tasks[number]
        allowed = permitted(self.state)[task.task_type]
        can = [
            name
            for name, r in self.state.server_index.items()
            if allowed[r] and self.ledger.can_take(name, number)
        ]
        pinned = all(self.state.servers[r].settings.id in can for r in task.pins)
        assert len(can) < task.k or not pinned

    @rule(
        kind=st.sampled_from(
            [
                commands.Accept,
                commands.Decline,
                commands.Complete,
                commands.Complete,
                commands.Fail,
                commands.Release,
                commands.Heartbeat,
            ]
        ),
        back=st.integers(0, 5),
        server=st.sampled_from([None, None, *SERVERS]),
        stale=st.integers(0, 6),
        repeat=st.booleans(),
    )
    def move(self, kind: Any, back: int, server: str | None, stale: int, repeat: bool) -> None:
        number = self.state.last_task - back
        task = self.state.tasks.get(number)
        lease = None if task is None or stale > 1 else task.lease - stale
        command = kind(assignment=f"p.a{number}", server=server, lease=lease)
        answer = self.do(command)
        if repeat and answer.problem is None and kind is not commands.Heartbeat:
            again = self.do(command)
            took_another = again.problem is not None and again.problem.code == "stale-lease"
            assert took_another or again.repeated or kind in (commands.Decline, commands.Release)
            if again.repeated:
                assert again.events == []

    @rule(back=st.integers(0, 5))
    def cancel(self, back: int) -> None:
        self.do(commands.CancelTask(task=f"p.t{self.state.last_task - back}"))

    @rule(
        back=st.integers(0, 5),
        value=st.sampled_from([None, 0.0, 1.5]),
        revision=st.integers(0, 2),
        server=st.sampled_from([None, *SERVERS]),
    )
    def report(self, back: int, **told: Any) -> None:
        subject = f"p.a{self.state.last_task - back}"
        self.do(commands.ReportOutcome(subject=subject, **told))

    @rule(seconds=st.sampled_from([-3.0, 0.0, 0.5, 1.0, 1.0, 4.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.do(commands.Tick())

    @rule(keep=st.booleans())
    def die_and_read_again(self, keep: bool = False) -> None:
        """Only what was written is there; a snapshot shortens the reading."""
        if keep:
            taken = Snapshot(self.journal.last("p"), snapshot(self.state))
            self.journal.save_snapshot("p", self.token, taken).result(WAIT)
        hash_before = state_hash(self.state)
        self.token = self.journal.acquire("p")
        stored = self.journal.snapshot("p")
        for start in (None, stored):
            state = empty_state("p") if start is None else restore(start.data)
            for record in self.journal.read("p", 0 if start is None else start.sequence):
                event = events.decode(record.data)
                if start is None:
                    assert engine.verify(state, event)
                apply(state, event)
            assert state_hash(state) == hash_before
            assert capacity_mismatch(state) == 0
            self.state = state

    @invariant()
    def the_ledger_adds_up(self) -> None:
        assert capacity_mismatch(self.state) == 0
        for r, server in enumerate(self.state.servers):
            name = server.settings.id
            held = self.ledger.holders(name)
            assert len(held) == self.state.n_open[r]
            assert sorted(held) == sorted(self.state.holders[r])
            assert (name in self.ledger.present) == server.present
            assert (self.state.closed[r] == 0) == self._free(name)

    def _free(self, name: str) -> bool:
        _, takes, capacity = self.ledger.servers[name]
        return (
            name in self.ledger.present
            and takes
            and name not in self.ledger.quarantined | self.ledger.silent
            and name not in self.ledger.reserved
            and len(self.ledger.holders(name)) < capacity
        )

    @invariant()
    def what_is_over_stays_over(self) -> None:
        for number, task in self.state.tasks.items():
            assert (task.state in RUNNING) != (task.state in OVER)
            if number in self.ended:
                assert task.state == self.ended[number]
            elif task.state in OVER:
                self.ended[number] = task.state
            assert self.ledger.tasks[number].over == (task.state in OVER)

    @invariant()
    def every_open_state_has_a_deadline(self) -> None:
        if self.state.n_tasks_open:
            assert engine.next_deadline(self.state) is not None

    @invariant()
    @precondition(lambda self: self.state.settings is not None)
    def nobody_waits_beside_enough_free_servers(self) -> None:
        """Work conserving: a waiting task that could start would have started."""
        allowed = permitted(self.state)
        for number in self.state.queued:
            task = self.state.tasks[number]
            can = [
                r
                for name, r in self.state.server_index.items()
                if allowed[task.task_type, r] and self.ledger.can_take(name, number)
            ]
            assert len(can) < task.k or not set(task.pins) <= set(can)

    @invariant()
    @precondition(lambda self: self.state.settings is not None)
    def it_can_be_read(self) -> None:
        body = pool_body(self.state, self.now)
        assert body is not None
        assert body.slots_open == self.state.open_slots >= 0
        assert body.tasks_waiting == len(waiting_tasks(self.state)) == len(self.state.queued)
        assert [one.position for one in waiting_tasks(self.state)] == [
            i + 1 for i in range(body.tasks_waiting)
        ]
        assert len(server_bodies(self.state)) == body.servers
        assert len(task_type_bodies(self.state)) == len(TYPES)
        counts = self.state.counts
        over = sum(counts.get(name, 0) for name in OVER)
        assert counts.get("created", 0) == over + self.state.n_tasks_open
        assert np.isfinite(self.state.reward)


@pytest.mark.parametrize("kind", JOURNALS)
def test_anything_in_any_order(kind: str) -> None:
    class Machine(Service):
        journal_kind = staticmethod(JOURNALS[kind])

    test_case = Machine.TestCase
    few = kind != "memory"
    test_case.settings = settings(
        max_examples=15 if few else 120,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test_case("runTest").runTest()
