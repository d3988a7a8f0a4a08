"""What a node does for split pools: sub-pools follow, servers are dealt, movers are carried over.

Everything is done by commands to the owners of the pools concerned, and each may be repeated: a
step that fails, or that a crash cuts off, is done again as a whole. Three duties, each with one
place in the installation that has it:

- The owner of the whole lets its sub-pools follow what is declared, and deals when it is time. The
  number of a deal is written in the whole's journal before any sub-pool hears of it.
- The owner of a place that a server left tells the place that it goes to, until that has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import structlog

from opportune.errors import OpportuneError, Problem
from opportune.service import events
from opportune.service.answers import Answer
from opportune.service.commands import Command, DealServers, Follow, PutPool, TakeIn, Tick
from opportune.service.dealing import (
    declared_of,
    on_their_way,
    place_of_task,
    places_by_deal,
    servers_to_deal,
    sub_pools,
)
from opportune.service.dealing_records import Deal
from opportune.service.owner import PoolOwner
from opportune.service.problems import RefusalError, Reply

Ask = Callable[[str, Command], Awaitable[Reply]]
"""Asks the owner of a pool, wherever it is."""

AGAIN = 0.2
"""Seconds after which a step that failed is tried again."""

_DECLARES = frozenset(
    {
        events.PoolPut,
        events.TaskTypePut,
        events.ServerPut,
        events.ServerRemoved,
        events.ScoresPut,
        events.PlanActivated,
        events.PlanShadowed,
    }
)
"""Events of a whole that its sub-pools follow."""

_log = structlog.get_logger("dealing")


class UnfinishedError(OpportuneError):
    """A place has not done what it was asked to, or did not answer."""


@dataclass
class _PoolWork:
    """What is to be done for one pool that this node owns.

    Attributes:
        owner: The pool's.
        wake: Set when there is something to do.
        declares: How often something was declared; ``followed``: as of when sub-pools follow.
        left: Servers that left since they were carried over last; None: look at all.
        sent: Number of the deal that every place has.
        ready: Set while nothing is left to do.
        failed: Steps that failed in a row.
        task: What does it.
    """

    owner: PoolOwner
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    declares: int = 1
    followed: int = 0
    left: set[str] | None = None
    sent: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    failed: int = 0
    task: asyncio.Task[None] | None = None


class Dealing:
    """Works for the split pools, and the sub-pools, that this node owns; a companion.

    Args:
        ask: Asks the owner of a pool.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._pools: dict[str, _PoolWork] = {}
        self._turns = count()

    def owned(self, owner: PoolOwner) -> None:
        """A pool is this node's: carry on where the one before it stopped."""
        work = self._pools[owner.pool] = _PoolWork(owner)
        work.task = asyncio.get_running_loop().create_task(self._run(work))

    def ended(self, owner: PoolOwner) -> None:
        """It is so no longer."""
        work = self._pools.pop(owner.pool, None)
        if work is not None and work.task is not None:
            work.task.cancel()

    def decided(self, pool: str, answer: Answer) -> None:
        """Told of every command: whether it leaves something to do."""
        for event in answer.events:
            kind = type(event)
            if kind in _DECLARES or kind is events.ServersLeft:
                work = self._pools.get(pool)
                if work is None:
                    return
                work.declares += kind in _DECLARES
                if isinstance(event, events.ServersLeft) and work.left is not None:
                    work.left.update(event.servers)
                work.ready.clear()
                work.wake.set()

    async def followed(self, owner: PoolOwner, seconds: float) -> None:
        """Wait until sub-pools have what was declared in a pool, if it is split or to be."""
        settings = owner.state.settings
        if settings is not None and (settings.partitions > 1 or owner.state.deal.most > 1):
            await self.settled(owner.pool, seconds)

    async def settled(self, pool: str, seconds: float) -> bool:
        """Wait until sub-pools have what was declared, and deals and movers are through."""
        work = self._pools.get(pool)
        if work is None:
            return True
        try:
            await asyncio.wait_for(work.ready.wait(), seconds)
        except TimeoutError:
            return False
        return True

    # -------------------------------------------------------------------------- what is done

    async def _run(self, work: _PoolWork) -> None:
        await self._first(work)
        while True:
            work.wake.clear()
            wait: float | None = AGAIN
            try:
                wait = await self._step(work)
                work.failed = 0
                if not work.wake.is_set():
                    work.ready.set()
            except (OpportuneError, RefusalError) as error:
                work.failed += 1
                if work.failed == 1:
                    _log.warning("a deal waits", pool=work.owner.pool, reason=str(error))
            except Exception:  # a fault of ours must not end all further deals
                work.left = None
                _log.exception("a deal failed", pool=work.owner.pool)
            with suppress(TimeoutError):
                await asyncio.wait_for(work.wake.wait(), wait)

    async def _first(self, work: _PoolWork) -> None:
        """Who could leave and has not written it, because the node died, does so now."""
        if work.owner.state.leaving:
            await work.owner.ask(Tick())

    async def _step(self, work: _PoolWork) -> float | None:
        """Do all there is to do; seconds until there is more, None if it must be told.

        First sub-pools follow: a place takes in only servers that it knows.
        """
        state = work.owner.state
        settings, deal = state.settings, state.deal
        if settings is None:
            return None
        most = max(settings.partitions, deal.most)
        places = [] if settings.part_of is not None else sub_pools(state.pool, most)
        if places and work.followed != work.declares:
            declares = work.declares
            declared = await work.owner.read(declared_of)
            orders = [PutPool(settings=declared.settings), Follow(declared=declared)]
            await self._ask_all(places, orders)
            work.followed = declares
            if work.declares != declares:
                return 0.0
        await self._tell_places(work)
        return await self._deal(work, places) if places else None

    async def _deal(self, work: _PoolWork, places: list[str]) -> float | None:
        """Deal if it is time, and let everybody have the deal in force."""
        owner = work.owner
        number, partitions, wait = _due(owner)
        state = owner.state
        undealt = partitions > 1 and any(one.here and not one.to for one in state.servers)
        if number != state.deal.number or work.sent != number or undealt:
            loop = asyncio.get_running_loop()
            servers = servers_to_deal(state)
            to = await loop.run_in_executor(None, places_by_deal, servers, number, partitions)
            command = DealServers(deal=number, partitions=partitions, to=to)
            await self._ask_all([owner.pool], [command])
            await self._ask_all(places, [command])
            work.sent = number
            await self._tell_places(work)
            _, _, wait = _due(owner)
        return wait

    async def _tell_places(self, work: _PoolWork) -> None:
        """Tell the places that servers have left for."""
        names = work.left
        if names is not None and not names:
            return
        work.left = set()
        try:
            movers = await work.owner.read(on_their_way)
            for place, gone in movers.items():
                told = gone if names is None else [one for one in gone if one.server in names]
                if told:
                    await self._ask_all([place], [TakeIn(servers=told)])
        except (OpportuneError, RefusalError):
            work.left = None
            raise

    async def _ask_all(self, places: Iterable[str], orders: list[Command]) -> None:
        """Ask every place for all of it, one after another, places at the same time.

        Raises:
            UnfinishedError: If one has not done it.
        """
        await asyncio.gather(*(self._ask_one(place, orders) for place in places))

    async def _ask_one(self, place: str, orders: list[Command]) -> None:
        for command in orders:
            try:
                reply = await self._ask(place, command)
            except RefusalError as error:
                reply = error.reply
            if reply.status >= 400:
                told = reply.body.decode("utf-8", "replace")
                asked = f"{type(command).__name__} of {place}"
                raise UnfinishedError(Problem(asked, told, "done"))

    # ------------------------------------------------------------------------------- routing

    def place(self, deal: Deal, whole: str, name: bytes | None) -> str:
        """Where a new task of a whole goes: by its name, or one sub-pool after another."""
        if deal.partitions < 2:
            return whole
        if name is None:
            return sub_pools(whole, deal.partitions)[next(self._turns) % deal.partitions]
        return place_of_task(whole, deal.partitions, name)


def _due(owner: PoolOwner) -> tuple[int, int, float | None]:
    """Number and partitions of the deal that should be in force; seconds until the next one."""
    settings, deal = owner.state.settings, owner.state.deal
    partitions = 1 if settings is None else settings.partitions
    period = None if settings is None or partitions < 2 else settings.deal_period
    if partitions != deal.partitions:
        return deal.number + 1, partitions, period
    if period is None:
        return deal.number, partitions, None
    wait = deal.time + period - owner.now()
    return (deal.number + 1, partitions, period) if wait <= 0 else (deal.number, partitions, wait)
