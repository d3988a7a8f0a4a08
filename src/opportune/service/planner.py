"""The planner: makes plans outside the request path.

It runs on the node that owns a pool. The way of a plan:

1. Somebody asks: a request (:meth:`Planner.make`), the learner, or the pool itself
   (``replanning``). What is asked for stands in the pool's journal as a job (``plan_jobs``).
2. The planner looks at its pools (:meth:`Planner.look`, and every second) and begins each job that
   nobody works on; so one that a restart interrupted is begun again.
3. The pool's copy is priced, and the routings of the new plan are built, so that putting it in
   force costs decisions little: small pools in the planner's thread, large ones in a process of
   lower priority (``pricing_process``). One plan at a time.
4. Large tables are written ahead (``plan_parts``), then one command stores the plan, and puts it in
   force if that was asked for.
5. Whoever waits gets the reply of that command, or why there is no plan.
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
from opportune.service.idempotency import Ticket
from opportune.service.notes import Audited
from opportune.service.owner import PoolOwner
from opportune.service.plan_bodies import Progress
from opportune.service.plan_jobs import PRICING, PlanJob
from opportune.service.plan_parts import is_large, part_records
from opportune.service.plan_runs import Made, PlanCanceledError, Run, declared, price_job
from opportune.service.planning import plan_pool
from opportune.service.pricing_process import PricingProcess
from opportune.service.problems import RefusalError, Reply, problem
from opportune.service.replanning import Replanning
from opportune.service.resources import PlanDocument
from opportune.service.state import State

EVERY = 1.0
"""Seconds between two looks at the pools."""

LARGE_POOL = 20_000
"""Pairs of a task type and a server from which on a pool is priced in a process of its own."""

ENDING = problem("unavailable", "the service is ending; ask again")

_log = structlog.get_logger("planner")


class Waiter(NamedTuple):
    """Who waits for a plan: the reply goes there, under this key, and is noted so."""

    asked: Ticket | None
    audit: Audited | None
    future: asyncio.Future[Reply]


class Planner:
    """Makes plans for the pools that a node owns (``node.Companion``).

    Attributes:
        process: Where large pools are priced.
    """

    def __init__(self) -> None:
        self.process = PricingProcess()
        self._owners: dict[str, PoolOwner] = {}
        self._thread = ThreadPoolExecutor(1, "planner")
        self._turn = asyncio.Semaphore(1)
        self._wake = asyncio.Event()
        self._runs: dict[tuple[str, str], Run] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._waiters: dict[tuple[str, str], list[Waiter]] = {}
        self._replanning = Replanning()
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
        self._replanning.forget(owner.pool)
        for (pool, name), run in self._runs.items():
            if pool == owner.pool:
                run.cancel()
                self._tasks[pool, name].cancel()
        if not self._owners and self._loop is not None:
            self._loop.cancel()
            self._loop = None
            self._thread.submit(self.process.end)

    def look(self) -> None:
        """A job was asked for or canceled: look now."""
        self._wake.set()

    def progress(self, pool: str, plan: str) -> Progress | None:
        """How far a plan is; None if nobody works on it here."""
        run = self._runs.get((pool, plan))
        return None if run is None else run.progress

    def memory(self) -> int:
        """Largest resident memory of the process that prices large plans; 0 without one."""
        return self.process.memory

    async def make(
        self,
        owner: PoolOwner,
        command: commands.RequestPlan,
        asked: Ticket | None,
        audit: Audited | None,
    ) -> Reply:
        """Ask for a plan and wait for it: the reply that stores it, or why it was not made.

        The job, and later the plan, carry the request's idempotency key. So a request that is sent
        again after a restart finds what came of it: the plan is stored, its job is there, or it is
        new.

        Args:
            owner: Of the pool.
            command: What is asked for.
            asked: The request's idempotency key, for the reply.
            audit: Who asked.
        """
        key = "" if asked is None else asked.key.hex()
        stored = _stored_for(owner.state, key)
        if stored is not None:
            return await owner.ask(commands.PutPlan(plan=stored), asked, audit)
        name = _job_for(owner.state, key)
        if name is None:
            reply = await owner.ask(msgspec.structs.replace(command, key=key))
            if reply.status >= 400:
                return reply
            name = command.plan
        waiter = Waiter(asked, audit, asyncio.get_running_loop().create_future())
        self._waiters.setdefault((owner.pool, name), []).append(waiter)
        self.look()
        return await waiter.future

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
            if self.process.is_there and not self._runs:
                self._thread.submit(self.process.rest)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), EVERY)
            self._wake.clear()

    def _look_at(self, pool: str, owner: PoolOwner) -> None:
        """End what was canceled, begin what was asked for, ask for what is wanted."""
        state = owner.state
        if owner.failed or state.settings is None:
            return
        for (whose, name), run in self._runs.items():
            job = state.jobs.get(name)
            if whose == pool and (job is None or job.state != PRICING):
                run.cancel()
        for name, job in state.jobs.items():
            if job.state == PRICING and (pool, name) not in self._runs:
                run = self._runs[pool, name] = Run()
                self._tasks[pool, name] = asyncio.create_task(self._work(owner, name, run))
        command = self._replanning.wanted(state, max(owner.now(), state.clock))
        if command is not None:
            _log.info("a new plan", pool=pool, plan=command.plan, reason=command.reason)
            owner.ask(command)
            self.look()

    # -------------------------------------------------------------------------------- making

    async def _work(self, owner: PoolOwner, name: str, run: Run) -> None:
        """Make a plan, store it, tell those who wait."""
        reply = ENDING
        try:
            async with self._turn:
                reply = await self._made(owner, name, run)
        except RefusalError as error:  # a part was not written: the job is begun again
            reply = error.reply
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
        how = (job, run, max(owner.now(), owner.state.clock))
        try:
            made, ahead = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._price, declared(owner.state), name, how
            )
        except PlanCanceledError:
            job = owner.state.jobs.get(name)
            return ENDING if job is not None and job.state == PRICING else _ended(job)
        except OpportuneError as error:
            await self._end(owner, name, str(error))
            return problem("invalid", str(error), error.problems)
        except Exception:
            _log.exception("pricing failed", pool=owner.pool, plan=name)
            await self._end(owner, name, "a fault of the service; its log says more")
            return problem("internal", "see the service's log")
        run.step = "storing"
        parts = [await owner.write_ahead(record) for record in ahead]
        return await self._store(owner, job, (made, parts))

    def _price(
        self, state: State, name: str, how: tuple[PlanJob, Run, float]
    ) -> tuple[Made, list[bytes]]:
        """A plan, and the records that are written ahead of it; in the planner's thread."""
        job, run, now = how
        if len(state.types) * len(state.servers) >= LARGE_POOL:
            made = self.process.price(state, name, how)
        else:
            made = price_job(state, name, (job, run.tell, now))
        plan = made.document
        return made, list(part_records(plan)) if is_large(plan) else []

    async def _store(self, owner: PoolOwner, job: PlanJob, found: tuple[Made, list[int]]) -> Reply:
        """Store a plan, unless it was canceled at the last moment."""
        made, parts = found
        state, name = owner.state, made.document.id
        present = state.jobs.get(name)
        if present is None or present.state != PRICING:
            return _ended(present)
        self._replanning.made_from(owner.pool, made.basis)
        state.kept_routings = [*state.kept_routings[-1:], *made.kept]
        command = commands.PutPlan(
            plan=made.document,
            activate=job.then == "active",
            shadow=job.then == "shadow",
            reason=job.reason,
            parts=parts,
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


def _stored_for(state: State, key: str) -> PlanDocument | None:
    """The plan that came of a request with this key."""
    found = [name for name, origin in state.made.items() if key and origin.key == key]
    return state.plans[found[0]] if found else None


def _job_for(state: State, key: str) -> str | None:
    """The plan that is being made for a request with this key."""
    jobs = state.jobs.items()
    return next(
        (name for name, job in jobs if key and job.key == key and job.state == PRICING), None
    )


def _ended(job: PlanJob | None) -> Reply:
    told = "it was canceled" if job is None or not job.detail else job.detail
    return problem("conflict", f"no plan was made: {told}")
