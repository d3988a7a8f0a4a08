"""All parts of a pool's page at a moment, and what is kept between two looks at it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct

from opportune.markup import Html, joined
from opportune.service import reading
from opportune.service.answers import PoolBody
from opportune.service.dashboard.course import Row, course
from opportune.service.dashboard.decisions import latest
from opportune.service.dashboard.heat import heat
from opportune.service.dashboard.history import History
from opportune.service.dashboard.plans import plans
from opportune.service.dashboard.present import (
    Listed,
    glance,
    parts_note,
    servers_bar,
    servers_from,
    servers_of,
    servers_table,
    waiting,
)
from opportune.service.dashboard.prices import prices
from opportune.service.dealing_pools import places_of, whole_body, whole_servers
from opportune.service.node import Node
from opportune.service.owner import PoolOwner
from opportune.service.routing import Routing
from opportune.service.state import State

LEAST_SECONDS = 1.0
"""Seconds between two looks of a page, at least."""

SHARE = 0.05
"""Share of the node's time that one page may take."""


class Question(Struct, frozen=True):
    """What a page wants to see.

    Attributes:
        window: Key of ``history.WINDOWS``.
        wanted: State of the servers to list, empty for all.
        find: Part of their names.
        prices: Number of the prices that it has already.
    """

    window: str
    wanted: str
    find: str
    prices: int


class View(Struct, frozen=True):
    """What the page puts in place.

    Attributes:
        cursor: Number of the last record that is in it: events go on behind it.
        time: When, in seconds.
        every: Seconds after which the page may ask again.
        mode: ``loss`` or ``queue``.
        prices: Number of the prices.
        parts: Markup by the name of its place.
        charts: Rows by the name of the chart.
    """

    cursor: int
    time: float
    every: float
    mode: str
    prices: int
    parts: dict[str, str]
    charts: dict[str, list[Row]]


@dataclass
class Watched:
    """What is kept of a pool that somebody looks at.

    Attributes:
        history: Its counts over time.
        lock: Held while they are brought up to date.
    """

    history: History = field(default_factory=History)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _routing: Routing | None = None
    _prices: tuple[dict[str, Html], dict[str, list[Row]]] = ({}, {})
    _number: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def prices(self, state: State) -> tuple[int, dict[str, Html], dict[str, list[Row]]]:
        """The prices and their number, from memory unless they have changed."""
        if state.routing is None or state.routing is not self._routing:
            self._prices = prices(heat(state))
            self._routing = state.routing
            self._number += 1
        return self._number, *self._prices


class Dashboards:
    """What a node keeps of the pools that somebody looks at."""

    def __init__(self) -> None:
        self._watched: dict[str, Watched] = {}

    async def view(self, node: Node, owner: PoolOwner, question: Question) -> View | None:
        """A pool as its page shows it; None before it is created.

        Args:
            node: Which asks.
            owner: Of the pool.
            question: What is wanted.

        Raises:
            JournalError: If it cannot be read.
        """
        watched = self._watched.setdefault(owner.pool, Watched())
        async with watched.lock:
            history = watched.history
            await asyncio.to_thread(history.catch_up, node.journal, owner.pool, owner.written)
            now = node.now()
            whole = await _whole(node, owner.pool, now)

            def seen(state: State) -> View | None:
                return _view(state, watched, (question, whole), (owner.written, now))

            return await owner.read(seen)


class _Whole(NamedTuple):
    """A split pool: itself and its servers from all parts, and the names of these."""

    pool: PoolBody
    servers: list[Listed]
    parts: list[str]


async def _whole(node: Node, pool: str, now: float) -> _Whole | None:
    """A split pool with all its parts; None if it is not split."""
    parts = places_of(node, pool)[1:]
    body = await whole_body(node, pool, now) if parts else None
    if body is None:
        return None
    return _Whole(body, servers_from(await whole_servers(node, pool)), parts)


def _view(
    state: State, watched: Watched, asked: tuple[Question, _Whole | None], at: tuple[int, float]
) -> View | None:
    began = time.perf_counter()
    (question, whole), (cursor, now) = asked, at
    pool = reading.pool_body(state, now) if whole is None else whole.pool
    if pool is None:
        return None
    found = servers_of(state) if whole is None else whole.servers
    over_time = course(state, watched.history, question.window, now)
    number, price_parts, price_charts = watched.prices(state)
    parts: dict[str, str] = {
        "glance": joined([glance(pool), *([] if whole is None else [parts_note(whole.parts)])]),
        "servers": servers_bar(found),
        "servers-table": servers_table(found, question.wanted, question.find),
        "waiting": waiting(state, now),
        "plans": plans(state, pool),
        "decisions": latest(state),
        **over_time.parts,
    }
    charts: dict[str, Any] = dict(over_time.charts)
    if number != question.prices:
        parts.update(price_parts)
        charts.update(price_charts)
    took = time.perf_counter() - began
    return View(
        cursor=cursor,
        time=now,
        every=max(LEAST_SECONDS, took / SHARE),
        mode=pool.settings.mode,
        prices=number,
        parts={name: str(part) for name, part in parts.items()},
        charts=charts,
    )
