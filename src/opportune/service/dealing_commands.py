"""Commands of a split pool: follow the whole, deal, take servers in. They come from the service."""

from __future__ import annotations

import numpy as np

from opportune.service.commands import (
    DealServers,
    Follow,
    PutTaskType,
    RemoveServer,
    TakeIn,
)
from opportune.service.dealing_records import Declaration, Declared
from opportune.service.events import (
    PlanActivated,
    PlanPut,
    PlanShadowed,
    ScoresPut,
    ServerPut,
    ServersDealt,
    ServersJoined,
    ServersLeft,
)
from opportune.service.filling import free_all
from opportune.service.handling_pool import put_task_type, remove_server
from opportune.service.refusing import Refused, Reply, nothing
from opportune.service.resources import ScoreRow
from opportune.service.state import Server, State, may_leave
from opportune.service.turn import Turn


def deal_servers(turn: Turn, command: DealServers) -> Reply:
    """Servers that are here go where the deal says: the free ones now, others when they are free.

    A server that is kept for a waiting task stays. Until a busy one is free it counts here and is
    given nothing more. The same deal again changes nothing in a sub-pool; in the whole it sends
    those on their way who were added since.
    """
    state = turn.state
    again = command.deal == state.deal.number
    if command.deal < state.deal.number or (again and turn.settings.part_of is not None):
        return Reply(body=nothing, repeated=True)
    to = {}
    for server in state.servers:
        place = command.to.get(server.settings.id, state.pool)
        wanted = "" if place == state.pool or server.reserved_for else place
        if server.here and server.to != wanted:
            to[server.settings.id] = wanted
    if again and not to:
        return Reply(body=nothing, repeated=True)
    turn.emit(ServersDealt(time=turn.now, deal=command.deal, partitions=command.partitions, to=to))
    turn.freed += [state.server_index[name] for name, place in to.items() if not place]
    return Reply(body=nothing)


def leave(turn: Turn) -> None:
    """Write down who leaves now; at the end of a turn, after free servers were used."""
    state = turn.state
    if state.leaving:
        going = [r for r in sorted(state.leaving) if may_leave(state, r)]
        state.leaving.clear()
        if going:
            names = [state.servers[r].settings.id for r in going]
            turn.emit(ServersLeft(time=turn.now, servers=names))


def take_in(turn: Turn, command: TakeIn) -> Reply:
    """Servers arrive; those that arrived before are none of our business any more.

    Raises:
        Refused: If one is unknown here (follow first).
    """
    state, joined = turn.state, []
    for mover in command.servers:
        r = state.server_index.get(mover.server)
        if r is None:
            told = f"there is no server {mover.server!r} in {state.pool!r} yet"
            raise Refused("not-found", "servers", told, "let the sub-pool follow the whole first")
        if mover.hop > state.servers[r].hop:
            if state.servers[r].here:
                told = f"server {mover.server!r} is in {state.pool!r} already"
                raise Refused("conflict", "servers", told)
            joined.append(mover)
    if joined:
        turn.emit(ServersJoined(time=turn.now, servers=joined))
        turn.freed += [state.server_index[mover.server] for mover in joined]
    return Reply(body=nothing, repeated=not joined)


def follow(turn: Turn, command: Follow) -> Reply:
    """Declare what the whole declares, where it is not so already.

    The pool exists with the right settings (``PutPool``). Servers come in as being elsewhere.
    """
    declared = command.declared
    before = len(turn.events)
    for settings in declared.types:
        put_task_type(turn, PutTaskType(settings=settings))
    for one in declared.servers:
        _follow_server(turn, one)
    _follow_scores(turn, declared)
    _follow_plans(turn, declared)
    changed = len(turn.events) > before
    if changed:
        free_all(turn)
    return Reply(body=nothing, repeated=not changed)


def _follow_server(turn: Turn, one: Declaration) -> None:
    state, name = turn.state, one.settings.id
    r = state.server_index.get(name)
    if r is not None and _is_over(state.servers[r], one):
        remove_server(turn, RemoveServer(server=name))
    if r is None or (one.present and _differs(state, r, one)):
        turn.emit(
            ServerPut(
                time=turn.now, settings=one.settings, generation=one.generation, away=r is None
            )
        )
        if not one.present:
            remove_server(turn, RemoveServer(server=name))


def _is_over(server: Server, one: Declaration) -> bool:
    """Whether what is present here has been removed in the whole, perhaps to be added again."""
    return server.present and (not one.present or server.generation != one.generation)


def _differs(state: State, r: int, one: Declaration) -> bool:
    server = state.servers[r]
    return not server.present or server.settings != one.settings


def _follow_scores(turn: Turn, declared: Declared) -> None:
    """Pairs that have another score; all of them where one has lost its score."""
    state = turn.state
    wanted = declared.score.numpy()
    rows = [state.type_index[settings.id] for settings in declared.types]
    columns = [state.server_index[one.settings.id] for one in declared.servers]
    present = state.score[np.ix_(rows, columns)]
    lost = bool(np.any(np.isnan(wanted) & ~np.isnan(present)))
    changed = ~np.isnan(wanted) if lost else (wanted != present) & ~np.isnan(wanted)
    if not (lost or changed.any()):
        return
    scores = [
        ScoreRow(declared.types[v].id, declared.servers[r].settings.id, float(wanted[v, r]))
        for v, r in np.argwhere(changed)
    ]
    version = state.score_version + 1
    turn.emit(ScoresPut(time=turn.now, version=version, rows=scores, replace=lost))


def _follow_plans(turn: Turn, declared: Declared) -> None:
    """Plans of the whole order the servers that are here: its prices hold in every part."""
    state = turn.state
    for plan in declared.plans:
        if state.plans.get(plan.id) != plan:
            turn.emit(PlanPut(time=turn.now, plan=plan))
    name = declared.active
    if name is not None and (
        not state.history or state.history[-1] != name or state.activated[name] < declared.activated
    ):
        turn.emit(PlanActivated(time=turn.now, plan=name))
    if state.shadow != declared.shadow:
        turn.emit(PlanShadowed(time=turn.now, plan=declared.shadow))
