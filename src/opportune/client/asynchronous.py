"""The client of the live service for programs with an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opportune.client.calls import Key, creating, path_of, reading, writing
from opportune.client.connection import AsyncConnection
from opportune.service.answers import (
    AssignmentBody,
    DecisionBody,
    OutcomeBody,
    PoolBody,
    RankBody,
    ScoresBody,
    ServerBody,
    TaskBody,
    TaskTypeBody,
)
from opportune.service.api.bodies import (
    AuditBody,
    Done,
    DoneBody,
    EventPage,
    LeaseBody,
    NewPlan,
    NewPool,
    NewScores,
    PoolList,
    ReasonBody,
)
from opportune.service.commands import CreateTask, RankRequest, ReportOutcome
from opportune.service.learner_bodies import LearningBody
from opportune.service.plan_bodies import PlanBody, PlanDetail
from opportune.service.resources import (
    PlanDocument,
    PoolSettings,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
)


class AsyncClient(AsyncConnection):
    """A client of a live service for one event loop; calls may run side by side.

    Every call that changes something has an idempotency key, made once and sent with every try of
    the call (``retrying``), so it is carried out once, whatever breaks in between. Methods are
    called like the operations of the API, whose reference says what they do.

    Args:
        url: Where the service is, such as ``http://127.0.0.1:8080``.
        api_key: The key to show; None for a service on this machine that needs none.
        retries: How patient it is.
        timeout: Seconds of silence after which a try has failed; None waits for ever.
        http: An HTTP client to send with (proxies, certificates, limits); it is left open.

    Raises:
        InputError: If the address or the key cannot be one.
    """

    # ------------------------------------------------------------- tasks and assignments

    async def create_assignment(
        self, pool: str, task: CreateTask, *, key: Key = None
    ) -> AssignmentBody | TaskBody:
        """A task comes in: its assignment, or the task itself if it waits or is over.

        Raises:
            NoCapacityError: If it is dropped.
        """
        return await self.send(creating(path_of("pools", pool, "assignments"), task, key))

    async def list_waiting(self, pool: str) -> list[TaskBody]:
        """The tasks that wait, first one first; at most a thousand."""
        return await self.send(reading(path_of("pools", pool, "tasks"), list[TaskBody]))

    async def get_task(self, task: str) -> TaskBody:
        """A task."""
        return await self.send(reading(path_of("tasks", task), TaskBody))

    async def cancel_task(self, task: str, *, key: Key = None) -> TaskBody:
        """End a task that is not over; its servers are free."""
        path = path_of("tasks", task, verb="cancel")
        return await self.send(writing("POST", path, TaskBody, None, key))

    async def get_assignment(self, assignment: str) -> AssignmentBody:
        """An assignment."""
        return await self.send(reading(path_of("assignments", assignment), AssignmentBody))

    async def accept(
        self,
        assignment: str,
        *,
        server: str | None = None,
        lease: int | None = None,
        key: Key = None,
    ) -> AssignmentBody:
        """Servers take what they were offered."""
        return await self._move(assignment, "accept", LeaseBody(server, lease), key)

    async def heartbeat(
        self,
        assignment: str,
        *,
        server: str | None = None,
        lease: int | None = None,
        key: Key = None,
    ) -> AssignmentBody:
        """It is still worked on: the lease begins anew."""
        return await self._move(assignment, "heartbeat", LeaseBody(server, lease), key)

    async def decline(
        self,
        assignment: str,
        *,
        reason: str = "",
        server: str | None = None,
        lease: int | None = None,
        key: Key = None,
    ) -> AssignmentBody:
        """Servers do not take it: others are asked."""
        return await self._move(assignment, "decline", ReasonBody(server, lease, reason), key)

    async def complete(
        self,
        assignment: str,
        *,
        value: float | None = None,
        server: str | None = None,
        lease: int | None = None,
        key: Key = None,
    ) -> AssignmentBody:
        """Servers are done; ``value`` is the outcome, if it is known already."""
        return await self._move(assignment, "complete", DoneBody(server, lease, value), key)

    async def fail(
        self,
        assignment: str,
        *,
        reason: str = "",
        server: str | None = None,
        lease: int | None = None,
        key: Key = None,
    ) -> AssignmentBody:
        """Servers could not do it."""
        return await self._move(assignment, "fail", ReasonBody(server, lease, reason), key)

    async def release(
        self,
        assignment: str,
        *,
        reason: str = "",
        server: str | None = None,
        lease: int | None = None,
        key: Key = None,
    ) -> AssignmentBody:
        """Let servers go: neither completed nor failed."""
        return await self._move(assignment, "release", ReasonBody(server, lease, reason), key)

    async def _move(self, assignment: str, verb: str, body: Any, key: Key) -> AssignmentBody:
        path = path_of("assignments", assignment, verb=verb)
        return await self.send(writing("POST", path, AssignmentBody, body, key))

    async def report_outcome(self, outcome: ReportOutcome, *, key: Key = None) -> OutcomeBody:
        """What came of an assignment; late, repeated and revised reports are fine."""
        return await self.send(writing("POST", path_of("outcomes"), OutcomeBody, outcome, key))

    async def rank(self, pool: str, request: RankRequest, *, key: Key = None) -> RankBody:
        """Rank candidates for a task; nothing is stored and nobody is taken."""
        path = path_of("pools", pool, verb="rank")
        return await self.send(writing("POST", path, RankBody, request, key))

    async def get_decision(self, decision: str) -> DecisionBody:
        """Why: candidates, prices, what the choice was worth."""
        return await self.send(reading(path_of("decisions", decision), DecisionBody))

    # ----------------------------------------------------------------------------- pools

    async def list_pools(self) -> list[str]:
        """The pools."""
        found = await self.send(reading(path_of("pools"), PoolList))
        return found.pools

    async def create_pool(
        self, pool: str, settings: PoolSettings | None = None, *, key: Key = None
    ) -> PoolBody:
        """Create a pool that is not there yet."""
        body = NewPool(id=pool, settings=settings)
        return await self.send(writing("POST", path_of("pools"), PoolBody, body, key))

    async def get_pool(self, pool: str) -> PoolBody:
        """A pool at a glance."""
        return await self.send(reading(path_of("pools", pool), PoolBody))

    async def put_pool(
        self, pool: str, settings: PoolSettings | None = None, *, key: Key = None
    ) -> PoolBody:
        """Create a pool, or change its settings: all of them, None stands for the defaults."""
        body = PoolSettings() if settings is None else settings
        return await self.send(writing("PUT", path_of("pools", pool), PoolBody, body, key))

    async def get_audit(self, pool: str) -> list[AuditBody]:
        """What administrators did in a pool, latest first."""
        return await self.send(reading(path_of("pools", pool, "audit"), list[AuditBody]))

    async def list_servers(self, pool: str) -> list[ServerBody]:
        """All servers of a pool."""
        return await self.send(reading(path_of("pools", pool, "servers"), list[ServerBody]))

    async def put_servers(
        self, pool: str, servers: Sequence[ServerSettings], *, key: Key = None
    ) -> int:
        """Add or change many servers; others stay as they are. How many."""
        path = path_of("pools", pool, "servers")
        done = await self.send(writing("PUT", path, Done, list(servers), key))
        return done.count

    async def get_server(self, pool: str, server: str) -> ServerBody:
        """A server."""
        return await self.send(reading(path_of("pools", pool, "servers", server), ServerBody))

    async def put_server(self, pool: str, server: ServerSettings, *, key: Key = None) -> ServerBody:
        """Add a server (anew, if it was removed), or change it."""
        path = path_of("pools", pool, "servers", server.id)
        return await self.send(writing("PUT", path, ServerBody, server, key))

    async def remove_server(self, pool: str, server: str, *, key: Key = None) -> ServerBody:
        """Take a server out; its offers are rescinded, its running tasks go on without it."""
        path = path_of("pools", pool, "servers", server)
        return await self.send(writing("DELETE", path, ServerBody, None, key))

    async def server_heartbeat(self, pool: str, server: str, *, key: Key = None) -> ServerBody:
        """A server is alive."""
        path = path_of("pools", pool, "servers", server, verb="heartbeat")
        return await self.send(writing("POST", path, ServerBody, None, key))

    async def clear_quarantine(self, pool: str, server: str, *, key: Key = None) -> ServerBody:
        """Let a server out of quarantine before its time."""
        path = path_of("pools", pool, "servers", server, verb="clear-quarantine")
        return await self.send(writing("POST", path, ServerBody, None, key))

    async def list_task_types(self, pool: str) -> list[TaskTypeBody]:
        """All task types of a pool."""
        return await self.send(reading(path_of("pools", pool, "task-types"), list[TaskTypeBody]))

    async def put_task_types(
        self, pool: str, task_types: Sequence[TaskTypeSettings], *, key: Key = None
    ) -> int:
        """Add or change many task types; others stay as they are. How many."""
        path = path_of("pools", pool, "task-types")
        done = await self.send(writing("PUT", path, Done, list(task_types), key))
        return done.count

    async def put_task_type(
        self, pool: str, task_type: TaskTypeSettings, *, key: Key = None
    ) -> TaskTypeBody:
        """Add a task type, or change it."""
        path = path_of("pools", pool, "task-types", task_type.id)
        return await self.send(writing("PUT", path, TaskTypeBody, task_type, key))

    async def get_scores(self, pool: str) -> ScoresBody:
        """Version and number of the scores."""
        return await self.send(reading(path_of("pools", pool, "scores"), ScoresBody))

    async def put_scores(
        self,
        pool: str,
        rows: Iterable[tuple[str, str, float] | ScoreRow],
        *,
        replace: bool = False,
        key: Key = None,
    ) -> ScoresBody:
        """Set scores: (task type, server, score) each; ``replace`` forgets all the others."""
        pairs = [one if isinstance(one, ScoreRow) else ScoreRow(*one) for one in rows]
        body = NewScores(rows=pairs, replace=replace)
        path = path_of("pools", pool, "scores")
        return await self.send(writing("PUT", path, ScoresBody, body, key))

    # ----------------------------------------------------------------------------- plans

    async def list_plans(self, pool: str) -> list[PlanBody]:
        """The stored plans, oldest first."""
        return await self.send(reading(path_of("pools", pool, "plans"), list[PlanBody]))

    async def get_plan(self, pool: str, plan: str) -> PlanDetail:
        """A plan: how far it is, what came of it in the shadow, its prices and tables."""
        return await self.send(reading(path_of("pools", pool, "plans", plan), PlanDetail))

    async def make_plan(
        self, pool: str, plan: NewPlan | None = None, *, key: Key = None
    ) -> PlanBody:
        """Price the pool and make a plan of it; by default wait for it and put it in force.

        With ``wait=False`` it comes back as it is being priced; ``get_plan`` tells how far it is.
        """
        path, body = path_of("pools", pool, "plans"), NewPlan() if plan is None else plan
        return await self.send(writing("POST", path, PlanBody, body, key))

    async def cancel_plan(self, pool: str, plan: str, *, key: Key = None) -> PlanBody:
        """Do not make a plan that is being priced."""
        path = path_of("pools", pool, "plans", plan, verb="cancel")
        return await self.send(writing("POST", path, PlanBody, None, key))

    async def put_plan(self, pool: str, plan: PlanDocument, *, key: Key = None) -> PlanBody:
        """Store a plan that was made elsewhere; it is not in force yet."""
        path = path_of("pools", pool, "plans", plan.id)
        return await self.send(writing("PUT", path, PlanBody, plan, key))

    async def activate_plan(self, pool: str, plan: str, *, key: Key = None) -> PlanBody:
        """Put a stored plan in force."""
        path = path_of("pools", pool, "plans", plan, verb="activate")
        return await self.send(writing("POST", path, PlanBody, None, key))

    async def shadow_plan(self, pool: str, plan: str, *, key: Key = None) -> PlanBody:
        """Let a stored plan decide beside the active one: noted, not done."""
        path = path_of("pools", pool, "plans", plan, verb="shadow")
        return await self.send(writing("POST", path, PlanBody, None, key))

    async def unshadow_plan(self, pool: str, *, key: Key = None) -> None:
        """No plan decides beside the active one any more."""
        path = path_of("pools", pool, "plans", verb="unshadow")
        await self.send(writing("POST", path, type(None), None, key))

    async def rollback_plan(self, pool: str, *, key: Key = None) -> PlanBody:
        """Put the plan in force that was before the present one."""
        path = path_of("pools", pool, "plans", verb="rollback")
        return await self.send(writing("POST", path, PlanBody, None, key))

    # -------------------------------------------------------------------------- learning

    async def get_learning(self, pool: str) -> LearningBody:
        """What the pool's learner knows: estimates, counts, intervals, warnings."""
        return await self.send(reading(path_of("pools", pool, "learning"), LearningBody))

    # ---------------------------------------------------------------------------- events

    async def get_events(self, pool: str, after: int = 0, limit: int = 100) -> EventPage:
        """A page of what happened behind a cursor; 1 to 1000 events."""
        path = path_of("pools", pool, "events") + f"?after={after}&limit={limit}"
        return await self.send(reading(path, EventPage))
