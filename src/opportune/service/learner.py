"""The learner: beside the requests it reads the pools' journals, and publishes what it has learned.

It runs on the node that owns a pool, one thread for all pools of a node. It reads what is written,
record by record in order, so that what it knows is a function of the journal: a checkpoint goes
into the pool's snapshots, and after a restart the records behind it are read again. A publication
is an ordinary command to the pool's owner; where the pool plans by itself (``replan``), the learner
asks for a plan from it.

The thread shares the interpreter's lock with the requests. What takes long in it is cut into
pieces, with a rest between them; what a publication means for decisions is built in it as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

import msgspec
import structlog

from opportune.service import commands
from opportune.service.journal import Journal, JournalError
from opportune.service.learner_bodies import LearningBody
from opportune.service.learner_counts import Counts, pack, unpack
from opportune.service.learner_estimates import document, estimate, has_changed, has_grown, paces
from opportune.service.learner_events import take_in
from opportune.service.learner_reading import learning_body
from opportune.service.learner_records import decode
from opportune.service.notes import is_note
from opportune.service.ordering import keep_learned
from opportune.service.owner import PoolOwner
from opportune.service.plan_jobs import PRICING, Then
from opportune.service.plan_runs import declared, free_name
from opportune.service.routing import Kept
from opportune.service.state import State

EVERY = 0.1
"""Seconds between two looks at the pools."""

LOOKS_AT_CHANGES = 2.0
"""Seconds between two looks at what changes without outcomes: servers, types, the load."""

AT_ONCE = 2000
"""Records read before other pools have their turn."""

PIECE = 25
"""Records read before requests have their turn: a tenth of a millisecond or so."""

REST = 1e-4
"""Seconds that the thread sleeps between two pieces; any sleep hands the lock on."""

CHECKPOINT_EVERY = 10_000
"""Records between two checkpoints."""

PAIR_SECONDS = 4e-5
"""Seconds between two publications of a pool for each of its pairs: a large one is not published,
and its decisions are not built anew, all the time."""

PREDICTION_SECONDS = 8e-7
"""The same for each context kept at each server, where scores go by contexts: 20 times what such a
prediction takes."""

RESTS = 30.0
"""Seconds after a fault before a pool is learned from again, from its checkpoint."""

REASON = "learned version "
"""What the learner says when it asks for a plan."""

_log = structlog.get_logger("learner")


class PoolLearner:
    """What is learned of one pool. Nothing here knows a clock or a node.

    Args:
        pool: Its id.
        journal: Where it is written.
        checkpoint: From :meth:`checkpoint`; empty to begin at the first record.
        rest: Called between two pieces of work.
    """

    def __init__(
        self,
        pool: str,
        journal: Journal,
        checkpoint: bytes = b"",
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self.pool = pool
        self._rest = rest
        self.counts = Counts()
        self._journal = journal
        if checkpoint:
            try:
                self.counts = unpack(checkpoint)
            except msgspec.DecodeError as error:  # the records have it all
                _log.warning("checkpoint not read", pool=pool, reason=str(error))
        self.kept = self.counts.basis

    def read(self, limit: int | None = None) -> int:
        """Take in what is written behind what is known; how many records.

        Raises:
            JournalError: If the journal cannot be read.
        """
        before = self.counts.basis
        for n, (sequence, record) in enumerate(self._journal.read(self.pool, before, limit), 1):
            if is_note(record):
                self.counts.basis = sequence
            else:
                take_in(self.counts, sequence, decode(record))
            if n % PIECE == 0:
                self._rest()
        return self.counts.basis - before

    def checkpoint(self) -> bytes:
        """All that is known, as bytes."""
        self.kept = self.counts.basis
        return pack(self.counts, self._rest)

    def publication(
        self, state: State, looks_at_changes: bool = True
    ) -> commands.PutLearned | None:
        """What is to be published now, if anything is due.

        Args:
            state: The pool as it is, or a copy of what is declared in it.
            looks_at_changes: Whether to look at more than the number of outcomes.
        """
        counts = self.counts
        if not has_grown(counts) and not looks_at_changes:
            return None
        if not has_grown(counts) and not has_changed(counts, paces(counts, state), state):
            return None
        version = 1 if state.learned is None else state.learned.version + 1
        return commands.PutLearned(learned=document(estimate(counts, state), counts, version))


def plan_request(state: State) -> commands.RequestPlan | None:
    """A plan to be asked for: the latest publication has none, and none is being made."""
    settings, learned = state.settings, state.learned
    if settings is None or learned is None:
        return None
    if settings.learning != "on" or settings.replan == "off":
        return None
    if any(job.state == PRICING and job.reason.startswith(REASON) for job in state.jobs.values()):
        return None
    reasons = [origin.reason for origin in state.made.values()]
    reasons += [job.reason for job in state.jobs.values()]
    reason = f"{REASON}{learned.version}"
    if reason in reasons:
        return None
    name = f"learned-{learned.version}"
    if name in state.plans or name in state.jobs:
        name = free_name(state, name)
    then: Then = "shadow" if settings.replan == "shadow" and state.history else "active"
    return commands.RequestPlan(plan=name, then=then, rates="declared", reason=reason)


class Due(NamedTuple):
    """A publication, and the routings that decisions go by once it is in force."""

    command: commands.PutLearned
    kept: list[Kept]


def due(learner: PoolLearner, state: State, looks_at_changes: bool) -> Due | None:
    """What is to be published now, ready for decisions; in the learner's thread.

    Args:
        learner: Of the pool.
        state: A copy of what is declared in it; it is changed.
        looks_at_changes: As for :meth:`PoolLearner.publication`.
    """
    command = learner.publication(state, looks_at_changes)
    return None if command is None else Due(command, keep_learned(state, command.learned))


def pause(counts: Counts, state: State) -> float:
    """Seconds from a publication of a pool to its next one, at least."""
    n_types, n_servers = len(state.types), len(state.servers)
    predictions = len(counts.tasks) * n_servers if counts.features else 0
    return PAIR_SECONDS * n_types * n_servers + PREDICTION_SECONDS * predictions


class HasJournal(Protocol):
    """A node."""

    @property
    def journal(self) -> Journal:
        """Where it writes."""
        ...


class Learners:
    """The learners of the pools that a node owns (``node.Companion``).

    Args:
        place: Whose journal holds their events.
    """

    def __init__(self, place: HasJournal) -> None:
        self._place = place
        self._owners: dict[str, PoolOwner] = {}
        self._learners: dict[str, PoolLearner] = {}
        self._looked: dict[str, float] = {}
        self._rests: dict[str, float] = {}
        self._next: dict[str, float] = {}
        self._thread = ThreadPoolExecutor(1, "learner")
        self._loop: asyncio.Task[None] | None = None

    def owned(self, owner: PoolOwner) -> None:
        """Learn from a pool from now on."""
        self._owners[owner.pool] = owner
        if self._loop is None:
            self._loop = asyncio.create_task(self._look_again())

    def ended(self, owner: PoolOwner) -> None:
        """Do so no longer; the next owner reads the checkpoint, and what is written since."""
        self._owners.pop(owner.pool, None)
        for kept in (self._learners, self._looked, self._rests, self._next):
            kept.pop(owner.pool, None)
        if not self._owners and self._loop is not None:
            self._loop.cancel()
            self._loop = None

    async def close(self) -> None:
        """Nothing is read any more: the journal may be closed."""
        await asyncio.to_thread(self._thread.shutdown, True, cancel_futures=True)

    def known(self) -> Iterator[tuple[Counts, State, int]]:
        """What is counted of each pool that learns here, its state, its last record."""
        for pool, learner in list(self._learners.items()):
            owner = self._owners.get(pool)
            if owner is not None:
                yield learner.counts, owner.state, owner.written

    async def body(self, owner: PoolOwner) -> LearningBody:
        """What is known of a pool, everything acknowledged included.

        Raises:
            JournalError: If the journal cannot be read.
        """
        state = declared(owner.state)
        learner = self._learner(owner)
        if learner is None:
            return learning_body(Counts(), state)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, learner.read)
        except Exception:  # it may have stopped in the middle of an event
            self._learners.pop(owner.pool, None)
            raise
        return await loop.run_in_executor(self._thread, learning_body, learner.counts, state)

    def _learner(self, owner: PoolOwner) -> PoolLearner | None:
        settings, pool = owner.state.settings, owner.pool
        if settings is None or settings.learning == "off":
            self._learners.pop(pool, None)
            return None
        if pool not in self._learners:
            checkpoint = owner.loaded.learner
            rest = partial(time.sleep, REST)
            self._learners[pool] = PoolLearner(pool, self._place.journal, checkpoint, rest)
        return self._learners[pool]

    async def _look_again(self) -> None:
        while True:
            busy = False
            for pool, owner in list(self._owners.items()):
                try:
                    busy |= await self._look_at(owner)
                except JournalError as error:
                    _log.warning("the journal cannot be read", pool=pool, reason=str(error))
                except Exception:
                    _log.exception("the learner failed", pool=pool)
                    self._learners.pop(pool, None)
                    self._rests[pool] = asyncio.get_running_loop().time() + RESTS
            await asyncio.sleep(0.0 if busy else EVERY)

    async def _look_at(self, owner: PoolOwner) -> bool:
        """Read on, publish what is due, ask for a plan; whether there is more to read."""
        loop = asyncio.get_running_loop()
        if owner.failed or loop.time() < self._rests.get(owner.pool, 0.0):
            return False
        learner = self._learner(owner)
        if learner is None:
            return False
        n = 0
        if learner.counts.basis < owner.written:
            n = await loop.run_in_executor(self._thread, learner.read, AT_ONCE)
            if learner.counts.basis - learner.kept >= CHECKPOINT_EVERY:
                data = await loop.run_in_executor(self._thread, learner.checkpoint)
                owner.loaded.learner = data
        if n < AT_ONCE and loop.time() >= self._next.get(owner.pool, 0.0):
            await self._publish(owner, learner)
        asked = plan_request(owner.state)
        if asked is not None:
            owner.ask(asked)
        return n == AT_ONCE

    async def _publish(self, owner: PoolOwner, learner: PoolLearner) -> None:
        loop = asyncio.get_running_loop()
        looks = loop.time() - self._looked.get(owner.pool, 0.0) >= LOOKS_AT_CHANGES
        if looks:
            self._looked[owner.pool] = loop.time()
        if looks or has_grown(learner.counts):
            state = declared(owner.state)
            found = await loop.run_in_executor(self._thread, due, learner, state, looks)
            if found is not None:
                owner.state.kept_routings = found.kept
                reply = await owner.ask(found.command)
                if reply.status >= 400:
                    told = reply.body.decode(errors="replace")
                    _log.warning("publication refused", pool=owner.pool, reason=told)
                    return
                self._next[owner.pool] = loop.time() + pause(learner.counts, state)
                await loop.run_in_executor(self._thread, learner.read)
