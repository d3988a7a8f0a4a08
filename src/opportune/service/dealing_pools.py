"""A split pool as its callers see it: one pool, whatever sub-pool does the work."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from opportune.service.answers import PoolBody, ServerBody, TaskBody
from opportune.service.commands import RankRequest
from opportune.service.dealing import LONGEST_WHOLE, sub_pools, whole_of
from opportune.service.dealing_orders import Look
from opportune.service.node import Node
from opportune.service.problems import refusal
from opportune.service.reading import absent_bodies, server_bodies
from opportune.service.resources import PoolSettings
from opportune.service.state import State

NEW_TASK = re.compile(rb"/v1/pools/([a-z0-9_-]+)/(?:assignments|tasks)")

SETTLE_SECONDS = 5.0
"""Seconds that a change waits at most for the sub-pools to follow."""


def check_split(pool: str, settings: PoolSettings) -> None:
    """Check what a caller wants a pool to be.

    Raises:
        RefusalError: If it would be, or look like, a sub-pool, or cannot be split so.
    """
    if settings.part_of is not None or whole_of(pool) is not None:
        told = f"{pool!r} is the name of a sub-pool, which the service makes by itself"
        raise refusal("invalid", f"{told}: set partitions of the pool, and choose another name")
    if settings.partitions > 1 and settings.replan != "off":
        told = "a split pool does not replan by itself: its sub-pools count their own arrivals"
        raise refusal("invalid", f"{told}; set replan to off, and ask for plans")
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
    state = node.owner(pool).state
    if state.settings is None or state.settings.part_of is not None:
        return [pool]
    return [pool, *sub_pools(pool, state.deal.most)]


def place_of(node: Node, pool: str, external: str | None, key: str | None) -> str:
    """The pool that decides a new task.

    A task with an external id, or else an idempotency key, goes to a sub-pool by that name: sent
    again it comes to the same one. If the number of sub-pools has changed in between, it is looked
    for where it was first, as far as these sub-pools are on this node; all others go round.
    """
    state = node.owner(pool).state
    deal, settings = state.deal, state.settings
    if deal.most < 2 or settings is None or settings.part_of is not None:
        return pool
    named = external if external is not None else key
    if external is not None:
        for other in places_of(node, pool):
            owner = node.owners.get(other)
            if owner is not None and external in owner.state.external:
                return other
    return node.dealing.place(deal, pool, None if named is None else named.encode())


class _Named(msgspec.Struct):
    """The part of a new task that says where it goes."""

    external_id: str | None = None


_NAMED = msgspec.json.Decoder(_Named)


def path_of(node: Node, path: bytes, body: bytes, key: str | None) -> bytes:
    """The path of a new task: that of the sub-pool it goes to, if its pool is split.

    Among several nodes, on the owner of the whole; the request is then sent on to the sub-pool's.
    """
    found = NEW_TASK.fullmatch(path)
    if found is None:
        return path
    pool = found[1].decode("ascii")
    owner = node.owners.get(pool)
    if owner is None or owner.state.deal.most < 2 or owner.state.settings is None:
        return path
    try:
        external = _NAMED.decode(body).external_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return path  # whoever handles it says what is wrong
    place = place_of(node, pool, external, key)
    return b"/v1/pools/" + place.encode() + path[found.end(1) :]


async def place_of_server(node: Node, pool: str, server: str) -> str:
    """The pool that a server is in now; the whole while it is on its way."""
    for place in places_of(node, pool)[1:]:
        if await node.orders.look(place, Look(what="has", server=server)):
            return place
    return pool


async def whole_body(node: Node, pool: str, now: float) -> PoolBody | None:
    """A pool at a glance, with all its sub-pools."""
    look = Look(what="pool", now=now)
    bodies = [await node.orders.look(place, look) for place in places_of(node, pool)]
    whole: PoolBody | None = bodies[0]
    if whole is None or len(bodies) == 1:
        return whole
    found: list[PoolBody] = [body for body in bodies if body is not None]
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
        for body in await node.orders.look(place, Look(what="servers")):
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
        found += await node.orders.look(place, Look(what="waiting", limit=limit))
    return found[:limit]


async def with_candidates(node: Node, pool: str, request: RankRequest) -> RankRequest:
    """A request for a ranking of whoever is free, with their names."""
    if request.candidates is not None or len(places_of(node, pool)) == 1:
        return request
    servers = await whole_servers(node, pool)
    free = [body.settings.id for body in servers if body.state == "free"]
    return msgspec.structs.replace(request, candidates=free)
