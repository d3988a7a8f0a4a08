"""Every move of a split pool, told by the journals of its places alone."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from opportune.service import events
from opportune.service.dealing import whole_of
from opportune.service.journal import Journal
from opportune.service.notes import is_note


class Moved(NamedTuple):
    """A server arrived at a place for the hop-th time anywhere, from a place."""

    place: str
    came_from: str


def moves_of(journal: Journal, whole: str) -> dict[str, dict[int, Moved]]:
    """By server, its arrivals in order; the whole is where it is at first (hop 0).

    Raises:
        AssertionError: If a server arrived somewhere twice for one hop, or where it was not sent,
            or left a place where it was not, or left one place for two.
    """
    places = [pool for pool in journal.pools() if pool == whole or whole_of(pool) == whole]
    left: dict[tuple[str, int], tuple[str, str]] = {}
    arrived: dict[tuple[str, int], str] = {}
    for place in places:
        hop: dict[str, int] = {}
        to: dict[str, str] = {}
        here: set[str] = set()
        for _, record in journal.read(place):
            if is_note(record):
                continue
            event = events.decode(record)
            if isinstance(event, events.ServerPut) and event.settings.id not in hop:
                hop[event.settings.id] = 0
                if not event.away:
                    assert place == whole, f"{event.settings.id} was added in {place}"
                    here.add(event.settings.id)
            elif isinstance(event, events.ServersDealt):
                to |= event.to
            elif isinstance(event, events.ServersLeft):
                for name in event.servers:
                    assert name in here, f"{name} left {place}, where it was not"
                    here.remove(name)
                    assert (name, hop[name]) not in left, f"{name} left two places at once"
                    left[name, hop[name]] = (place, to[name])
            elif isinstance(event, events.ServersJoined):
                for mover in event.servers:
                    assert mover.server not in here
                    at = (mover.server, mover.hop)
                    assert at not in arrived, f"{at} arrived at {arrived[at]} and at {place}"
                    arrived[at] = place
                    here.add(mover.server)
                    hop[mover.server] = mover.hop
                    to[mover.server] = ""
            elif isinstance(event, events.Offered):
                for pick in event.picks:
                    assert pick.server in here, f"{pick.server} was picked in {place}, not there"
    found: dict[str, dict[int, Moved]] = {}
    for (name, number), place in arrived.items():
        assert (name, number - 1) in left, f"{name} arrived at {place} before it had left"
        came_from, sent_to = left[name, number - 1]
        assert sent_to == place, f"{name} was sent to {sent_to} and arrived at {place}"
        found.setdefault(name, {})[number] = Moved(place, came_from)
    for name, hops in found.items():
        assert sorted(hops) == list(range(1, len(hops) + 1)), f"{name}: {sorted(hops)}"
    in_flight = Counter(name for name, number in left if (name, number + 1) not in arrived)
    assert all(n == 1 for n in in_flight.values()), in_flight
    return found
