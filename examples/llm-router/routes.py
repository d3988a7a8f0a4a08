"""Who answers a prompt: four ways to pick a model, with one face.

``take`` picks a model and holds a place at it, or raises :class:`FullError`; ``done`` gives the
place back and says how long it was held. Opportune is asked in two ways: ``Assignments`` lets the
service keep count of who is busy, ``Ranking`` keeps count here and asks for an order only.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Protocol

from world import MODELS

from opportune.client import (
    AssignmentBody,
    AsyncClient,
    CreateTask,
    NoCapacityError,
    RankRequest,
    ReportOutcome,
)


class FullError(Exception):
    """No model has a place free.

    Attributes:
        retry_after: Seconds until one is expected to have; None if nobody knows.
    """

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("all models are busy")
        self.retry_after = retry_after


@dataclass(frozen=True)
class Place:
    """A place at a model.

    Attributes:
        model: Which.
        since: When it was taken, by the clock of whoever counts.
        name: What the outcome is reported for; empty where nobody wants to know.
        lease: Fencing token of the assignment.
    """

    model: str
    since: float
    name: str = ""
    lease: int = 0


class Route(Protocol):
    """A way to pick a model."""

    async def take(self, key: str, kind: str) -> Place:
        """A place for a request.

        Raises:
            FullError: If there is none.
        """

    async def done(self, place: Place, failed: str = "") -> float:
        """The model has answered, or failed; the seconds for which the place was held."""

    async def learn(self, place: Place, good: bool) -> None:
        """What the reader thinks of the answer, perhaps much later."""


class Assignments:
    """The service decides and holds the place: durable, shared by all gateways.

    The request's key is the task's external id, so a request that comes again, also after a restart
    of gateway or service, is the same task.
    """

    def __init__(self, client: AsyncClient, pool: str) -> None:
        self._client, self._pool = client, pool

    async def take(self, key: str, kind: str) -> Place:
        """An assignment."""
        task = CreateTask(task_type=kind, external_id=key)
        try:
            made = await self._client.create_assignment(self._pool, task)
        except NoCapacityError as error:
            raise FullError(error.retry_after) from error
        if not isinstance(made, AssignmentBody):
            raise FullError
        return Place(made.servers[0].id, made.created_at, made.assignment_id, made.lease)

    async def done(self, place: Place, failed: str = "") -> float:
        """The assignment is over; its outcome comes later."""
        if failed:
            over = await self._client.fail(place.name, reason=failed, lease=place.lease)
        else:
            over = await self._client.complete(place.name, lease=place.lease)
        return (over.ended_at or place.since) - place.since

    async def learn(self, place: Place, good: bool) -> None:
        """The outcome."""
        await self._client.report_outcome(ReportOutcome(subject=place.name, value=float(good)))


class Counting:
    """Counts who is busy here: gone when this process ends, and no other gateway knows."""

    def __init__(self) -> None:
        self.busy = dict.fromkeys(MODELS, 0)

    async def take(self, key: str, kind: str) -> Place:
        """The first in the order of :meth:`order` among the models that are free."""
        while True:
            free = [name for name in MODELS if self.busy[name] < MODELS[name].copies]
            if not free:
                raise FullError
            for chosen in await self.order(kind, free):
                if self.busy[chosen] < MODELS[chosen].copies:  # not taken while we asked
                    self.busy[chosen] += 1
                    return Place(chosen, time.time())

    async def order(self, kind: str, free: list[str]) -> list[str]:
        """The free models, the one that is wanted first."""
        raise NotImplementedError

    async def done(self, place: Place, failed: str = "") -> float:
        """The place is free."""
        self.busy[place.model] -= 1
        return time.time() - place.since

    async def learn(self, place: Place, good: bool) -> None:
        """Nothing here learns."""
        del place, good


class Ranking(Counting):
    """``:rank``: the order of the free models is the service's, the counts are ours."""

    def __init__(self, client: AsyncClient, pool: str) -> None:
        super().__init__()
        self._client, self._pool = client, pool

    async def order(self, kind: str, free: list[str]) -> list[str]:
        """By score minus opportunity cost."""
        ranked = await self._client.rank(self._pool, RankRequest(task_type=kind, candidates=free))
        return [server.id for server in ranked.servers]


class RoundRobin(Counting):
    """In turn, those that are full left out."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = itertools.cycle(MODELS)

    async def order(self, kind: str, free: list[str]) -> list[str]:
        """The next one."""
        return [next(model for model in self._turn if model in free)]


class BestScore(Counting):
    """The best on the benchmark that is free."""

    async def order(self, kind: str, free: list[str]) -> list[str]:
        """By score."""
        return sorted(free, key=lambda model: -MODELS[model].benchmark[kind])
