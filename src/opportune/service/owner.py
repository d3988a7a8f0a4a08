"""The owner of a pool: one command after another, written first, answered second.

A command is decided at once on the state in memory; its events join what waits for the journal; the
reply goes out when they are on stable storage. While one write is on its way, the next ones gather:
that is the group commit. A read waits for what it has seen. If a write fails, what was not written
did not happen: its callers are told so, and the state is read from the journal again.

Among several nodes an owner has a *tenure*: a lease with its token. An owner whose tenure is over
answers that the pool has moved; whoever gave the tenure makes another owner.

Everything here runs in the thread of the event loop; only the journal has a thread of its own.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future as ConcurrentFuture
from contextlib import suppress
from typing import TypeVar

import structlog

from opportune.service import commands, engine, events
from opportune.service.answers import Answer
from opportune.service.draws import Draws
from opportune.service.idempotency import KeyMemory, Known, Ticket
from opportune.service.journal import (
    Append,
    Journal,
    JournalError,
    NotOwnerError,
)
from opportune.service.loading import Loaded, load_pool
from opportune.service.notes import Audited, encode_note
from opportune.service.pending import Request, Tenure, Waiting, recorded, remembered, unwritten
from opportune.service.problems import RefusalError, Reply, moved, problem, reply_of
from opportune.service.state import State
from opportune.service.steady_clock import SteadyClock

Seen = TypeVar("Seen")
Watch = Callable[[str, commands.Command, Answer, float], None]
"""Told of every command: the pool, the command, the answer, seconds it took to decide."""

LONGEST_SLEEP = 30.0
"""Seconds after which a timer looks at the clock again: it may have been set."""

UNREADY = 10.0
"""Seconds after a failed write for which the pool is not ready; then somebody may try again."""

_log = structlog.get_logger("owner")


class PoolOwner:
    """Owns one pool of a journal.

    Args:
        pool: Its id.
        journal: Where it is written.
        memory: Its idempotency keys, empty.
        snapshot_every: Records between two snapshots.
        watch: Told of every command.
        tenure: For how long; None: for ever, and the clock is this machine's.

    Raises:
        JournalError: If the journal cannot be read.
    """

    def __init__(
        self,
        pool: str,
        journal: Journal,
        memory: KeyMemory,
        snapshot_every: int = 50_000,
        watch: Watch | None = None,
        tenure: Tenure | None = None,
    ) -> None:
        self.pool = pool
        self.keys = memory
        self.failed = ""
        self.gone = False
        clock = time.time if tenure is None else tenure.clock
        self._journal = journal
        self._snapshot_every = snapshot_every
        self._watch = watch
        self._tenure = tenure
        self.token = journal.acquire(pool) if tenure is None else tenure.token
        self.draws = Draws()
        self._records: list[bytes] = []
        self._callers: list[Waiting] = []
        self._flight: list[Waiting] | None = None
        self._scheduled = False
        self._recovering = False
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # uvloop's handle of a timer that is due tells no time
        self._unwritten = (-math.inf, "")
        self._changed = asyncio.Event()
        self._load(None if tenure is None else tenure.ahead)
        self.now = SteadyClock(clock, lambda: self.state.clock)

    # ------------------------------------------------------------------------------ reading

    @property
    def state(self) -> State:
        """The pool now; what is read from it may not be written yet (:meth:`read` waits)."""
        return self.loaded.state

    def _load(self, ahead: Loaded | None = None) -> None:
        self.loaded = load_pool(self._journal, self.pool, self.keys, ahead)
        self.keys = self.loaded.keys
        self._snapshot_at = self.loaded.snapshot_at
        self._last = self.loaded.written

    async def read(self, view: Callable[[State], Seen]) -> Seen:
        """What a function sees in the state, once all of it is on stable storage.

        Args:
            view: Reads the state and keeps nothing of it.

        Raises:
            RefusalError: If the state is not what is on stable storage, or another node owns it.
        """
        if self.gone:
            raise RefusalError(moved())
        seen = view(self.state)
        await self._settle()
        return seen

    async def _settle(self) -> None:
        """Wait until everything decided so far is written.

        Raises:
            RefusalError: If it could not be written.
        """
        callers = self._callers if self._records else self._flight
        if callers is None:
            return
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        callers.append(Waiting(future, _NOTHING))
        reply = await future
        if reply is not _NOTHING:
            raise RefusalError(reply)

    # ----------------------------------------------------------------------------- commands

    def ask(
        self, command: commands.Command, asked: Ticket | None = None, audit: Audited | None = None
    ) -> Awaitable[Reply]:
        """Decide a command now; the reply comes when it is written.

        Args:
            command: What is wanted.
            asked: The request's idempotency key, if it has one.
            audit: Who asked, if it is to be kept.
        """
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        closed = self._closed()
        if closed is not None:
            future.set_result(closed)
            return future
        if asked is not None:
            known = self.keys.find(asked.key)
            if known is not None:
                return self.again(known, asked)
        now, start = self.now(), time.perf_counter()
        try:
            answer = engine.decide(self.state, command, now, self.draws())
            seconds = time.perf_counter() - start
            reply = reply_of(answer, now)
            records = [events.encode(event) for event in answer.events]
        except Exception:
            _log.exception("the engine failed", pool=self.pool, command=type(command).__name__)
            self._recover()
            future.set_result(problem("internal", "the engine failed; nothing was changed"))
            return future
        self._queue(records, reply, Request(future, asked, audit, now))
        self._schedule_tick(now)
        if self._watch is not None:
            self._watch(self.pool, command, answer, seconds)
        return future

    def _closed(self) -> Reply | None:
        """Why nothing can be asked at the moment."""
        if self.gone:
            return moved()
        if self.failed or self._recovering:
            told = self.failed or "the pool is being read from its journal"
            return problem("unavailable", told)
        return None

    async def write_ahead(self, note: bytes) -> int:
        """Write a note that a later command refers to; the number of its record.

        Raises:
            RefusalError: If it could not be written.
        """
        closed = self._closed()
        if closed is not None:
            raise RefusalError(closed)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._queue([note], _NOTHING, Request(future, None, None, self.now()))
        number = self._last
        reply = await future
        if reply is not _NOTHING:
            raise RefusalError(reply)
        return number

    def _queue(self, records: list[bytes], reply: Reply, request: Request) -> None:
        """Let a reply wait for its records, and for those that it may have seen."""
        asked, audit, now = request.asked, request.audit, request.now
        if audit is not None and (records or reply.status < 400):
            note = Audited(now, audit.who, audit.action, audit.remote, reply.status)
            records.append(encode_note(note))
            self.loaded.keep_audit(note)
        key = None if asked is None else asked.key
        if asked is not None and (records or reply.status < 400):
            self.keys.begin(asked, now)
            records.append(encode_note(remembered(asked, reply, now)))
            self.keys.place(asked.key, self._last + len(records))
        waiting = Waiting(request.future, reply, key)
        if records:
            self._records += records
            self._last += len(records)
            self._callers.append(waiting)
            self._plan_flush()
        elif self._records:
            self._callers.append(waiting)
        elif self._flight is not None:
            self._flight.append(waiting)
        else:
            request.future.set_result(reply)

    async def again(self, known: Known, asked: Ticket) -> Reply:
        """The reply to a request whose idempotency key is known."""
        if known.fingerprint != asked.fingerprint:
            return problem("key-reused", "use a new Idempotency-Key for another request")
        if self.keys.is_running(known.key):
            return problem("still-running", "try again in a moment")
        loop = asyncio.get_running_loop()
        where = (self._journal, self.pool, known.sequence)
        return await loop.run_in_executor(None, recorded, *where)

    # ------------------------------------------------------------------------------ writing

    def _plan_flush(self) -> None:
        if self._flight is None and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Hand everything that waits to the journal, as one append."""
        self._scheduled = False
        if not self._records:
            return
        append = Append(self.pool, self.token, self.loaded.written + 1, self._records)
        self._flight, self._records, self._callers = self._callers, [], []
        loop = asyncio.get_running_loop()
        written = self._journal.append(append)
        written.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._landed, append.last, done)
        )

    def _landed(self, last: int, done: ConcurrentFuture[None]) -> None:
        """A write came back: answer its callers, start the next one."""
        callers, self._flight = self._flight or [], None
        error = done.exception()
        if error is not None:
            self._fail(callers, error)
            return
        self.loaded.written = last
        self._unwritten = (-math.inf, "")
        for waiting in callers:
            if waiting.key is not None:
                self.keys.finish(waiting.key)
            if not waiting.future.done():
                waiting.future.set_result(waiting.reply)
        self.wake()
        self._flush()
        if self._recovering and self._flight is None:
            self._reload()
        elif self._last - self._snapshot_at >= self._snapshot_every and not self._recovering:
            self._save_snapshot()

    def _fail(self, callers: list[Waiting], error: BaseException) -> None:
        """Nothing of a write, and of what was decided upon it, has happened."""
        _log.error("a write failed", pool=self.pool, reason=str(error))
        self._unwritten = (time.monotonic() + UNREADY, str(error))
        reply = unwritten(error, self._tenure is not None)
        for waiting in (*callers, *self._callers):
            if waiting.key is not None:
                self.keys.forget(waiting.key)
            if not waiting.future.done():
                waiting.future.set_result(reply)
        self._records, self._callers = [], []
        self._reload(error)
        if isinstance(error, NotOwnerError):
            self.failed = "another node owns the pool now"

    def _recover(self) -> None:
        """The engine failed: what it had decided before is written, then the state read again."""
        self._recovering = True
        if self._flight is None and not self._records:
            self._reload()

    def _reload(self, error: BaseException | None = None) -> None:
        """Throw the state away and read the journal again, or let another owner do so."""
        if self._tenure is not None:
            self.leave()
            self._tenure.over(self.pool, self.token, error)
            return
        try:
            self._load()
        except Exception as error:
            self.failed = f"the pool can not be read: {error}"
            _log.exception("the pool is out of service", pool=self.pool)
        else:
            self._recovering = False
            self._schedule_tick(self.now())

    def _save_snapshot(self) -> ConcurrentFuture[None]:
        """Queue a snapshot of the state behind the append that is on its way."""
        found = self.loaded.snapshot(self._last)
        self._snapshot_at = found.sequence
        return self._journal.save_snapshot(self.pool, self.token, found)

    # ------------------------------------------------------------------------------- timers

    def start(self) -> None:
        """Let timers run."""
        self._schedule_tick(self.now())

    def _schedule_tick(self, now: float) -> None:
        """Look at the pool again when something may happen by itself."""
        when = engine.next_deadline(self.state)
        if when is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + min(max(when - now, 0.0), LONGEST_SLEEP)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer, self._timer_at = loop.call_at(at, self._tick), at

    def _tick(self) -> None:
        self._timer = None
        now, when = self.now(), engine.next_deadline(self.state)
        if when is not None and when <= now:
            self.ask(commands.Tick())
        elif not self.failed and not self.gone:
            self._schedule_tick(now)

    async def wait_beyond(self, sequence: int, seconds: float) -> bool:
        """Wait until a record behind a number is written; whether there is one."""
        if self.loaded.written <= sequence:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self.loaded.written > sequence

    def wake(self) -> None:
        """Let those look again who wait for a record."""
        self._changed.set()
        self._changed.clear()

    @property
    def trouble(self) -> str:
        """Why the pool cannot serve at the moment; empty if it can."""
        until, told = self._unwritten
        return self.failed or (told if time.monotonic() < until else "")

    @property
    def written(self) -> int:
        """Number of the last record on stable storage."""
        return self.loaded.written

    def leave(self) -> None:
        """Take no more: from now on the pool has moved. What waits is still written."""
        self.gone = True
        if self._timer is not None:
            self._timer.cancel()
        self.wake()

    async def close(self) -> None:
        """Write what waits, and a snapshot if there is anything new in it."""
        if self._timer is not None:
            self._timer.cancel()
        while not self.failed and (self._records or self._flight is not None):
            await asyncio.sleep(0.001)
        if self.loaded.written > self._snapshot_at and not self.failed:
            try:
                await asyncio.wrap_future(self._save_snapshot())
            except JournalError as error:  # the records have it all
                _log.warning("no snapshot at the end", pool=self.pool, reason=str(error))


_NOTHING = Reply(204, b"")
