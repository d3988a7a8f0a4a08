"""A split pool as its callers see it: one pool, whatever sub-pool does the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from opportune.service.answers import PoolBody, ServerBody, TaskBody
from opportune.service.commands import CreateTask, RankRequest
from opportune.service.dealing import LONGEST_WHOLE, sub_pools, whole_of
from opportune.service.node import Node
from opportune.service.problems import RefusalError, refusal
from opportune.service.reading import absent_bodies, pool_body, server_bodies, waiting_tasks
from opportune.service.resources import PoolSettings
from opportune.service.state import State

SETTLE_SECONDS = 5.0
"""Seconds that a change waits at most for the sub-pools to follow."""


def check_split(pool: str, settings: PoolSettings) -> None:
    """Check what a caller wants a pool to be.

    Raises:
        RefusalError: If it would be, or look like, a sub-pool, or its name is too long to split.
    """
    if settings.part_of is not None or whole_of(pool) is not None:
        told = f"{pool!r} is the name of a sub-pool, which the service makes by itself"
        raise refusal("invalid", f"{told}: set partitions of the pool, and choose another name")
    if settings.partitions > 1 and len(pool) > LONGEST_WHOLE:
        raise refusal("invalid", f"a split pool has a name of at most {LONGEST_WHOLE} characters")


def check_declares(node: Node, pool: str) -> None:
    """Check that something may be declared in a pool.

    Raises:
        RefusalError: If it is a sub-pool: it follows the whole.
    """
    owner = node.owners.get(pool)
    settings = None if owner is None else owner.state.settings
    if settings is not None and settings.part_of is not None:
        told = f"{pool!r} is a sub-pool: it follows pool {settings.part_of!r}"
        raise refusal("conflict", f"{told}; declare it there")


def places_of(node: Node, pool: str) -> list[str]:
    """The pool itself, and the sub-pools that it was ever split into."""
    deal = node.owner(pool).state.deal
    return [pool, *sub_pools(pool, deal.most)]


def place_of(node: Node, pool: str, command: CreateTask, key: str | None) -> str:
    """The pool that decides a new task.

    A task with an external id, or else an idempotency key, goes to a sub-pool by that name: sent
    again it comes to the same one. If the number of sub-pools has changed in between, it is looked
    for where it was first; all others go round.
    """
    deal = node.owner(pool).state.deal
    if deal.most < 2:
        return pool
    named = command.external_id if command.external_id is not None else key
    place = node.dealing.place(deal, pool, None if named is None else named.encode())
    if command.external_id is not None:
        for other in places_of(node, pool):
            owner = node.owners.get(other)
            if owner is not None and command.external_id in owner.state.external:
                return other
    return place


def place_of_server(node: Node, pool: str, server: str) -> str:
    """The pool that a server is in now; the whole while it is on its way."""
    for place in places_of(node, pool)[1:]:
        owner = node.owners.get(place)
        r = None if owner is None else owner.state.server_index.get(server)
        if owner is not None and r is not None and owner.state.servers[r].here:
            return place
    return pool


async def whole_body(node: Node, pool: str, now: float) -> PoolBody | None:
    """A pool at a glance, with all its sub-pools."""
    bodies = [
        await node.owner(place).read(lambda state: pool_body(state, now))
        for place in places_of(node, pool)
    ]
    whole = bodies[0]
    if whole is None or len(bodies) == 1:
        return whole
    found = [body for body in bodies if body is not None]
    counts: Counter[str] = Counter()
    for body in found:
        counts.update(body.counts)
    away = await node.owner(pool).read(absent_bodies)
    return msgspec.structs.replace(
        whole,
        servers=whole.servers + len(away),
        servers_free=sum(body.servers_free for body in found),
        slots=whole.slots + sum(one.settings.capacity for one in away),
        slots_open=sum(body.slots_open for body in found),
        tasks_open=sum(body.tasks_open for body in found),
        tasks_waiting=sum(body.tasks_waiting for body in found),
        degraded=next((body.degraded for body in found if body.degraded), ""),
        counts=dict(counts),
        reward=sum(body.reward for body in found),
        capacity_mismatch=sum(body.capacity_mismatch for body in found),
    )


async def whole_servers(node: Node, pool: str) -> list[ServerBody]:
    """All servers of a pool, each as the sub-pool has it that it is in."""
    found = {}
    for place in places_of(node, pool):
        for body in await node.owner(place).read(server_bodies):
            found[body.settings.id] = body

    def all_of_them(state: State) -> list[ServerBody]:
        bodies = [*server_bodies(state), *absent_bodies(state)]
        order = {server.settings.id: r for r, server in enumerate(state.servers)}
        return sorted(bodies, key=lambda body: order[body.settings.id])

    declared = await node.owner(pool).read(all_of_them)
    return [found.get(body.settings.id, body) for body in declared]


async def whole_waiting(node: Node, pool: str, limit: int) -> list[TaskBody]:
    """Tasks that wait, sub-pool by sub-pool: each has a queue of its own."""
    found: list[TaskBody] = []
    for place in places_of(node, pool):
        found += await node.owner(place).read(lambda state: waiting_tasks(state, limit))
    return found[:limit]


def with_candidates(node: Node, pool: str, request: RankRequest) -> RankRequest:
    """A request for a ranking of whoever is free, with their names."""
    places = places_of(node, pool)
    if request.candidates is not None or len(places) == 1:
        return request
    return msgspec.structs.replace(request, candidates=_free(node, places, request.task_type))


def _free(node: Node, places: Sequence[str], task_type: str) -> list[str]:
    found = []
    for place in places:
        try:
            state = node.owner(place).state
        except RefusalError:
            continue
        if task_type in state.type_index:
            found += [
                server.settings.id for r, server in enumerate(state.servers) if state.closed[r] == 0
            ]
    return found
