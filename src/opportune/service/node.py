"""A node: the journal, the owners of its pools, and what watches them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Protocol

import msgspec
import structlog

from opportune.errors import Problem, shorten
from opportune.service import engine
from opportune.service.answers import Answer
from opportune.service.cluster import Cluster
from opportune.service.cluster_metrics import ClusterMetrics
from opportune.service.commands import Command
from opportune.service.condition_metrics import ConditionMetrics
from opportune.service.dealing_node import Dealing
from opportune.service.dealing_orders import Orders
from opportune.service.idempotency import KeyMemory
from opportune.service.journal import WATCH, Journal
from opportune.service.keys import KeyFile, Keys
from opportune.service.learner import Learners
from opportune.service.learner_metrics import LearnerMetrics
from opportune.service.limits import RateLimit
from opportune.service.loading import Loaded, load_pool
from opportune.service.memory import MemoryJournal
from opportune.service.metrics import Metrics
from opportune.service.naming import POOL_WORDS
from opportune.service.owner import PoolOwner
from opportune.service.pending import Tenure
from opportune.service.planner import Planner
from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_keys import PostgresKeys
from opportune.service.problems import RefusalError, moved, refusal
from opportune.service.resources import PlanDocument, PoolId
from opportune.service.settings import ServiceSettings
from opportune.service.sqlite import SqliteJournal
from opportune.service.state import State

MOST_POOLS = 1000
"""Pools of one node."""

PRICING_MEMORY = "Largest memory of the process that prices large plans, 0 without one."

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
    if settings.cluster is not None:
        return PostgresJournal(settings.cluster.url, watch, settings.cluster.schema)
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
        self.limit = RateLimit(settings.rate, settings.burst)
        self.owners: dict[str, PoolOwner] = {}
        self.planner = Planner()
        self.metrics.measured("pricing_memory_bytes", PRICING_MEMORY, self.planner.memory)
        self.learners = Learners(self)
        self.metrics.add(LearnerMetrics(self.learners.known))
        self.orders = Orders(self)
        self.dealing = Dealing(self.orders.ask)
        self.companions: list[Companion] = [self.planner, self.learners, self.dealing]
        self.ready = False
        self.keys: Keys | None = None
        if settings.key_file is not None:
            self.keys = KeyFile(settings.key_file)
        self._journal = journal or open_journal(settings, self.metrics.committed)
        self.cluster = self._join(settings)
        self.now = self.metrics.clock = time.time if self.cluster is None else self.cluster.clock
        file = settings.database if settings.cluster is None else None
        self.metrics.add(ConditionMetrics(self._states, self.now, file))

    def _join(self, settings: ServiceSettings) -> Cluster | None:
        journal = self._journal
        if settings.cluster is None or not isinstance(journal, PostgresJournal):
            return None
        shared = PostgresKeys(journal) if self.keys is None else None
        self.keys = self.keys or shared
        cluster = Cluster(settings.cluster, journal, self, shared)
        cluster.metrics = cluster.tenures.metrics = ClusterMetrics(
            self.metrics.registry, lambda: list(self.owners), lambda: len(cluster.nodes)
        )
        return cluster

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

        Among several nodes there is nothing to read yet: pools are taken one by one.

        Raises:
            JournalError: If one cannot be read.
        """
        engine.warm_up()
        if self.cluster is not None:
            return
        gc.disable()  # nothing that is read is garbage, and looking for it takes half of the time
        try:
            for pool in self._journal.pools():
                self.owners[pool] = self.read_pool(pool)
        finally:
            gc.enable()

    def start(self) -> None:
        """Let timers and companions run; in the event loop's thread."""
        for owner in self.owners.values():
            self._begin(owner)
        self.ready = True
        if self.cluster is not None and self.cluster.settings.advertise:
            self.cluster.start(self.cluster.settings.advertise)

    def listens(self, address: str) -> None:
        """It is known where the node listens; in the event loop's thread."""
        if self.cluster is not None:
            self.cluster.start(address)

    def _begin(self, owner: PoolOwner) -> None:
        owner.start()
        for companion in self.companions:
            companion.owned(owner)

    def _end(self, owner: PoolOwner) -> None:
        for companion in self.companions:
            companion.ended(owner)

    def read_pool(self, pool: str, tenure: Tenure | None = None) -> PoolOwner:
        """The owner of a pool, read from the journal; in any thread.

        Raises:
            JournalError: If it cannot be read.
        """
        every = self.settings.snapshot_every
        return PoolOwner(pool, self._journal, self._no_keys(), every, self._decided, tenure)

    def read_ahead(self, pool: str) -> Loaded:
        """What is in the journal of a pool that another node owns; in any thread.

        Raises:
            JournalError: If it cannot be read.
        """
        return load_pool(self._journal, pool, self._no_keys())

    def _no_keys(self) -> KeyMemory:
        settings = self.settings
        return KeyMemory(settings.idempotency_keys, settings.idempotency_seconds)

    def _decided(self, pool: str, command: Command, answer: Answer, seconds: float) -> None:
        self.metrics.decided(pool, command, answer, seconds)
        self.dealing.decided(pool, answer)

    def adopt(self, owner: PoolOwner) -> None:
        """Serve a pool from now on."""
        self.owners[owner.pool] = owner
        self._begin(owner)

    def drop(self, pool: str) -> PoolOwner | None:
        """Serve a pool no longer; its owner, who takes no more."""
        owner = self.owners.pop(pool, None)
        if owner is not None:
            owner.leave()
            self._end(owner)
        return owner

    async def pool_names(self) -> list[str]:
        """All pools, wherever they are.

        Raises:
            JournalError: If that cannot be found out.
        """
        if self.cluster is not None:
            return await self.cluster.pools()
        return [pool for pool, owner in self.owners.items() if owner.state.settings is not None]

    def owner(self, pool: str) -> PoolOwner:
        """The owner of a pool.

        Raises:
            RefusalError: If there is no such pool, or it has moved.
        """
        owner = self.owners.get(pool)
        if owner is None and self.cluster is not None and self.cluster.knows(pool):
            raise RefusalError(moved())
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
            wrong = Problem("pool", shorten(pool), POOL_WORDS)
            raise refusal("invalid", str(wrong), [wrong]) from error
        if len(self.owners) >= MOST_POOLS:
            raise refusal("conflict", f"there are {MOST_POOLS} pools; one node has no more")
        if self.cluster is not None:  # the relay has claimed it, a moment ago
            raise RefusalError(moved())
        self.adopt(self.read_pool(pool))
        return self.owners[pool]

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
        if self.cluster is not None:
            await self.cluster.close()
        for owner in self.owners.values():
            self._end(owner)
            await owner.close()
        await self.learners.close()
        await asyncio.get_running_loop().run_in_executor(None, self._journal.close)
        _log.info("closed", pools=len(self.owners))
