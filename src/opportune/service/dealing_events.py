"""Events of deals: servers are to leave, have left, have joined (``applying`` for all others)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opportune.service import events
from opportune.service.dealing_records import Deal
from opportune.service.state import QUARANTINE_ENDS, SILENCE, State, refresh, set_timer


def _servers_dealt(state: State, event: events.ServersDealt) -> None:
    before = state.deal
    if event.deal != before.number:
        most = max(before.most, event.partitions)
        state.deal = Deal(event.deal, event.partitions, event.time, most)
    for name, place in event.to.items():
        r = state.server_index[name]
        state.servers[r].to = place
        refresh(state, r)


def _servers_left(state: State, event: events.ServersLeft) -> None:
    for name in event.servers:
        r = state.server_index[name]
        state.servers[r].here = False
        refresh(state, r)


def _servers_joined(state: State, event: events.ServersJoined) -> None:
    timeout = None if state.settings is None else state.settings.heartbeat_timeout
    for mover in event.servers:
        r = state.server_index[mover.server]
        server = state.servers[r]
        server.here, server.to, server.hop = True, "", mover.hop
        server.strikes, server.quarantines = mover.strikes, mover.quarantines
        server.quarantined_until = mover.quarantined_until
        server.silent, server.seen = mover.silent, mover.seen
        if server.quarantined_until:
            set_timer(state, server.quarantined_until, QUARANTINE_ENDS, r)
        if timeout is not None and not server.silent:
            set_timer(state, server.seen + timeout, SILENCE, r)
        refresh(state, r)


APPLY: dict[type, Callable[[State, Any], None]] = {
    events.ServersDealt: _servers_dealt,
    events.ServersLeft: _servers_left,
    events.ServersJoined: _servers_joined,
}
