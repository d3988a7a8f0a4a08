"""A pool split into sub-pools: which server is where, and what a deal says. Pure.

A *deal* assigns every server to a sub-pool at random; after ``deal_period`` comes the next one.
A pool with ``partitions`` m above 1 is the *whole*: everything is declared in it, and its journal
says which deal is in force. Its sub-pools ``name--1`` to ``name--m`` are pools of their own, each
with an owner, a stream and a ledger; they know all servers, and a server is *here* in at most one.

A move is two records. The place where a server is writes that it left, and for which place; only
when that is on stable storage is the other place told, which writes that it joined. Each arrival
has a number, the *hop*, one larger than the last one, and a place joins a server once per hop. So
whatever is sent twice, late or after a restart changes nothing, and a server whose place has died
in between is at no place until it is told again.

Implements: the random partition of LAG Definition 4.1 for single servers, as ``kernels.split``.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.split import Deals, SplitState, deal
from opportune.service.dealing_records import Declaration, Declared, Mover
from opportune.service.ordering import permitted
from opportune.service.resources import Array, Name, PoolId, PoolSettings
from opportune.service.state import Server, State

_SUB_POOL = re.compile(r"([a-z0-9][a-z0-9_-]*?)--([1-9][0-9]{0,3})")

LONGEST_WHOLE = 57
"""Characters of the name of a pool that can be split."""


def sub_pool(whole: str, number: int) -> str:
    """The name of sub-pool ``number``, from 1."""
    return f"{whole}--{number}"


def sub_pools(whole: str, partitions: int) -> list[str]:
    """The names of all sub-pools; none of a pool that is not split."""
    return [sub_pool(whole, j + 1) for j in range(partitions)] if partitions > 1 else []


def whole_of(pool: str) -> str | None:
    """The pool that a sub-pool is part of, by its name; None if it has no such name."""
    match = _SUB_POOL.fullmatch(pool)
    return None if match is None else match[1]


def place_of_task(whole: str, partitions: int, name: bytes) -> str:
    """The sub-pool that a task goes to: by hash of its name, so that a retry comes to the same."""
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return sub_pool(whole, int.from_bytes(digest, "big") % partitions + 1)


def declared_of(state: State) -> Declared:
    """What sub-pools follow, from the state of a whole that exists.

    Plans that look at the headcount are left out: a sub-pool knows only its own.

    Raises:
        ValueError: If the whole has no settings.
    """
    settings = state.settings
    if settings is None:
        raise ValueError(f"there is no pool {state.pool!r}")
    own = PoolSettings(
        **{
            name: getattr(settings, name)
            for name in settings.__struct_fields__
            if name not in ("partitions", "deal_period", "part_of", "replan", "learning", "learner")
        },
        part_of=state.pool,
    )
    followed = [plan for plan in state.plans.values() if len(plan.order.shape) == 3]
    followed = [plan for plan in followed if plan.order.shape[1] == 1]  # no headcount of the whole
    names = {plan.id for plan in followed}
    priced = [plan.id for plan in followed if plan.source == "priors"]
    active = state.history[-1] if state.history and state.history[-1] in names else None
    shadow = state.shadow if state.shadow in names else None
    wanted = {active, shadow, *priced[-1:]}
    return Declared(
        settings=own,
        types=list(state.types),
        servers=[Declaration(one.settings, one.generation, one.present) for one in state.servers],
        score=Array.of(state.score[: len(state.types), : len(state.servers)]),
        plans=[plan for plan in followed if plan.id in wanted],
        active=active,
        shadow=shadow,
        activated=0.0 if active is None else state.activated[active],
    )


def on_their_way(state: State) -> dict[PoolId, list[Mover]]:
    """Who left this place and for which: what those places are to be told, again after a restart.

    Servers stay in it until they are here again; a place that has joined one takes no notice.
    """
    found: dict[PoolId, list[Mover]] = {}
    for server in state.servers:
        if not server.here and server.to:
            found.setdefault(server.to, []).append(mover_of(server))
    return found


def mover_of(server: Server) -> Mover:
    """What goes with a server that left."""
    return Mover(
        server.settings.id,
        server.hop + 1,
        server.strikes,
        server.quarantines,
        server.quarantined_until,
        server.silent,
        server.seen,
    )


class ServersToDeal(NamedTuple):
    """What a deal looks at: the R servers of a whole.

    Attributes:
        pool: Its name.
        names: (R,) names.
        traits: (L, R) what servers are compared by: scores, permissions, capacity.
        key: Of the shuffles: two 64-bit words.
    """

    pool: str
    names: list[Name]
    traits: NDArray[np.float64]
    key: tuple[np.uint64, np.uint64]


def servers_to_deal(state: State) -> ServersToDeal:
    """A copy of what a deal looks at, so that the pool may go on meanwhile."""
    n_types, n_servers = len(state.types), len(state.servers)
    score = np.nan_to_num(state.score[:n_types, :n_servers], nan=-1.0)
    own = [[one.present, one.settings.capacity] for one in state.servers]
    traits = [score, permitted(state), np.array(own, dtype=np.float64).reshape(n_servers, 2).T]
    seed = int.from_bytes(hashlib.blake2b(state.pool.encode(), digest_size=8).digest(), "big")
    key = (np.uint64(seed), np.uint64(0))
    names = [one.settings.id for one in state.servers]
    return ServersToDeal(state.pool, names, np.concatenate(traits), key)


def places_by_deal(servers: ServersToDeal, number: int, partitions: int) -> dict[Name, PoolId]:
    """Deal ``number``: the place of every server of a whole; in any thread.

    A pure function of key (by the pool's name), number and servers: whoever computes it gets the
    same. Equal servers go to the sub-pools in turn, so each gets as many of each kind, to within
    one. With one partition every server goes to the whole itself.
    """
    if partitions < 2 or not servers.names:
        return dict.fromkeys(servers.names, servers.pool)
    _, kind, size = np.unique(servers.traits, axis=1, return_inverse=True, return_counts=True)
    n = len(servers.names)
    deals = Deals(
        key=servers.key,
        m=partitions,
        period=1,
        tries=1,
        kind=kind.reshape(-1).astype(np.int64),
        size=size.astype(np.int64),
    )
    scratch = SplitState(
        busy_until=np.zeros(n + 1, dtype=np.int64),
        clock=np.zeros(3, dtype=np.int64),
        picks=np.zeros(n + 2, dtype=np.int64),
        pool_of=np.zeros(n, dtype=np.int64),
        shuffled=np.zeros(n, dtype=np.int64),
        place=np.zeros(max(len(size), partitions), dtype=np.int64),
    )
    deal(number, deals, scratch)
    places = sub_pools(servers.pool, partitions)
    return {
        name: places[j] for name, j in zip(servers.names, scratch.pool_of.tolist(), strict=True)
    }
