"""Which pools a node takes and when it gives one away: functions of what it sees of the others.

Every node decides for itself, from what the last heartbeat showed; the database decides who gets a
pool that two of them want. What nobody holds goes, pool by pool, to the node that has the fewest;
all nodes find the same *next owner* if they see the same. If they do not, what the next owner has
not taken for a moment is taken by whoever has read it ahead, then by anybody, so that no pool is
left alone. The fullest node gives one pool away while another has two fewer.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping

from opportune.service.membership import OVERDUE, SOON, Place


def next_owners(places: Mapping[str, Place], nodes: Collection[str], now: float) -> dict[str, str]:
    """Which node is to take each pool that nobody holds: the one with the fewest; ties by hash.

    Args:
        places: Where all pools are.
        nodes: Those that live.
        now: On the clock of the places.
    """
    counts = dict.fromkeys(nodes, 0)
    free = []
    for pool, place in sorted(places.items()):
        if place.exists and place.until <= now:
            free.append(pool)
        elif place.exists and place.node in counts:
            counts[place.node] += 1
    found = {}
    for pool in free if counts else ():
        found[pool] = min(
            counts, key=lambda node: (counts[node], zlib.crc32(f"{pool} {node}".encode()))
        )
        counts[found[pool]] += 1
    return found


def pools_to_take(
    places: Mapping[str, Place],
    node: str,
    nodes: Collection[str],
    mine: Collection[str],
    ahead: Collection[str],
    now: float,
) -> list[str]:
    """Pools that a node should take: it is their next owner, or that one has not come.

    Args:
        places: Where all pools are.
        node: Its name.
        nodes: Nodes that live.
        mine: Pools that it holds, is taking, or has just given away.
        ahead: Pools that it has read ahead.
        now: On the clock of the places.
    """
    owners = next_owners(places, nodes, now)
    late = [
        pool
        for pool, place in places.items()
        if place.exists and now - place.until > (SOON if pool in ahead else OVERDUE)
    ]
    wanted = dict.fromkeys([*late, *(pool for pool, owner in owners.items() if owner == node)])
    return [pool for pool in wanted if pool not in mine]


def pools_to_read(
    places: Mapping[str, Place], node: str, nodes: Collection[str], now: float, silent: float
) -> list[str]:
    """Pools whose owner is silent, and that a node would be the next owner of.

    Args:
        places: Where all pools are.
        node: Its name.
        nodes: Nodes that live.
        now: On the clock of the places.
        silent: A lease that ends before this should have been renewed; on the same clock.
    """
    ending = {
        pool: place._replace(until=now)
        for pool, place in places.items()
        if place.exists and now < place.until < silent
    }
    gone = {place.node for place in ending.values()}
    owners = next_owners({**places, **ending}, [one for one in nodes if one not in gone], now)
    return [pool for pool in ending if owners.get(pool) == node]


def gives_one(places: Mapping[str, Place], node: str, nodes: Collection[str], now: float) -> bool:
    """Whether a node should give a pool away: it is the fullest, and another has two fewer.

    Args:
        places: Where all pools are.
        node: Its name.
        nodes: Nodes that live.
        now: On the clock of the places.
    """
    counts = dict.fromkeys(nodes, 0)
    for place in places.values():
        if place.exists and (place.until <= now or place.node not in counts):
            return False  # first somebody takes it
        if place.exists:
            counts[place.node] += 1
    most = max(counts, key=lambda name: (counts[name], name), default="")
    return most == node and counts[most] - min(counts.values()) >= 2
