"""What a pool did over time: counts in equal stretches of time, read from the journal.

Nothing is counted while nobody looks. The first look reads the last records of the journal, each
further one the records since: so the numbers are of what is on stable storage, survive a restart,
and cost a decision nothing. Three rings of bins keep two days in a few hundred numbers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from opportune.service import events
from opportune.service.events import (
    Offered,
    PlanActivated,
    ServerPut,
    ServerRemoved,
    TaskCreated,
    TaskDropped,
    TaskTypePut,
)
from opportune.service.journal import Journal
from opportune.service.notes import is_note

PINNED = "tasks came with pins"
CONFLICTS = "tasks came with conflicts"
DECLINED = "offers were declined or timed out"
"""What happened that theory knows nothing of."""

READ_BACK = 200_000
"""Records that are read at most; older ones are not counted."""

PAGE = 5_000
"""Records that are read at once."""

WINDOWS = {"15m": (5.0, 180), "4h": (60.0, 240), "2d": (900.0, 192)}
"""Rings by name: seconds of a bin, and how many bins."""


@dataclass(slots=True)
class Bin:
    """What happened in a stretch of time.

    Attributes:
        start: Where it begins, a multiple of its length, in seconds.
        created, dropped: Tasks that came in, and those that found too few servers.
        score: Score of the picks.
        plan: The plan in force at its end, None before one.
        since: When the plan came into force, or the start of the stretch.
        own: Score of the picks since then.
        own_created: Tasks that came in since then.
        declared: When rates, durations or servers were declared anew in this stretch.
        fresh_created, fresh_dropped: Tasks that came in and that were dropped since then.
    """

    start: float
    created: int = 0
    dropped: int = 0
    score: float = 0.0
    plan: str | None = None
    since: float = 0.0
    own: float = 0.0
    own_created: int = 0
    declared: float | None = None
    fresh_created: int = 0
    fresh_dropped: int = 0

    def declare(self, when: float) -> None:
        """What blocking hangs on is another from now."""
        self.declared, self.fresh_created, self.fresh_dropped = when, 0, 0

    def under(self, plan: str | None, when: float) -> None:
        """Another plan decides from now."""
        if plan != self.plan:
            self.plan, self.since, self.own, self.own_created = plan, when, 0.0, 0


@dataclass
class History:
    """The rings of one pool.

    Attributes:
        cursor: The last record read.
        since: Time of the first event counted, None before one.
        complete: Whether that is the first event that there is.
        asides: What happened that theory knows nothing of: pins, conflicts.
    """

    cursor: int = 0
    since: float | None = None
    complete: bool = True
    asides: set[str] = field(default_factory=set)
    _declared: dict[str, object] = field(default_factory=dict)
    _rings: dict[str, deque[Bin]] = field(
        default_factory=lambda: {name: deque(maxlen=n) for name, (_, n) in WINDOWS.items()}
    )

    def catch_up(self, journal: Journal, pool: str, written: int) -> None:
        """Read what was written since; blocks, so in a thread.

        Args:
            journal: Where the pool is written.
            pool: Which pool.
            written: Number of its last record.
        """
        if written < self.cursor:  # another journal under the same name
            self._forget()
        if written - self.cursor > READ_BACK:
            self._forget()
            self.cursor = written - READ_BACK
            self.complete = False
        while self.cursor < written:
            before = self.cursor
            for sequence, record in journal.read(pool, before, min(PAGE, written - before)):
                self.cursor = sequence
                if not is_note(record):
                    self.add(events.decode(record))
            if self.cursor == before:
                return

    def _forget(self) -> None:
        """Begin anew."""
        fresh = History()
        self.cursor, self.since, self.complete = fresh.cursor, fresh.since, fresh.complete
        self.asides, self._rings, self._declared = fresh.asides, fresh._rings, fresh._declared

    def add(self, event: events.Event) -> None:
        """Count an event."""
        if self.since is None:
            self.since = event.time
        if isinstance(event, TaskCreated):
            for one in self._at(event.time):
                one.created += 1
                one.own_created += 1
                one.fresh_created += 1
            if event.pins:
                self.asides.add(PINNED)
            if event.conflicts:
                self.asides.add(CONFLICTS)
        elif isinstance(event, TaskDropped):
            for one in self._at(event.time):
                one.dropped += 1
                one.fresh_dropped += 1
        elif isinstance(event, Offered):
            score = sum(pick.score or 0.0 for pick in event.picks)
            for one in self._at(event.time):
                if one.plan is None:  # what put it in force was not read
                    one.under(event.why.plan, event.time)
                one.score += score
                one.own += score
        elif isinstance(event, PlanActivated):
            for one in self._at(event.time):
                one.under(event.plan, event.time)
        else:
            self._declare(event)

    def _declare(self, event: events.Event) -> None:
        """Note whether rates, durations or slots are others than before."""
        told: tuple[float | None, ...]
        if isinstance(event, TaskTypePut):
            one = event.settings
            name, told = f"type {one.id}", (one.rate, one.mean_duration, one.wrap_up, one.k)
        elif isinstance(event, ServerPut):
            name, told = f"server {event.settings.id}", (event.settings.capacity,)
        elif isinstance(event, ServerRemoved):
            name, told = f"server {event.server}", ()
        else:
            return
        if self._declared.get(name) != told:
            self._declared[name] = told
            for one_bin in self._at(event.time):
                one_bin.declare(event.time)

    def _at(self, when: float) -> list[Bin]:
        """The bin of a time in each ring; events come in order."""
        found = []
        for name, (seconds, _) in WINDOWS.items():
            ring = self._rings[name]
            start = when // seconds * seconds
            if not ring or ring[-1].start < start:
                plan = ring[-1].plan if ring else None
                ring.append(Bin(start, plan=plan, since=max(start, self.since or start)))
            found.append(ring[-1])
        return found

    def bins(self, window: str, now: float) -> list[Bin]:
        """The bins of a window up to now, oldest first; stretches without events are empty bins.

        The first bin begins no earlier than the first event counted.
        """
        seconds, n = WINDOWS[window]
        last = now // seconds * seconds
        known = {one.start: one for one in self._rings[window]}
        if self.since is None:
            return []
        first = max(last - (n - 1) * seconds, self.since // seconds * seconds)
        before = [one.plan for one in self._rings[window] if one.start < first]
        plan = before[-1] if before else None
        filled: list[Bin] = []
        start = first
        while start <= last:
            found = known.get(start) or Bin(start, plan=plan, since=start)
            filled.append(found)
            plan = found.plan
            start += seconds
        return filled
