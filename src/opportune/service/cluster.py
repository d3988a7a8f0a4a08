"""One node among several: which pools it takes, keeps, hands over, and where the others are.

What is known of the others comes with the heartbeat (``membership``). A pool that nobody holds is
taken by a node that has less than its share, or, after a moment, by anybody; its journal is read,
and from then on it is served. A node with two pools more than another hands one over. Handing over
is: take no more, write what waits, a snapshot, end the lease, tell the others.

Everything here runs in the thread of the event loop; what waits for the database has threads.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from opportune.service import membership
from opportune.service.balancing import gives_one, pools_to_take
from opportune.service.cluster_metrics import ClusterMetrics
from opportune.service.hosting import Host
from opportune.service.journal import JournalError, NotOwnerError
from opportune.service.leases import PoolLeases
from opportune.service.membership import POOLS, Membership, Place, View, placed
from opportune.service.pending import Tenure
from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_keys import PostgresKeys
from opportune.service.problems import RefusalError, problem
from opportune.service.settings import ClusterSettings
from opportune.service.shared_clock import SharedClock

SETTLED = 1.0
"""Seconds between two pools given away to level the nodes, and before one is taken back."""

LOOK = 0.25
"""Seconds after which a request that waits for its pool looks again."""

THREADS = 4

HERE = ""
"""Where a pool is that this node owns."""

CREATED, HANDED_OVER, TAKEN_OVER = "created", "handed over", "taken over"
"""How a node comes to a pool."""

Found = TypeVar("Found")

_log = structlog.get_logger("cluster")


class Cluster:
    """The other nodes, and this one's place among them.

    Args:
        settings: How.
        journal: In whose database the nodes meet.
        host: The node.
        keys: Told of the API keys that a heartbeat brings, if they are in the database.

    Attributes:
        name: Of this node, different from those of all others, also of its own past.
        clock: The clock that all nodes share.
        nodes: Nodes that live, and where they answer.
        failed: Pools that this node holds and cannot read, and why.
        metrics: Told of what happens; set by the node.
        watchers: Called when it has changed who owns what.
        draining: Whether it was told to stop.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        journal: PostgresJournal,
        host: Host,
        keys: PostgresKeys | None,
    ) -> None:
        self.settings = settings
        self.name = f"{settings.name or socket.gethostname()}-{secrets.token_hex(3)}"
        self.clock = SharedClock()
        self.nodes: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.metrics: ClusterMetrics | None = None
        self.watchers: list[Callable[[], None]] = []
        self.draining = False
        self.secret = str(journal.ask("SELECT secret FROM installation")[0][0])
        self._journal, self._host, self._keys = journal, host, keys
        self._places: dict[str, Place] = {}
        self._taking: set[str] = set()
        self._given: dict[str, float] = {}
        self._valid_until = 0.0
        self._levelled = 0.0
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(THREADS, "leases")
        self._leases: PoolLeases | None = None
        self._member: Membership | None = None

    # --------------------------------------------------------------------------- life

    def start(self, address: str) -> None:
        """Join the others; in the event loop's thread.

        Args:
            address: Where this node answers, unless the settings advertise something else.
        """
        if self._member is not None:
            return
        loop = asyncio.get_running_loop()
        address = (self.settings.advertise or address).rstrip("/")
        seconds = self.settings.lease

        def see(view: View) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
                loop.call_soon_threadsafe(self._seen, view)

        self._leases = PoolLeases(self._journal, self.name, address, seconds)
        self._member = Membership(self._journal, self.name, address, seconds, see)
        self._member.start()
        _log.info("joined", node=self.name, address=address)

    async def see_others(self) -> None:
        """Wait for the first heartbeat, but not for a database that does not answer."""
        until = time.monotonic() + self.settings.hold
        while not self.joined and time.monotonic() < until:
            await self.wait(LOOK)

    @property
    def joined(self) -> bool:
        """Whether the others were seen lately."""
        return time.monotonic() < self._valid_until

    @property
    def held(self) -> dict[str, int]:
        """Pools that this node holds, and their tokens."""
        return {} if self._member is None else self._member.held

    async def leave(self) -> None:
        """Hand all pools over and take no more; returns when others serve them, or nobody can."""
        member = self._member
        if self.draining or member is None:
            return
        self.draining = True
        member.joining = False
        with suppress(JournalError):
            await self._run(membership.leave, self._journal, self.name)
        while self._taking:
            await self.wait(LOOK)
        until = time.monotonic() + self.settings.hold
        pools = list(self._host.owners)
        await asyncio.gather(*(self.hand_over(pool) for pool in pools))
        while time.monotonic() < until and any(name != self.name for name in self.nodes):
            now = time.monotonic()
            places = [self._places.get(pool) for pool in pools]
            if all(one and one.until > now and one.node != self.name for one in places):
                break
            await self.wait(LOOK)
        _log.info("left", node=self.name, pools=len(pools))

    async def close(self) -> None:
        """Leave, if that is not done, and let go of the database."""
        await self.leave()
        for task in self._tasks:
            task.cancel()
        if self._member is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._member.stop)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ----------------------------------------------------------------------- questions

    def owns(self, pool: str) -> bool:
        """Whether this node serves a pool, and its leases go on for certain."""
        return pool in self._host.owners and time.monotonic() < self._valid_until

    def trusts(self, secret: str) -> bool:
        """Whether this was said by another node."""
        return hmac.compare_digest(secret.encode("latin-1"), self.secret.encode())

    def knows(self, pool: str) -> bool:
        """Whether there is a pool, wherever it is, as far as this node has seen."""
        place = self._places.get(pool)
        return place is not None and place.exists

    async def pools(self) -> list[str]:
        """All pools there are at this moment, wherever they are.

        Raises:
            JournalError: If the database does not answer.
        """
        rows = await self._run(self._journal.ask, "SELECT name FROM pool WHERE last > 0")
        return sorted(str(name) for (name,) in rows)

    def place_of(self, pool: str) -> Place | None:
        """Where a pool was when that was last seen."""
        return self._places.get(pool)

    async def locate(self, pool: str, until: float) -> str | None:
        """Where a pool is served: ``HERE``, an address, or None if there is no such pool.

        Args:
            pool: Which.
            until: How long to wait for somebody to serve it, on the clock that never goes back.

        Raises:
            RefusalError: If nobody did so in time.
        """
        looked = False
        while not self.owns(pool):
            place, now = self._places.get(pool), time.monotonic()
            if place is not None and place.until > now and place.node != self.name:
                return place.address
            if (place is None or not place.exists) and pool not in self._taking:
                if looked:
                    return None
                looked = await self._look(pool)
                if looked:
                    continue
            if now >= until:
                told = self.failed.get(pool) or "no node owns the pool at the moment"
                raise RefusalError(problem("unavailable", told, headers={"retry-after": "1"}))
            await self.wait(min(LOOK, until - now))
        return HERE

    async def wait(self, seconds: float) -> None:
        """Wait until it has changed who owns what, but not longer."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def claim(self, pool: str) -> bool:
        """Take a pool that is about to be created; whether this node holds it now."""
        if pool in self.held or pool in self._taking or self.draining:
            return False
        self._taking.add(pool)
        await self._take(pool, CREATED, None)
        return self.owns(pool)

    async def makes(self, pool: str) -> bool:
        """Whether there is no such pool yet and this node is the one that makes it now."""
        until = time.monotonic() + self.settings.hold
        return await self.locate(pool, until) is None and await self.claim(pool)

    async def hand_over(self, pool: str) -> None:
        """Give a pool away: what waits is written, and another node may take it at once."""
        owner = self._host.drop(pool)
        if owner is None:
            return
        self._given[pool] = time.monotonic()
        await owner.close()
        if self.held.get(pool) == owner.token:
            self.held.pop(pool)
            with suppress(JournalError):  # then it ends by itself
                await self._run(self._release, pool, owner.token)
        _log.info("handed over", node=self.name, pool=pool)

    # ------------------------------------------------------------------------- the beat

    def _seen(self, view: View) -> None:
        """A heartbeat came back."""
        now = time.monotonic()
        assert self._member is not None
        self._member.taken_at = now
        self.clock.set(view.time, view.clock_at)
        for pool, token in view.held.items():
            if pool not in view.renewed and self.held.get(pool) == token:
                self._lose(pool, token)
        if view.hears:
            self._valid_until = view.asked + self._member.seconds
        self._places = dict(view.places)
        self.nodes = dict(view.nodes)
        if self._keys is not None:
            self._keys.took(view.keys)
        if not self.draining:
            self._level(now)
        self._tell()

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher()
        self._changed.set()
        self._changed.clear()

    def _level(self, now: float) -> None:
        """Take pools that nobody holds; hand one over if another node has two fewer."""
        given = [pool for pool, at in self._given.items() if now - at < SETTLED]
        mine = {*self.held, *self._taking, *given}
        for pool in pools_to_take(self._places, self.name, len(self.nodes), mine, now):
            place = self._places[pool]
            dead = place.node not in self.nodes and place.node != self.name
            self._taking.add(pool)
            self._spawn(self._take(pool, TAKEN_OVER if dead else HANDED_OVER, place.until))
        if self._taking or now - self._levelled < SETTLED or not self._host.owners:
            return
        if gives_one(self._places, self.name, self.nodes, now):
            self._levelled = now
            self._spawn(self.hand_over(min(self._host.owners)))

    # --------------------------------------------------------------------------- taking

    async def _take(self, pool: str, how: str, ended: float | None) -> None:
        """Take a pool's lease and read the pool."""
        assert self._leases is not None
        try:
            token = await self._run(self._leases.take, pool)
            if token is None:
                await self._look(pool)
                return
            self.held[pool] = token
            if await self._read(pool, token) and self.metrics is not None:
                since = None if ended is None or ended < 0 else time.monotonic() - ended
                self.metrics.taken(how, since if how == TAKEN_OVER else None)
                _log.info("taken", node=self.name, pool=pool, how=how, seconds=since)
        except JournalError as error:
            _log.warning("not taken", node=self.name, pool=pool, reason=str(error))
        finally:
            self._taking.discard(pool)
            self._tell()

    async def _read(self, pool: str, token: int) -> bool:
        """Read a pool that this node holds, and serve it; whether it does."""
        tenure = Tenure(token, self.clock, self._over)
        while self.held.get(pool) == token:
            try:
                owner = await self._run(self._host.read_pool, pool, tenure)
            except JournalError as error:
                self.failed[pool] = f"the pool can not be read: {error}"
                _log.warning("not read", node=self.name, pool=pool, reason=str(error))
                await asyncio.sleep(LOOK)
            except Exception as error:  # a record that this release does not know
                self.failed[pool] = f"the pool can not be read: {error}"
                _log.exception("the pool is out of service", pool=pool)
                return False
            else:
                if self.held.get(pool) != token:
                    return False
                self.failed.pop(pool, None)
                self._host.adopt(owner)
                self._tell()
                with suppress(JournalError):
                    await self._run(membership.tell, self._journal)
                return True
        return False

    def _over(self, pool: str, token: int, error: BaseException | None) -> None:
        """An owner can go on no longer."""
        if self.held.get(pool) != token:
            return
        if isinstance(error, NotOwnerError):
            self._lose(pool, token)
        else:
            self._host.drop(pool)
            self._spawn(self._read(pool, token))

    def _lose(self, pool: str, token: int) -> None:
        """The lease of a pool is over."""
        _log.warning("lease lost", node=self.name, pool=pool, token=token)
        self.held.pop(pool, None)
        self.failed.pop(pool, None)
        self._host.drop(pool)
        if self.metrics is not None:
            self.metrics.lost()

    # --------------------------------------------------------------------------- threads

    def _release(self, pool: str, token: int) -> None:
        assert self._leases is not None
        self._leases.release(pool, token)
        membership.tell(self._journal)

    async def _look(self, pool: str) -> bool:
        """Ask where a pool is, now; whether there is an answer."""
        try:
            rows = await self._run(self._journal.ask, POOLS + " WHERE name = %s", (pool,))
        except JournalError:
            return False
        for row in rows:
            self._places[pool] = placed(row, time.monotonic())
        return True

    async def _run(self, call: Callable[..., Found], *values: Any) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *values)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
