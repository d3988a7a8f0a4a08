"""A slow twin of the engine's ledger: who holds what, told by the events alone.

It is written from the rules of the service, not from the engine: a server is busy from the offer
until the slot is declined, ends or its wrap-up is over; an old generation's end frees nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opportune.service import events

HOLDING = {"offered", "accepted", "wrapping"}
OVER = {"done", "dropped", "expired", "cancelled", "failed"}


@dataclass
class Seen:
    """A task as the events tell it."""

    task_type: str
    k: int
    pins: list[str]
    conflicts: list[str]
    deadline: float
    slots: dict[str, tuple[str, int]] = field(default_factory=dict)  # server -> state, generation
    begun: bool = False
    over: bool = False


class Ledger:
    """Folds events; raises AssertionError where one breaks a rule."""

    def __init__(self) -> None:
        self.servers: dict[str, tuple[int, bool, int]] = {}  # generation, takes tasks, capacity
        self.present: set[str] = set()
        self.quarantined: set[str] = set()
        self.silent: set[str] = set()
        self.reserved: dict[str, int] = {}
        self.tasks: dict[int, Seen] = {}
        self.time = 0.0
        self.timeout: float | None = None
        self.leases: list[int] = []

    def holders(self, server: str) -> list[int]:
        """Tasks that hold a slot of the server's present generation."""
        generation = self.servers[server][0]
        return [
            number
            for number, task in self.tasks.items()
            if server in self.present
            and task.slots.get(server, ("", 0))[0] in HOLDING
            and task.slots[server][1] == generation
        ]

    def can_take(self, server: str, number: int) -> bool:
        """Whether the task may be given a slot of the server now."""
        task = self.tasks[number]
        _, takes, capacity = self.servers[server]
        return (
            server in self.present
            and takes
            and server not in self.quarantined | self.silent
            and self.reserved.get(server, number) == number
            and server not in task.slots
            and server not in task.conflicts
            and len(self.holders(server)) < capacity
        )

    def see(self, event: events.Event) -> None:
        """One more event."""
        assert event.time >= self.time
        self.time = event.time
        if isinstance(event, events.PoolPut):
            timeout = event.settings.heartbeat_timeout
            if timeout is None or self.timeout is None:
                self.silent.clear()
            self.timeout = timeout
        elif isinstance(event, events.ServerPut):
            own = event.settings
            known = self.servers.get(own.id)
            again = known is not None and own.id not in self.present
            assert event.generation == (1 if known is None else known[0] + again)
            if again:
                self.quarantined.discard(own.id)
                self.silent.discard(own.id)
            self.present.add(own.id)
            self.servers[own.id] = (
                event.generation,
                own.available and not own.drain,
                own.capacity,
            )
        elif isinstance(event, events.ServerRemoved):
            self.present.discard(event.server)
            self.quarantined.discard(event.server)
            self.reserved.pop(event.server, None)
        elif isinstance(event, events.QuarantineStarted):
            self.quarantined.add(event.server)
        elif isinstance(event, events.QuarantineEnded):
            self.quarantined.discard(event.server)
        elif isinstance(event, events.ServerSilent):
            self.silent.add(event.server)
        elif isinstance(event, events.ServerSeen):
            self.silent.discard(event.server)
        elif isinstance(event, events.ServersReserved):
            for server in event.servers:
                assert self.can_take(server, event.task)
                self.reserved[server] = event.task
        else:
            self._see_task(event)

    def _see_task(self, event: events.Event) -> None:
        if isinstance(event, events.TaskCreated):
            self.tasks[event.task] = Seen(
                event.task_type, event.k, event.pins, event.conflicts, event.deadline
            )
        elif isinstance(event, events.Offered):
            self._see_offer(event)
        elif isinstance(event, events.SlotsMoved):
            task = self.tasks[event.task]
            assert not task.over
            for server in event.servers:
                state, generation = task.slots[server]
                assert state in HOLDING
                assert (state, event.state) in MOVES
                task.slots[server] = (event.state, generation)
            self._settle(task)
        elif isinstance(event, events.TaskDropped):
            self.tasks[event.task].over = True
        elif isinstance(event, events.TaskStarted):
            self.tasks[event.task].begun = True
            self._settle(self.tasks[event.task])
        elif isinstance(event, events.TaskEnded):
            task = self.tasks[event.task]
            assert not task.over
            assert not any(state in HOLDING for state, _ in task.slots.values())
            task.over = True
            self._unreserve(event.task)

    def _see_offer(self, event: events.Offered) -> None:
        task = self.tasks[event.task]
        assert not task.over
        assert not task.begun
        picked = [pick.server for pick in event.picks]
        assert len(set(picked)) == len(picked)
        for server in picked:
            assert self.can_take(server, event.task), (server, event)
        if not task.slots:
            assert set(task.pins) <= set(picked)
            assert len(picked) == task.k
        for pick in event.picks:
            state = "accepted" if event.accepted else "offered"
            task.slots[pick.server] = (state, self.servers[pick.server][0])
            assert 0 < pick.propensity <= 1
        assert sum(state in HOLDING for state, _ in task.slots.values()) <= task.k
        assert event.lease > max(self.leases, default=0)
        self.leases.append(event.lease)
        self._unreserve(event.task)
        self._settle(task)

    def _unreserve(self, number: int) -> None:
        self.reserved = {name: task for name, task in self.reserved.items() if task != number}

    def _settle(self, task: Seen) -> None:
        states = [state for state, _ in task.slots.values()]
        task.begun = task.begun or states.count("accepted") >= task.k
        task.over = task.begun and not HOLDING & set(states)


MOVES = {
    ("offered", "accepted"),
    ("offered", "declined"),
    ("offered", "timed_out"),
    ("offered", "rescinded"),
    ("accepted", "wrapping"),
    ("accepted", "completed"),
    ("accepted", "failed"),
    ("accepted", "lost"),
    ("accepted", "released"),
    ("wrapping", "completed"),
}
"""What a slot may do."""
