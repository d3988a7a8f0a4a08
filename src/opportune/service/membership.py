"""A node's heartbeat: it renews what the node holds and sees who else is there.

One thread with a connection of its own. A beat is one transaction: the node's row, the leases of
its pools, then all pools, nodes and API keys. All times are the database's. Whoever changes
something that others wait for tells them (``NOTIFY``), so that they look at once and not with
their next beat.

Leases are renewed only while the event loop takes what is seen: a node that does not get to its
requests must not keep its pools. A renewal need not survive a crash of the database (losing it only
shortens a lease), so it does not wait for the disk; taking a pool does (``leases``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
import structlog
from psycopg import sql

from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_keys import ALL_KEYS
from opportune.service.postgres_reading import Row, first_line

LEAST_GAP = 0.02
"""Seconds between two beats, at least."""

GRACE = 0.005
"""Seconds behind the end of a lease at which this node looks."""

SOON, OVERDUE = 0.1, 0.2
"""Seconds behind it after which a pool that the next owner did not take is taken: by a node that
has read it ahead, and by anybody."""

JOIN = """
INSERT INTO node VALUES (%(node)s, %(address)s,
    clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (name) DO UPDATE
SET address = excluded.address, lease_until = excluded.lease_until
"""
RENEW = """
WITH mine AS (
    SELECT pool.id FROM pool
    JOIN unnest(%(pools)s::text[], %(tokens)s::bigint[]) AS held (name, token)
        ON pool.name = held.name AND pool.token = held.token
    WHERE pool.lease_until > clock_timestamp()
    ORDER BY pool.id FOR UPDATE OF pool)
UPDATE pool SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM mine WHERE pool.id = mine.id RETURNING pool.name
"""
POOLS = """
SELECT name, coalesce(node, ''), coalesce(address, ''), token, last > 0,
    coalesce(extract(epoch FROM lease_until - clock_timestamp()), -1e9)::float
FROM pool
"""
NODES = "SELECT name, address FROM node WHERE lease_until > clock_timestamp() ORDER BY name"
CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float"
LEAVE = """
DELETE FROM node WHERE name = %s OR lease_until < clock_timestamp() - interval '1 day'
RETURNING name
"""

_log = structlog.get_logger("node")


class Place(NamedTuple):
    """Where a pool is.

    Attributes:
        node: Name of the node that holds it, or held it last.
        address: Where that node answers.
        token: The fencing token.
        exists: Whether anything was ever written.
        until: When the lease ends, on this machine's clock that never goes back.
    """

    node: str
    address: str
    token: int
    exists: bool
    until: float


@dataclass(frozen=True)
class View:
    """What a beat found.

    Attributes:
        asked: When it was sent, on this machine's clock that never goes back.
        hears: Whether the event loop listens, so that leases were renewed.
        renewed: Pools whose lease goes on.
        held: Pools and tokens that were to be renewed.
        places: All pools.
        nodes: Nodes that live, and where they answer.
        keys: Rows of API keys.
        time: The database's clock, in seconds, at ``clock_at``.
        clock_at: On this machine's clock that never goes back.
    """

    asked: float
    hears: bool
    renewed: frozenset[str]
    held: Mapping[str, int]
    places: Mapping[str, Place]
    nodes: Mapping[str, str]
    keys: list[Row]
    time: float
    clock_at: float


class Membership:
    """The heartbeat of one node.

    Args:
        journal: In whose database the nodes meet.
        node: Name of this node, different from those of all others.
        address: Where it answers, for those who forward to it.
        seconds: How long a lease is; a beat comes four times in it.
        held: Pools and tokens to be renewed; the event loop changes it.
        see: Told of every view, by the thread.

    Attributes:
        joining: Whether the node counts among those that live.
        taken_at: When the event loop last took a view.
    """

    def __init__(
        self,
        journal: PostgresJournal,
        node: str,
        address: str,
        seconds: float,
        held: dict[str, int],
        see: Callable[[View], None],
    ) -> None:
        self._journal, self._held, self._see = journal, held, see
        self.node, self.address, self.seconds = node, address, seconds
        self.joining = True
        self.taken_at = time.monotonic()
        self._connection: psycopg.Connection[Row] | None = None
        self._ends: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; leases end by themselves."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                view = self.beat()
            except psycopg.Error as error:
                _log.warning("no heartbeat", node=self.node, reason=first_line(error))
                self._disconnect()
                self._stopping.wait(0.1)
                continue
            if not self._stopping.is_set():
                self._see(view)
                self._wait(began)
        self._disconnect()

    def beat(self) -> View:
        """Renew and look.

        Raises:
            psycopg.Error: If the database does not answer.
        """
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        one = self._connection
        asked = time.monotonic()
        hears = asked - self.taken_at < self.seconds
        held = dict(self._held) if hears else {}
        values: dict[str, Any] = {
            "node": self.node,
            "address": self.address,
            "seconds": self.seconds,
            "pools": list(held),
            "tokens": list(held.values()),
        }
        with one.pipeline(), one.transaction():  # one round trip
            if hears and self.joining:
                one.execute(JOIN, values)
            renewed = one.execute(RENEW, values)
            pools, nodes = one.execute(POOLS), one.execute(NODES)
            keys, clock = one.execute(ALL_KEYS), one.execute(CLOCK)
        answered = time.monotonic()
        rows = pools.fetchall()
        turns = [row[5] + late for row in rows for late in (0.0, SOON, OVERDUE)]
        self._ends = min((answered + turn for turn in turns if turn > 0), default=None)
        return View(
            asked,
            hears,
            frozenset(row[0] for row in renewed.fetchall()),
            held,
            {row[0]: placed(row, answered) for row in rows},
            {str(name): str(address) for name, address in nodes.fetchall()},
            keys.fetchall(),
            float(clock.fetchall()[0][0]),
            answered,
        )

    def _connect(self) -> psycopg.Connection[Row]:
        one = self._journal.connect()
        one.execute("SET synchronous_commit = off")
        milliseconds = max(int(1000 * self.seconds), 500)
        one.execute(f"SET statement_timeout = {milliseconds}".encode())
        one.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._journal.schema)))
        return one

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _wait(self, began: float) -> None:
        """Until somebody tells of a change, a lease ends, or it is time."""
        now = time.monotonic()
        until = began + self.seconds / 4
        if self._ends is not None:
            until = min(until, max(self._ends + GRACE, began + LEAST_GAP))
        try:
            one = self._connection
            if one is not None and until > now:
                for _ in one.notifies(timeout=until - now, stop_after=1):
                    break
        except psycopg.Error:
            self._disconnect()
        rest = began + LEAST_GAP - time.monotonic()
        if rest > 0:
            self._stopping.wait(rest)


def placed(row: Row, now: float) -> Place:
    """Where a pool is, from a row of ``POOLS`` that came at ``now``."""
    return Place(row[1], row[2], row[3], row[4], now + row[5])


def tell(journal: PostgresJournal) -> None:
    """Let all nodes look at once.

    Raises:
        JournalError: If the database does not answer.
    """
    journal.ask("SELECT pg_notify(%s, '')", (journal.schema,))


def leave(journal: PostgresJournal, node: str) -> None:
    """Take a node off the list; also those that were silent for a day.

    Raises:
        JournalError: If the database does not answer.
    """
    journal.ask(LEAVE, (node,))
    tell(journal)
