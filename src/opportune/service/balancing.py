"""Which pools a node takes and when it gives one away: functions of what it sees of the others.

Every node decides for itself, from what the last heartbeat showed; the database decides who gets a
pool that two of them want. A node takes what nobody holds up to its share (pools by nodes, rounded
up), and what nobody has taken for a moment in any case, so a pool is never left alone because the
nodes count differently. The fullest node gives one pool away while another has two fewer.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping

from opportune.service.membership import Place

OVERDUE = 0.5
"""Seconds after which a pool that nobody took is taken by anybody."""


def pools_to_take(
    places: Mapping[str, Place], node: str, n_nodes: int, mine: Collection[str], now: float
) -> list[str]:
    """Pools that a node should take, in its own order, so that nodes do not want the same one.

    Args:
        places: Where all pools are.
        node: Its name.
        n_nodes: Nodes that live, this one included.
        mine: Pools that it holds, is taking, or has just given away.
        now: On the clock of the places.
    """
    there = [pool for pool, place in places.items() if place.exists]
    room = -(-len(there) // max(n_nodes, 1)) - len(mine)
    free = [pool for pool in there if places[pool].until <= now and pool not in mine]
    free.sort(key=lambda pool: zlib.crc32(f"{pool} {node}".encode()))
    late = [pool for pool in free if now - places[pool].until > OVERDUE]
    return late + [pool for pool in free if pool not in late][: max(room - len(late), 0)]


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
