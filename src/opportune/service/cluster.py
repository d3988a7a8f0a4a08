"""One node among several: which pools it takes and hands over, and where all pools are.

What is known of the others comes with the heartbeat (``membership``). ``balancing`` says from it
which pools are this node's to take, to read ahead or to give away; ``tenures`` does it.

Everything here runs in the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from opportune.service import membership
from opportune.service.balancing import gives_one, pools_to_read, pools_to_take
from opportune.service.cluster_metrics import ClusterMetrics
from opportune.service.hosting import Host
from opportune.service.journal import JournalError
from opportune.service.leases import PoolLeases
from opportune.service.membership import POOLS, Membership, Place, View, placed
from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_keys import PostgresKeys
from opportune.service.problems import RefusalError, problem
from opportune.service.settings import ClusterSettings
from opportune.service.shared_clock import SharedClock
from opportune.service.tenures import CREATED, HANDED_OVER, TAKEN_OVER, Tenures

SETTLED = 1.0
"""Seconds between two pools given away to level the nodes, and before one is taken back."""

SILENT = 0.5
"""Part of a lease that is left when its owner has missed a renewal: others begin to read ahead."""

LOOK = 0.25
"""Seconds after which a request that waits for its pool looks again."""

HERE = ""
"""Where a pool is that this node owns."""

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
        tenures: What this node owns.
        metrics: Told of requests sent on; set by the node.
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
        self.tenures = Tenures(journal, host, self.clock, self._tell)
        self.metrics: ClusterMetrics | None = None
        self.watchers: list[Callable[[], None]] = []
        self.draining = False
        self.secret = str(journal.ask("SELECT secret FROM installation")[0][0])
        self._journal, self._host, self._keys = journal, host, keys
        self._places: dict[str, Place] = {}
        self._valid_until = 0.0
        self._levelled = 0.0
        self._changed = asyncio.Event()
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

        self.tenures.start(PoolLeases(self._journal, self.name, address, seconds))
        held = self.tenures.held
        self._member = Membership(self._journal, self.name, address, seconds, held, see)
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

    async def leave(self) -> None:
        """Hand all pools over and take no more; returns when others serve them, or nobody can."""
        member = self._member
        if self.draining or member is None:
            return
        self.draining = True
        member.joining = False
        with suppress(JournalError):
            await self.tenures.run(membership.leave, self._journal, self.name)
        while self.tenures.taking:
            await self.wait(LOOK)
        until = time.monotonic() + self.settings.hold
        pools = list(self._host.owners)
        await asyncio.gather(*(self.tenures.hand_over(pool) for pool in pools))
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
        if self._member is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._member.stop)
        self.tenures.close()

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
        rows = await self.tenures.run(self._journal.ask, "SELECT name FROM pool WHERE last > 0")
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
            if (place is None or not place.exists) and pool not in self.tenures.taking:
                if looked:
                    return None
                looked = await self._look(pool)
                if looked:
                    continue
            if now >= until:
                told = self.tenures.failed.get(pool) or "no node owns the pool at the moment"
                raise RefusalError(problem("unavailable", told, headers={"retry-after": "1"}))
            await self.wait(min(LOOK, until - now))
        return HERE

    async def wait(self, seconds: float) -> None:
        """Wait until it has changed who owns what, but not longer."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def claim(self, pool: str) -> bool:
        """Take a pool that is about to be created; whether this node holds it now."""
        tenures = self.tenures
        if pool in tenures.held or pool in tenures.taking or self.draining:
            return False
        await asyncio.shield(self._take(pool, CREATED, None))
        return self.owns(pool)

    async def makes(self, pool: str) -> bool:
        """Whether there is no such pool yet and this node is the one that makes it now."""
        until = time.monotonic() + self.settings.hold
        return await self.locate(pool, until) is None and await self.claim(pool)

    # ------------------------------------------------------------------------- the beat

    def _seen(self, view: View) -> None:
        """A heartbeat came back."""
        now = time.monotonic()
        assert self._member is not None
        self._member.taken_at = now
        self.clock.set(view.time, view.clock_at)
        self.tenures.renewed(view)
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
        """Take what this node is the next owner of, and give a pool away if it has too many."""
        tenures, places, nodes = self.tenures, self._places, self.nodes
        given = [pool for pool, at in tenures.given.items() if now - at < SETTLED]
        mine = {*tenures.held, *tenures.taking, *given}
        for pool in pools_to_take(places, self.name, nodes, mine, tenures.ahead, now):
            place = places[pool]
            dead = place.node not in nodes and place.node != self.name
            how = TAKEN_OVER if dead else HANDED_OVER
            self._take(pool, how, place.until)
        silent = now + self.settings.lease * SILENT
        unsure = [pool for pool, place in places.items() if place.until < silent]
        tenures.read_ahead(pools_to_read(places, self.name, nodes, now, silent), unsure)
        if tenures.taking or now - self._levelled < SETTLED or not self._host.owners:
            return
        if gives_one(places, self.name, nodes, now):
            self._levelled = now
            tenures.spawn(tenures.hand_over(min(self._host.owners)))

    def _take(self, pool: str, how: str, ended: float | None) -> asyncio.Task[None]:
        """Take a pool; if another node was sooner, look where it is now."""
        taken = self.tenures.take(pool, how, ended)

        async def settled() -> None:
            if not await taken:
                await self._look(pool)
                self._tell()

        return self.tenures.spawn(settled())

    async def _look(self, pool: str) -> bool:
        """Ask where a pool is, now; whether there is an answer."""
        try:
            rows = await self.tenures.run(self._journal.ask, POOLS + " WHERE name = %s", (pool,))
        except JournalError:
            return False
        for row in rows:
            self._places[pool] = placed(row, time.monotonic())
        return True
