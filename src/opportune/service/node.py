"""A node: the journal, the owners of its pools, and what watches them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Protocol

import msgspec
import structlog

from opportune.service import engine
from opportune.service.idempotency import KeyMemory
from opportune.service.journal import WATCH, Journal
from opportune.service.keys import KeyFile
from opportune.service.limits import RateLimit
from opportune.service.memory import MemoryJournal
from opportune.service.metrics import Metrics
from opportune.service.owner import PoolOwner
from opportune.service.planner import Planner
from opportune.service.problems import refusal
from opportune.service.resources import PlanDocument, PoolId
from opportune.service.settings import ServiceSettings
from opportune.service.sqlite import SqliteJournal
from opportune.service.state import State

MOST_POOLS = 1000
"""Pools of one node."""

_log = structlog.get_logger("node")


class Companion(Protocol):
    """Works for the pools that this node owns, beside the requests: a planner, a learner.

    A pool has one owner in the whole installation, so it has one planner and one learner: that is
    their election. Both methods are called in the event loop's thread and must not block.
    """

    def owned(self, owner: PoolOwner) -> None:
        """This node owns a pool from now on: at start, newly created, or taken over."""
        ...

    def ended(self, owner: PoolOwner) -> None:
        """It does so no longer: handed over, lost, or the node closes. Ask it nothing more."""
        ...


def open_journal(settings: ServiceSettings, watch: WATCH | None = None) -> Journal:
    """The journal that the settings ask for.

    Raises:
        InputError: If it cannot be opened.
    """
    if settings.database is None:
        return MemoryJournal(watch)
    return SqliteJournal(settings.database, watch)


class Node:
    """All pools of a process.

    Args:
        settings: How it runs.
        journal: Where it writes; None opens the one of the settings.

    Raises:
        InputError: If the journal or the file of keys cannot be opened.
    """

    def __init__(self, settings: ServiceSettings, journal: Journal | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics(self._states)
        self.keys = KeyFile(settings.key_file) if settings.key_file is not None else None
        self.limit = RateLimit(settings.rate, settings.burst)
        self.owners: dict[str, PoolOwner] = {}
        self.planner = Planner()
        self.companions: list[Companion] = [self.planner]
        self.ready = False
        self._journal = journal or open_journal(settings, self.metrics.committed)

    @property
    def journal(self) -> Journal:
        """Where the node writes."""
        return self._journal

    def _states(self) -> Iterator[tuple[str, State]]:
        for pool, owner in self.owners.items():
            if owner.state.settings is not None:
                yield pool, owner.state

    def load(self) -> None:
        """Read all pools; before the first request, in any thread.

        Raises:
            JournalError: If one cannot be read.
        """
        engine.warm_up()
        gc.disable()  # nothing that is read is garbage, and looking for it takes half of the time
        try:
            for pool in self._journal.pools():
                self.owners[pool] = self._own(pool)
        finally:
            gc.enable()

    def start(self) -> None:
        """Let timers and companions run; in the event loop's thread."""
        for owner in self.owners.values():
            self._begin(owner)
        self.ready = True

    def _begin(self, owner: PoolOwner) -> None:
        owner.start()
        for companion in self.companions:
            companion.owned(owner)

    def _end(self, owner: PoolOwner) -> None:
        for companion in self.companions:
            companion.ended(owner)

    def _own(self, pool: str) -> PoolOwner:
        settings = self.settings
        memory = KeyMemory(settings.idempotency_keys, settings.idempotency_seconds)
        watch = self.metrics.decided
        return PoolOwner(pool, self._journal, memory, settings.snapshot_every, watch)

    def owner(self, pool: str) -> PoolOwner:
        """The owner of a pool.

        Raises:
            RefusalError: If there is no such pool.
        """
        owner = self.owners.get(pool)
        if owner is None or owner.state.settings is None:
            raise refusal("not-found", f"there is no pool {pool!r}")
        return owner

    def owner_or_new(self, pool: str) -> PoolOwner:
        """The owner of a pool that is there or is about to be created.

        Raises:
            RefusalError: If it cannot be called so, or there are too many pools.
        """
        if pool in self.owners:
            return self.owners[pool]
        try:
            msgspec.convert(pool, PoolId)
        except msgspec.ValidationError as error:
            raise refusal("invalid", f"pool {pool!r}: {error}") from error
        if len(self.owners) >= MOST_POOLS:
            raise refusal("conflict", f"there are {MOST_POOLS} pools; one node has no more")
        owner = self.owners[pool] = self._own(pool)
        self._begin(owner)
        return owner

    async def make_plan(self, pool: str, plan_id: str, policy: str) -> PlanDocument:
        """Price a pool as it is now and plan for it, in a thread of its own.

        Raises:
            InputError: If the pool cannot be priced.
            OpportuneError: If no plan comes of it.
        """
        return await self.planner.plan_now(self.owner(pool).state, plan_id, policy)

    def stop(self) -> None:
        """Take no more: not ready, and who waits for events waits no longer."""
        self.ready = False
        for owner in self.owners.values():
            owner.wake()

    async def close(self) -> None:
        """Write what waits, take snapshots, let go of the journal."""
        self.stop()
        for owner in self.owners.values():
            self._end(owner)
            await owner.close()
        await asyncio.get_running_loop().run_in_executor(None, self._journal.close)
        _log.info("closed", pools=len(self.owners))
