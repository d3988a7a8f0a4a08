"""The pools that this node owns, among several: how it comes to them and how it gives them up.

To own a pool is to hold its lease and to have read its journal. Handing it over is: take no more,
write what waits, a snapshot, end the lease, tell the others.

While another owner is silent, but its lease still runs, the node that comes next *reads ahead* what
is in the journal so far; behind the end of the lease only the rest is left to read. What is
committed never changes, and once the lease is taken, with a new fencing token, nobody else can
write: so it is the same state as read at once.

Everything here runs in the thread of the event loop; what waits for the database has threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from opportune.service import membership
from opportune.service.cluster_metrics import ClusterMetrics
from opportune.service.hosting import Host
from opportune.service.journal import JournalError, NotOwnerError
from opportune.service.leases import PoolLeases
from opportune.service.loading import Loaded
from opportune.service.membership import View
from opportune.service.pending import Tenure
from opportune.service.postgres import PostgresJournal
from opportune.service.shared_clock import SharedClock

THREADS = 4
READERS = 2
"""Threads that read ahead: they must not keep others from taking what they have read."""

AGAIN = 0.25
"""Seconds after which a pool that could not be read is read again."""

CREATED, HANDED_OVER, TAKEN_OVER = "created", "handed over", "taken over"
"""How a node comes to a pool."""

Found = TypeVar("Found")

_log = structlog.get_logger("cluster")


class Tenures:
    """What a node owns.

    Args:
        journal: In whose database the leases are.
        host: The node.
        clock: That all nodes share.
        changed: Called when something has changed.

    Attributes:
        node: Its name, for the log.
        held: Pools whose leases this node holds, and the fencing tokens.
        taking: Pools that it is taking.
        given: Pools that it gave away, and when.
        failed: Pools that it holds and cannot read, and why.
        metrics: Told of what happens; set by the node.
    """

    def __init__(
        self,
        journal: PostgresJournal,
        host: Host,
        clock: SharedClock,
        changed: Callable[[], None],
    ) -> None:
        self.node = ""
        self.held: dict[str, int] = {}
        self.taking: set[str] = set()
        self.given: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.metrics: ClusterMetrics | None = None
        self._journal, self._host, self._clock, self._changed = journal, host, clock, changed
        self._leases: PoolLeases | None = None
        self._ahead: dict[str, asyncio.Task[Loaded]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(THREADS, "leases")
        self._readers = ThreadPoolExecutor(READERS, "ahead")

    def start(self, leases: PoolLeases) -> None:
        """Pools can be taken from now on, by these leases."""
        self._leases = leases
        self.node = leases.node

    def close(self) -> None:
        """Let go of everything; leases that were not handed over end by themselves."""
        for task in (*self._tasks, *self._ahead.values()):
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def run(self, call: Callable[..., Found], *values: Any) -> Found:
        """Let a thread ask the database."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *values)

    def spawn(self, work: Coroutine[Any, Any, Found]) -> asyncio.Task[Found]:
        """Let something be done beside; it ends with this."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ----------------------------------------------------------------------- coming to a pool

    def take(self, pool: str, how: str, ended: float | None) -> asyncio.Task[bool]:
        """Take a pool's lease, read the pool and serve it; whether the lease was to be had.

        Args:
            pool: Which.
            how: ``CREATED``, ``HANDED_OVER`` or ``TAKEN_OVER``.
            ended: When the lease before ended, on the clock that never goes back.
        """
        self.taking.add(pool)
        return self.spawn(self._take(pool, how, ended))

    async def _take(self, pool: str, how: str, ended: float | None) -> bool:
        assert self._leases is not None
        try:
            token = await self.run(self._leases.take, pool)
            if token is None:
                return False
            self.held[pool] = token
            ahead = await self._read_before(pool)
            if await self._read(pool, token, ahead) and self.metrics is not None:
                since = None if ended is None or ended < 0 else time.monotonic() - ended
                self.metrics.taken(how, since if how == TAKEN_OVER else None)
                _log.info("taken", node=self.node, pool=pool, how=how, seconds=since)
        except JournalError as error:
            _log.warning("not taken", node=self.node, pool=pool, reason=str(error))
        finally:
            self.taking.discard(pool)
            self._changed()
        return True

    async def _read(self, pool: str, token: int, ahead: Loaded | None = None) -> bool:
        """Read a pool whose lease is held, and serve it; whether this is so now."""
        while self.held.get(pool) == token:
            tenure = Tenure(token, self._clock, self._over, ahead)
            ahead = None  # if that fails, it is read from the beginning
            try:
                owner = await self.run(self._host.read_pool, pool, tenure)
            except JournalError as error:
                self.failed[pool] = f"the pool can not be read: {error}"
                _log.warning("not read", node=self.node, pool=pool, reason=str(error))
                await asyncio.sleep(AGAIN)
            except Exception as error:  # a record that this release does not know
                self.failed[pool] = f"the pool can not be read: {error}"
                _log.exception("the pool is out of service", pool=pool)
                return False
            else:
                if self.held.get(pool) != token:
                    return False
                self.failed.pop(pool, None)
                self._host.adopt(owner)
                self._changed()
                with suppress(JournalError):
                    await self.run(membership.tell, self._journal)
                return True
        return False

    # -------------------------------------------------------------------------- reading ahead

    @property
    def ahead(self) -> Collection[str]:
        """Pools that were read ahead, or are being read."""
        return self._ahead.keys()

    def read_ahead(self, pools: Collection[str], unsure: Collection[str]) -> None:
        """Read pools ahead.

        Args:
            pools: Those to be read, unless they are.
            unsure: All whose owner is silent or gone; what was read of others is forgotten.
        """
        for pool in self._ahead.keys() - set(unsure) - self.taking:
            self._ahead.pop(pool).cancel()
        loop = asyncio.get_running_loop()
        for pool in pools:
            if pool not in self._ahead and pool not in self.taking:
                _log.info("reading ahead", node=self.node, pool=pool)
                reading = loop.run_in_executor(self._readers, self._host.read_ahead, pool)
                self._ahead[pool] = asyncio.ensure_future(_waited_for(reading))

    async def _read_before(self, pool: str) -> Loaded | None:
        """What was read of a pool before its lease was taken; None if nothing was."""
        reading = self._ahead.pop(pool, None)
        if reading is None:
            return None
        await asyncio.wait([reading])
        return None if reading.cancelled() or reading.exception() else reading.result()

    # ------------------------------------------------------------------------- giving it up

    async def hand_over(self, pool: str) -> None:
        """Give a pool away: what waits is written, and another node may take it at once."""
        owner = self._host.drop(pool)
        if owner is None:
            return
        self.given[pool] = time.monotonic()
        await owner.close()
        if self.held.get(pool) == owner.token:
            self.held.pop(pool)
            with suppress(JournalError):  # then it ends by itself
                await self.run(self._release, pool, owner.token)
        _log.info("handed over", node=self.node, pool=pool)

    def _release(self, pool: str, token: int) -> None:
        assert self._leases is not None
        self._leases.release(pool, token)
        membership.tell(self._journal)

    def renewed(self, view: View) -> None:
        """A heartbeat came back: what it could not renew is lost."""
        for pool, token in view.held.items():
            if pool not in view.renewed and self.held.get(pool) == token:
                self._lose(pool, token)

    def _over(self, pool: str, token: int, error: BaseException | None) -> None:
        """An owner can go on no longer."""
        if self.held.get(pool) != token:
            return
        if isinstance(error, NotOwnerError):
            self._lose(pool, token)
        else:
            self._host.drop(pool)
            self.spawn(self._read(pool, token))

    def _lose(self, pool: str, token: int) -> None:
        """The lease of a pool is over."""
        _log.warning("lease lost", node=self.node, pool=pool, token=token)
        self.held.pop(pool, None)
        self.failed.pop(pool, None)
        self._host.drop(pool)
        if self.metrics is not None:
            self.metrics.lost()


async def _waited_for(reading: asyncio.Future[Loaded]) -> Loaded:
    """A task that ends with a thread's work; cancelled, it does not wait for it."""
    return await reading
