"""The planner: makes plans outside the request path, and asks for new ones by itself.

It runs on the node that owns a pool. What is to be made stands in the pool's journal as a job
(``plan_jobs``); the planner looks for jobs that nobody works on, so one that a restart interrupted
is begun again. Pricing runs in one thread of ordinary priority: all that takes long in it are
kernels and solvers that hold no interpreter lock (measured: "Decisions" in the documentation). The
routings of the new plan are built there as well, so putting it in force costs decisions little.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from opportune.errors import OpportuneError
from opportune.service import commands
from opportune.service.drifting import (
    NO_PLAN,
    STALE_PLAN,
    Basis,
    baseline,
    basis_of,
    declared_change,
    rate_drift,
)
from opportune.service.idempotency import Ticket
from opportune.service.learned import durations_of, rates_of
from opportune.service.notes import Audited
from opportune.service.owner import PoolOwner
from opportune.service.plan_bodies import Progress
from opportune.service.plan_jobs import PRICING, PlanJob
from opportune.service.plan_runs import (
    Made,
    PlanCanceledError,
    Run,
    declared,
    free_name,
    price_job,
)
from opportune.service.planning import plan_pool
from opportune.service.problems import Reply, problem
from opportune.service.resources import PlanDocument
from opportune.service.state import State

EVERY = 1.0
"""Seconds between two looks at the pools."""

SETTLES = 2.0
"""Seconds for which a change must stand before a plan is made for it: uploads come in pieces."""

AGAIN_AFTER = 60.0
"""Seconds after which the service asks again by itself when no plan came of it."""

_log = structlog.get_logger("planner")


class Waiter(NamedTuple):
    """Who waits for a plan: the reply goes there, under this key, and is noted so."""

    asked: Ticket | None
    audit: Audited | None
    future: asyncio.Future[Reply]


class Planner:
    """Makes plans for the pools that a node owns (``node.Companion``)."""

    def __init__(self) -> None:
        self._owners: dict[str, PoolOwner] = {}
        self._thread = ThreadPoolExecutor(1, "planner")
        self._turn = asyncio.Semaphore(1)
        self._wake = asyncio.Event()
        self._runs: dict[tuple[str, str], Run] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._waiters: dict[tuple[str, str], list[Waiter]] = {}
        self._basis: dict[str, Basis] = {}
        self._tested: dict[str, int] = {}
        self._changed: dict[str, float] = {}
        self._loop: asyncio.Task[None] | None = None

    def owned(self, owner: PoolOwner) -> None:
        """Look after a pool from now on."""
        self._owners[owner.pool] = owner
        if self._loop is None:
            self._loop = asyncio.create_task(self._look_again())
        self.look()

    def ended(self, owner: PoolOwner) -> None:
        """Do so no longer. Plans on their way are begun again by the next owner."""
        self._owners.pop(owner.pool, None)
        for kept in (self._basis, self._tested, self._changed):
            kept.pop(owner.pool, None)
        for (pool, name), run in self._runs.items():
            if pool == owner.pool:
                run.canceled.set()
                self._tasks[pool, name].cancel()
        if not self._owners and self._loop is not None:
            self._loop.cancel()
            self._loop = None

    def look(self) -> None:
        """A job was asked for or canceled: look now."""
        self._wake.set()

    def progress(self, pool: str, plan: str) -> Progress | None:
        """How far a plan is; None if nobody works on it here."""
        run = self._runs.get((pool, plan))
        return None if run is None else run.progress

    async def make(
        self,
        owner: PoolOwner,
        command: commands.RequestPlan,
        asked: Ticket | None,
        audit: Audited | None,
    ) -> Reply:
        """Ask for a plan and wait for it: the reply that stores it, or why it was not made.

        A request that is sent again after a restart finds its job, or its plan, by its key.

        Args:
            owner: Of the pool.
            command: What is asked for.
            asked: The request's idempotency key, for the reply.
            audit: Who asked.
        """
        plan, key, state = command.plan, "" if asked is None else asked.key.hex(), owner.state
        stored = [name for name, origin in state.made.items() if key and origin.key == key]
        if stored:
            return await owner.ask(commands.PutPlan(plan=state.plans[stored[0]]), asked, audit)
        jobs = state.jobs.items()
        again = [name for name, job in jobs if key and job.key == key and job.state == PRICING]
        if again:
            plan = again[0]
        else:
            reply = await owner.ask(msgspec.structs.replace(command, key=key))
            if reply.status >= 400:
                return reply
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        waiting = self._waiters.setdefault((owner.pool, plan), [])
        waiting.append(Waiter(asked, audit, future))
        self.look()
        return await future

    async def plan_now(self, state: State, plan: str, policy: str) -> PlanDocument:
        """A plan of a pool as it is now, for whoever stores it himself.

        Raises:
            InputError: If the pool cannot be priced.
            OpportuneError: If no plan comes of it.
        """
        loop = asyncio.get_running_loop()
        found = declared(state)
        return await loop.run_in_executor(self._thread, plan_pool, found, plan, policy, "plan")

    # ------------------------------------------------------------------------------- looking

    async def _look_again(self) -> None:
        while True:
            for pool, owner in list(self._owners.items()):
                try:
                    self._look_at(pool, owner)
                except Exception:
                    _log.exception("the planner failed", pool=pool)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), EVERY)
            self._wake.clear()

    def _look_at(self, pool: str, owner: PoolOwner) -> None:
        state = owner.state
        if owner.failed or state.settings is None:
            return
        for (whose, name), run in self._runs.items():
            job = state.jobs.get(name)
            if whose == pool and (job is None or job.state != PRICING):
                run.canceled.set()
        for name, job in state.jobs.items():
            if job.state == PRICING and (pool, name) not in self._runs:
                run = self._runs[pool, name] = Run()
                self._tasks[pool, name] = asyncio.create_task(self._make(owner, name, run))
        if state.settings.replan != "off":
            reason = self._reason(state, max(owner.now(), state.clock))
            if reason:
                self._ask(owner, reason)

    def _reason(self, state: State, now: float) -> str:
        """Why the pool should have a new plan; empty if it should not."""
        settings, pool = state.settings, state.pool
        assert settings is not None
        if any(
            job.reason and (job.state == PRICING or now - (job.ended or now) < AGAIN_AFTER)
            for job in state.jobs.values()
        ):
            return ""
        plan = baseline(state)
        if plan is None:
            can = state.types and None not in rates_of(state) + durations_of(state)
            found = NO_PLAN if can and any(s.present for s in state.servers) else ""
        else:
            basis = self._basis.get(pool)
            known = basis if basis is not None and basis.plan == plan.id else None
            found = declared_change(state, plan, known, settings.replan_change)
            if known is None and not found:  # after a restart: what changes from now on counts
                self._basis[pool] = basis_of(state, plan.id)
        if found:
            since = self._changed.setdefault(pool, now)
            return found if now - since >= SETTLES else ""
        self._changed.pop(pool, None)
        if plan is None:
            return ""
        bucket = 0 if state.arrivals is None else int(now // state.arrivals.width)
        if self._tested.get(pool) != bucket:
            self._tested[pool] = bucket
            found = rate_drift(state, plan, now, settings.replan_change)
        age = now - max(state.made[plan.id].created, state.activated.get(plan.id, 0.0))
        return found or (STALE_PLAN if age > settings.plan_max_age else "")

    def _ask(self, owner: PoolOwner, reason: str) -> None:
        """Ask for a plan in the service's own name."""
        state = owner.state
        assert state.settings is not None
        command = commands.RequestPlan(
            plan=free_name(state, "replan"),
            then="shadow" if state.settings.replan == "shadow" and state.history else "active",
            rates="declared" if reason == NO_PLAN else "measured",
            reason=reason,
        )
        self._changed.pop(state.pool, None)
        _log.info("a new plan", pool=state.pool, plan=command.plan, reason=reason)
        owner.ask(command)
        self.look()

    # -------------------------------------------------------------------------------- making

    async def _make(self, owner: PoolOwner, name: str, run: Run) -> None:
        """Make a plan, store it, tell those who wait."""
        reply = problem("unavailable", "the service is ending; ask again")
        try:
            async with self._turn:
                reply = await self._made(owner, name, run)
        except Exception:
            _log.exception("the planner failed", pool=owner.pool, plan=name)
            reply = problem("internal", "see the service's log")
        finally:
            del self._runs[owner.pool, name], self._tasks[owner.pool, name]
            for waiter in self._waiters.pop((owner.pool, name), []):
                if not waiter.future.done():
                    waiter.future.set_result(reply)

    async def _made(self, owner: PoolOwner, name: str, run: Run) -> Reply:
        started = await owner.ask(commands.StartPlan(plan=name))
        job = owner.state.jobs.get(name)
        if started.status >= 400 or job is None or job.state != PRICING:
            return started if started.status >= 400 else _ended(job)
        run.began = time.monotonic()
        state = declared(owner.state)
        try:
            made = await asyncio.get_running_loop().run_in_executor(
                self._thread, price_job, state, name, (job, run, max(owner.now(), state.clock))
            )
        except PlanCanceledError:
            return _ended(owner.state.jobs.get(name))
        except OpportuneError as error:
            await self._end(owner, name, str(error))
            return problem("invalid", str(error), error.problems)
        except Exception:
            _log.exception("pricing failed", pool=owner.pool, plan=name)
            await self._end(owner, name, "a fault of the service; its log says more")
            return problem("internal", "see the service's log")
        return await self._store(owner, job, made)

    async def _store(self, owner: PoolOwner, job: PlanJob, made: Made) -> Reply:
        """Store a plan, unless it was canceled at the last moment."""
        state, name = owner.state, made.document.id
        present = state.jobs.get(name)
        if present is None or present.state != PRICING:
            return _ended(present)
        self._basis[owner.pool] = made.basis
        state.kept_routings = [*state.kept_routings[-1:], *made.kept]
        command = commands.PutPlan(
            plan=made.document,
            activate=job.then == "active",
            shadow=job.then == "shadow",
            reason=job.reason,
            checked=True,
        )
        waiters = self._waiters.get((owner.pool, name), [])
        first = waiters[0] if waiters else Waiter(None, None, asyncio.Future())
        if first.asked is not None:
            owner.keys.forget(first.asked.key)  # the command begins it again
        return await owner.ask(command, first.asked, first.audit)

    async def _end(self, owner: PoolOwner, name: str, detail: str) -> None:
        """No plan comes of it."""
        job = owner.state.jobs.get(name)
        if job is not None and job.state == PRICING:
            await owner.ask(commands.EndPlan(plan=name, detail=detail[:1000] or "unknown"))


def _ended(job: PlanJob | None) -> Reply:
    told = "it was canceled" if job is None or not job.detail else job.detail
    return problem("conflict", f"no plan was made: {told}")
