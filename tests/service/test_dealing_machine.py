"""Servers on the move between sub-pools, messages lost, late and twice, places that die anywhere.

Whatever happens: a server is in one place at most, nobody is free in two, no assignment is lost or
doubled; and left alone for long enough every server is where the latest deal wants it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from opportune.service import commands, engine, events
from opportune.service.applying import apply
from opportune.service.dealing import (
    declared_of,
    on_their_way,
    places_by_deal,
    servers_to_deal,
    sub_pools,
)
from opportune.service.journal import Append
from opportune.service.memory import MemoryJournal
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings
from opportune.service.state import RUNNING, State, capacity_mismatch, empty_state
from opportune.service.storing import restore, snapshot, state_hash
from tests.service.journals import WAIT

MOST = 4
SERVERS = [f"s{r}" for r in range(7)]
WHOLE = "w"
PLACES = [WHOLE, *sub_pools(WHOLE, MOST)]


class Splitting(RuleBasedStateMachine):
    """A whole, its sub-pools, one journal; messages between them in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = MemoryJournal()
        self.tokens = {place: self.journal.acquire(place) for place in PLACES}
        self.states = {place: empty_state(place) for place in PLACES}
        self.now = 0.0
        self.partitions = 3
        self.number = 0
        self.sent: list[tuple[str, commands.Command]] = []
        self.held: dict[str, tuple[str, list[str]]] = {}

    def do(self, place: str, command: commands.Command, dies: bool = False) -> Any:
        """Ask a place; one that dies does so before it has written: nothing has happened."""
        state = self.states[place]
        answer = engine.decide(state, command, self.now, (7, 1 << 31, 9))
        if dies:
            self.read_again(place, False)
            return None
        if answer.events:
            records = [events.encode(event) for event in answer.events]
            first = self.journal.last(place) + 1
            self.journal.append(Append(place, self.tokens[place], first, records)).result(WAIT)
        return answer

    def read_again(self, place: str, from_snapshot: bool) -> None:
        """A place dies and is read from what was written."""
        state = empty_state(place)
        for record in self.journal.read(place):
            apply(state, events.decode(record.data))
        if from_snapshot:
            state = restore(snapshot(state))
        self.states[place] = state

    @initialize(
        mode=st.sampled_from(["loss", "queue"]), k=st.integers(1, 2), capacity=st.booleans()
    )
    def create(self, mode: Any, k: int, capacity: bool) -> None:
        own = PoolSettings(
            mode=mode, k=k, partitions=3, quarantine_after=2, quarantine_backoff=3.0, lease=20.0
        )
        self.do(WHOLE, commands.PutPool(settings=own))
        self.do(WHOLE, commands.PutTaskType(settings=TaskTypeSettings(id="a", mean_duration=5.0)))
        for i, name in enumerate(SERVERS[:5]):
            server = ServerSettings(id=name, capacity=1 + (capacity and i == 0))
            self.do(WHOLE, commands.PutServer(settings=server))
        rows = [ScoreRow("a", name, float(i)) for i, name in enumerate(SERVERS[:5])]
        self.do(WHOLE, commands.PutScores(rows=rows))
        self.follow()

    @rule()
    def follow(self) -> None:
        """The sub-pools hear what the whole declares."""
        declared = declared_of(self.states[WHOLE])
        for place in PLACES[1:]:
            self.do(place, commands.PutPool(settings=declared.settings))
            assert self.do(place, commands.Follow(declared=declared)).problem is None
            assert self.do(place, commands.Follow(declared=declared)).repeated
            state = self.states[place]
            assert [one.settings for one in state.servers] == [
                one.settings for one in declared.servers
            ]

    @rule(partitions=st.integers(1, MOST), dies=st.booleans())
    def deal(self, partitions: int, dies: bool) -> None:
        """A new deal is written by the whole, then on its way to every place, perhaps twice."""
        state = self.states[WHOLE]
        number = state.deal.number + 1
        to = places_by_deal(servers_to_deal(state), number, partitions)
        command = commands.DealServers(deal=number, partitions=partitions, to=to)
        if self.do(WHOLE, command, dies) is not None:
            self.partitions, self.number = partitions, number
            self.sent += [(place, command) for place in PLACES[1:]]

    @rule(i=st.integers(0, 50), keep=st.booleans(), dies=st.booleans())
    def deliver(self, i: int, keep: bool, dies: bool) -> None:
        """A message arrives, in any order; it may arrive again later, or its place dies of it."""
        if self.sent:
            at = i % len(self.sent)
            place, command = self.sent[at]
            answer = self.do(place, command, dies)
            assert dies or answer.problem is None or answer.problem.code == "not-found"
            if not (keep or dies):
                del self.sent[at]

    @rule(place=st.sampled_from(PLACES))
    def carry(self, place: str) -> None:
        """A place tells where its servers have gone: again, for all that it has not got back."""
        for target, movers in on_their_way(self.states[place]).items():
            self.sent.append((target, commands.TakeIn(servers=movers)))

    @rule(place=st.sampled_from(PLACES), from_snapshot=st.booleans())
    def die(self, place: str, from_snapshot: bool) -> None:
        before = state_hash(self.states[place])
        self.read_again(place, from_snapshot)
        assert state_hash(self.states[place]) == before

    @rule(place=st.sampled_from(PLACES), dies=st.booleans())
    def create_a_task(self, place: str, dies: bool) -> None:
        answer = self.do(place, commands.CreateTask(task_type="a"), dies)
        if answer is not None and hasattr(answer.body, "servers"):
            name = answer.body.assignment_id
            assert name not in self.held
            self.held[name] = (place, [slot.id for slot in answer.body.servers])

    @rule(
        i=st.integers(0, 50),
        kind=st.sampled_from([commands.Complete, commands.Complete, commands.Fail]),
        dies=st.booleans(),
    )
    def end_a_service(self, i: int, kind: Any, dies: bool) -> None:
        """What was acknowledged is there, and can be ended where it began."""
        if self.held:
            name = sorted(self.held)[i % len(self.held)]
            answer = self.do(self.held[name][0], kind(assignment=name), dies)
            if answer is not None:
                assert answer.problem is None
                del self.held[name]

    @rule(name=st.sampled_from(SERVERS), remove=st.booleans())
    def change_a_server(self, name: str, remove: bool) -> None:
        """The operator adds and removes servers of the whole."""
        if not remove:
            self.do(WHOLE, commands.PutServer(settings=ServerSettings(id=name)))
        elif name in self.states[WHOLE].server_index:
            self.do(WHOLE, commands.RemoveServer(server=name))
        self.follow()

    @rule(seconds=st.sampled_from([0.5, 2.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for place in PLACES:
            self.do(place, commands.Tick())
        self.forget_what_ended()

    def forget_what_ended(self) -> None:
        for name, (place, _) in list(self.held.items()):
            state = self.states[place]
            task = state.tasks[int(name.rpartition(".a")[2])]
            if task.state not in RUNNING:  # its lease was over
                del self.held[name]

    @invariant()
    def nobody_is_in_two_places(self) -> None:
        for name in SERVERS:
            there = self.where(name, lambda state, r: state.servers[r].here)
            assert len(there) <= 1
            free = self.where(name, lambda state, r: state.closed[r] == 0)
            held = self.where(name, lambda state, r: state.n_open[r] > 0)
            assert len({*free, *held}) <= 1
            assert {*free, *held} <= {*there}
            hops = [
                (state.servers[state.server_index[name]].hop, place)
                for place, state in self.states.items()
                if name in state.server_index
            ]
            if there:
                assert max(hops)[0] == self.server(there[0], name).hop
                assert [hop for hop, _ in hops].count(max(hops)[0]) <= 1 + (max(hops)[0] == 0) * 9

    def where(self, name: str, holds: Any) -> list[str]:
        """Places of whose server something holds."""
        return [
            place
            for place, state in self.states.items()
            if name in state.server_index and holds(state, state.server_index[name])
        ]

    def server(self, place: str, name: str) -> Any:
        state = self.states[place]
        return state.servers[state.server_index[name]]

    @invariant()
    def ledgers_add_up(self) -> None:
        for state in self.states.values():
            assert capacity_mismatch(state) == 0
        for name, (place, servers) in self.held.items():
            task = self.states[place].tasks[int(name.rpartition(".a")[2])]
            assert task.state in RUNNING
            assert [self.states[place].servers[slot.server].settings.id for slot in task.slots][
                : len(servers)
            ] == servers

    def deliver_all(self) -> None:
        for place in PLACES:
            self.carry(place)
        while self.sent:
            self.deliver(0, False, False)
        for place in PLACES:
            self.carry(place)
        while self.sent:
            self.deliver(0, False, False)

    def teardown(self) -> None:
        """Left alone: all tasks end, all messages arrive, everybody is where the deal says."""
        if self.states[WHOLE].settings is None:
            return
        self.follow()
        for place in PLACES:
            self.now += 100.0
            for _ in range(60):
                if engine.next_deadline(self.states[place]) is None:
                    break
                self.now = max(self.now, engine.next_deadline(self.states[place]) or 0.0)
                self.do(place, commands.Tick())
        self.forget_what_ended()
        self.deliver_all()
        self.deal(self.partitions, False)
        self.deliver_all()
        wanted = places_by_deal(servers_to_deal(self.states[WHOLE]), self.number, self.partitions)
        for name, place in wanted.items():
            assert self.where(name, lambda state, r: state.servers[r].here) == [place]
        self.nobody_is_in_two_places()
        self.ledgers_add_up()


def test_servers_on_the_move() -> None:
    test_case = Splitting.TestCase
    test_case.settings = settings(
        max_examples=100,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test_case("runTest").runTest()


def test_a_deal_is_a_function_of_name_number_and_servers() -> None:
    state = empty_state("calls")
    engine.decide(state, commands.PutPool(settings=PoolSettings(partitions=4)), 0.0, (1,))
    engine.decide(state, commands.PutTaskType(settings=TaskTypeSettings(id="a")), 0.0, (1,))
    for r in range(40):
        engine.decide(state, commands.PutServer(settings=ServerSettings(id=f"s{r}")), 0.0, (1,))
    rows = [ScoreRow("a", f"s{r}", float(r % 2)) for r in range(40)]
    engine.decide(state, commands.PutScores(rows=rows), 0.0, (1,))
    dealt = places_by_deal(servers_to_deal(state), 1, 4)
    assert dealt == places_by_deal(servers_to_deal(restore(snapshot(state))), 1, 4)
    assert dealt != places_by_deal(servers_to_deal(state), 2, 4)
    for place in sub_pools("calls", 4):
        there = [int(name[1:]) for name, at in dealt.items() if at == place]
        assert len(there) == 10
        assert sum(r % 2 for r in there) == 5  # as many of each kind
    assert set(places_by_deal(servers_to_deal(state), 3, 1).values()) == {"calls"}


def test_a_command_of_a_split_pool_survives_being_sent() -> None:
    """Between nodes commands travel as bytes."""
    state: State = empty_state("calls")
    engine.decide(state, commands.PutPool(settings=PoolSettings(partitions=4)), 0.0, (1,))
    sent = commands.Follow(declared=declared_of(state))
    coded = msgspec.msgpack.encode(sent)
    assert msgspec.msgpack.decode(coded, type=commands.AnyCommand) == sent
