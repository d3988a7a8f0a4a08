"""LiteLLM asks Opportune which deployment takes a request.

::

    import litellm
    from opportune.client import Client
    from opportune.litellm_strategy import route

    router = litellm.Router(model_list=[...])
    route(router, Client("http://127.0.0.1:8080"), pool="models")

A deployment is a server: ``model_info.id`` is its id in the pool. Every attempt of a request is a
task; when LiteLLM reports the attempt's success or failure, the assignment is completed or failed.
An attempt that LiteLLM never reports (a request that was given up) frees its server when its lease
is over. Needs the extra ``litellm``.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from opportune.client.blocking import Client
from opportune.client.problems import ConflictError, NoCapacityError
from opportune.errors import InputError, MissingExtraError, OpportuneError, Problem
from opportune.router import Router
from opportune.service.answers import AssignmentBody
from opportune.service.commands import CreateTask

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.router import CustomRoutingStrategyBase
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "litellm":
        raise
    raise MissingExtraError("litellm", "litellm", "the LiteLLM routing strategy") from error

MARK = "opportune_attempt"
"""Field of a request's metadata with the attempt's number."""

TaskType = Callable[[str, Any, Mapping[str, Any]], str]
"""From the model group, the messages and the request to the name of a task type."""


class Assigner(Protocol):
    """Who takes a task, and the end of it."""

    def assign(self, task_type: str) -> tuple[Any, str]:
        """A task comes in: what names it from now on, and its server.

        Raises:
            NoServerError: If nobody is free.
        """

    def end(self, name: Any, value: float | None, reason: str) -> None:
        """It is over; ``value`` is None if it failed."""

    def heartbeat(self, name: Any) -> bool:
        """It is still going on; False if it had ended already."""


class NoServerError(Exception):
    """Nobody is free for an attempt."""


@dataclass(frozen=True)
class ServiceAssigner:
    """Assigns in a pool of a running service.

    Attributes:
        client: The service; threads share it.
        pool: Of mode ``loss``, one server per task, servers that accept at once.
    """

    client: Client
    pool: str

    def assign(self, task_type: str) -> tuple[Any, str]:
        """A durable assignment."""
        try:
            made = self.client.create_assignment(self.pool, CreateTask(task_type=task_type))
        except NoCapacityError as error:
            wait = "" if error.retry_after is None else f", try again in {error.retry_after:.3g} s"
            raise NoServerError(f"no deployment is free for {task_type!r}{wait}") from error
        if not isinstance(made, AssignmentBody) or len(made.servers) != 1:
            told = f"task {made.task_id} of {self.pool!r} has not one server at once"
            raise InputError(Problem("pool", told, "mode loss, k = 1, auto_accept"))
        return (made.assignment_id, made.lease), made.servers[0].id

    def end(self, name: Any, value: float | None, reason: str) -> None:
        """Complete or fail it; one whose lease was over frees nothing any more."""
        assignment, lease = name
        try:
            if value is None:
                self.client.fail(assignment, reason=reason[:200], lease=lease)
            else:
                self.client.complete(assignment, value=value, lease=lease)
        except ConflictError:
            return  # its lease was over: the service has freed the server and says so

    def heartbeat(self, name: Any) -> bool:
        """Its lease begins anew."""
        try:
            self.client.heartbeat(name[0], lease=name[1])
        except ConflictError:
            return False
        return True


@dataclass(frozen=True)
class ProcessAssigner:
    """Assigns in this process: counts are gone when it ends, and other processes do not share them.

    Attributes:
        router: Its servers are the deployments.
    """

    router: Router

    def assign(self, task_type: str) -> tuple[Any, str]:
        """A decision of the router."""
        decision = self.router.decide(task_type)
        if not decision.servers:
            raise NoServerError(decision.reason)
        return decision.id, decision.servers[0]

    def end(self, name: Any, value: float | None, reason: str) -> None:
        """Its server is free."""
        self.router.complete(name)

    def heartbeat(self, name: Any) -> bool:
        """There is no lease to begin anew."""
        return name in self.router.running


@dataclass
class _Attempt:
    """An attempt that is not over: its name, when it began, and its next heartbeat."""

    name: Any
    began: float
    due: float


class OpportuneStrategy(CustomRoutingStrategyBase, CustomLogger):  # type: ignore[misc]
    """LiteLLM's routing strategy and the callback that ends what it began.

    Args:
        router: LiteLLM's router; :func:`route` registers the strategy there.
        assigner: Who decides.
        task_type: Gives the task type of a request; by default ``metadata["task_type"]``, else the
            model group.
        value: Outcome of an answer, by the arguments of the callback and the answer; default 1.
        heartbeat: Seconds between two heartbeats of an attempt; None: none are sent. Keep it well
            below the pool's ``lease``.
        longest: Seconds after which an attempt is no longer kept alive.
    """

    def __init__(
        self,
        router: Any,
        assigner: Assigner,
        task_type: TaskType | None = None,
        value: Callable[[Mapping[str, Any], Any], float] | None = None,
        heartbeat: float | None = None,
        longest: float = 600.0,
    ) -> None:
        super().__init__()
        self.identity = uuid.uuid4().hex  # LiteLLM drops a callback that looks like another one
        self._router, self._assigner = router, assigner
        self._task_type = task_type if task_type is not None else declared_type
        self._value = value if value is not None else _one
        self._heartbeat, self._longest = heartbeat, longest
        self._open: dict[int, _Attempt] = {}
        self._last = 0
        self._lock = threading.Lock()
        if heartbeat is not None:
            if not heartbeat > 0:
                raise InputError(Problem("heartbeat", str(heartbeat), "seconds above 0"))
            threading.Thread(target=self._beat, args=(heartbeat,), daemon=True).start()

    @property
    def running(self) -> int:
        """Attempts that are not over."""
        return len(self._open)

    # ------------------------------------------------------------------------ LiteLLM asks

    def get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,
        specific_deployment: bool | None = False,
        request_kwargs: Any = None,
    ) -> Any:
        """The deployment that takes an attempt.

        Raises:
            RateLimitError: LiteLLM's own, which it retries or hands to the caller: none is free.
            InputError: If the pool has no such task type, or its server is no deployment here.
        """
        request: dict[str, Any] = {} if request_kwargs is None else request_kwargs
        try:
            name, server = self._assigner.assign(self._task_type(model, messages, request))
        except NoServerError as error:
            raise litellm.RateLimitError(str(error), "opportune", model) from error
        deployment = self._router.registry().deployment_dict(server)
        if deployment is None:
            self._assigner.end(name, None, "not a deployment of this router")
            told = f"server {server!r}"
            raise InputError(Problem("model_info.id", told, "the id of a deployment"))
        with self._lock:
            self._last += 1
            now = time.monotonic()
            self._open[self._last] = _Attempt(name, now, now + (self._heartbeat or 0.0))
            request["metadata"] = {**(request.get("metadata") or {}), MARK: self._last}
        return deployment

    async def async_get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,
        specific_deployment: bool | None = False,
        request_kwargs: Any = None,
    ) -> Any:
        """The same for asynchronous requests; the event loop goes on meanwhile."""
        pick = self.get_available_deployment
        return await asyncio.to_thread(
            pick, model, messages, input, specific_deployment, request_kwargs
        )

    # --------------------------------------------------------------------- LiteLLM reports

    def log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """An attempt was answered."""
        self._end(kwargs, self._value(kwargs, response_obj), "")

    def log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """An attempt failed."""
        self._end(kwargs, None, type(kwargs.get("exception")).__name__)

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """An attempt was answered."""
        await asyncio.to_thread(self.log_success_event, kwargs, response_obj, None, None)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """An attempt failed."""
        await asyncio.to_thread(self.log_failure_event, kwargs, response_obj, None, None)

    def _end(self, kwargs: Mapping[str, Any], value: float | None, reason: str) -> None:
        """End an attempt, once; requests that another router sent are none of ours."""
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        with self._lock:
            attempt = self._open.pop(metadata.get(MARK, 0), None)
        if attempt is not None:
            self._assigner.end(attempt.name, value, reason)

    def _beat(self, every: float) -> None:
        """Keep attempts alive; those that take too long are left to their lease."""
        while True:
            time.sleep(every / 4)
            now = time.monotonic()
            with self._lock:
                for number, one in list(self._open.items()):
                    if now - one.began > self._longest:
                        del self._open[number]
                due = [one for one in self._open.values() if one.due <= now]
            for one in due:
                one.due = now + every
                try:
                    self._assigner.heartbeat(one.name)
                except OpportuneError:  # the service is away: the next one may reach it
                    continue


def route(
    router: Any, decider: Client | Router, *, pool: str = "", **options: Any
) -> OpportuneStrategy:
    """Let Opportune pick the deployments of a LiteLLM router from now on.

    Args:
        router: A ``litellm.Router``.
        decider: A client of the live service, or an :class:`opportune.Router` in this process.
        pool: Pool of the service.
        options: As of :class:`OpportuneStrategy`.

    Raises:
        InputError: If a pool is missing or of no use.
    """
    if isinstance(decider, Client) == (pool == ""):
        expected = "a pool's name with a client, none with a router"
        raise InputError(Problem("pool", repr(pool), expected))
    assigner: Assigner = (
        ServiceAssigner(decider, pool) if isinstance(decider, Client) else ProcessAssigner(decider)
    )
    strategy = OpportuneStrategy(router, assigner, **options)
    router.register_plugin(strategy)
    litellm.callbacks.append(strategy)
    return strategy


def declared_type(model: str, messages: Any, request: Mapping[str, Any]) -> str:
    """``metadata["task_type"]`` of a request, else its model group."""
    return str((request.get("metadata") or {}).get("task_type", model))


def _one(kwargs: Mapping[str, Any], response: Any) -> float:
    return 1.0
