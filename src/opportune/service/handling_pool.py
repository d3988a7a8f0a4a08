"""Commands of an operator: the pool, its task types, servers and scores."""

from __future__ import annotations

import math
from collections import Counter

from opportune.service.commands import (
    ClearQuarantine,
    PutPool,
    PutScores,
    PutServer,
    PutTaskType,
    RemoveServer,
    ServerHeartbeat,
)
from opportune.service.events import (
    PoolPut,
    QuarantineEnded,
    ScoresPut,
    ServerPut,
    ServerRemoved,
    ServerSeen,
    TaskTypePut,
)
from opportune.service.filling import free_all, move_servers, refill
from opportune.service.learned import learner_problem
from opportune.service.reading import (
    pool_body,
    scores_body,
    server_of,
    task_type_bodies,
)
from opportune.service.refusing import Refused, Reply, check_name, refused, server_named
from opportune.service.state import OFFERED, State
from opportune.service.turn import Turn

MOST_LISTED = 10
"""Unknown ids that a message lists."""


def put_pool(turn: Turn, command: PutPool) -> Reply:
    """Create the pool or change its settings.

    Raises:
        Refused: If the learner's settings do not fit together, or a new context field has no
            valid name.
    """
    state = turn.state
    created = state.settings is None
    if state.settings == command.settings:
        return Reply(body=lambda: pool_body(state, turn.now), repeated=True)
    problem = learner_problem(command.settings)
    if problem is not None:
        raise refused(problem)
    for name in command.settings.context:
        if state.settings is None or name not in state.settings.context:
            check_name("context", name)
    turn.emit(PoolPut(time=turn.now, pool=state.pool, settings=command.settings))
    turn.settings = command.settings
    free_all(turn)
    return Reply(body=lambda: pool_body(state, turn.now), created=created)


def put_task_type(turn: Turn, command: PutTaskType) -> Reply:
    """Create or change a task type.

    Raises:
        Refused: If a new type has no valid name.
    """
    state, settings = turn.state, command.settings
    v = state.type_index.get(settings.id, len(state.types))
    created = v == len(state.types)
    if created:
        check_name("id", settings.id)
    repeated = not created and state.types[v] == settings
    if not repeated:
        turn.emit(TaskTypePut(time=turn.now, settings=settings))
        free_all(turn)
    return Reply(body=lambda: task_type_bodies(state)[v], created=created, repeated=repeated)


def put_server(turn: Turn, command: PutServer) -> Reply:
    """Add or change a server; one that was removed returns as a new generation.

    Raises:
        Refused: If a new server has no valid name.
    """
    state, settings = turn.state, command.settings
    r = state.server_index.get(settings.id)
    known = None if r is None else state.servers[r]
    created = known is None or not known.present
    if created:
        check_name("id", settings.id)
    repeated = known is not None and known.present and known.settings == settings
    if not repeated:
        generation = 1 if known is None else known.generation + (not known.present)
        turn.emit(ServerPut(time=turn.now, settings=settings, generation=generation))
        free_all(turn)
    return Reply(
        body=lambda: server_of(state, state.server_index[settings.id]),
        created=created,
        repeated=repeated,
    )


def remove_server(turn: Turn, command: RemoveServer) -> Reply:
    """Take a server out; tasks that only had its offer ask another one.

    Raises:
        Refused: If there was never such a server.
    """
    state = turn.state
    r = server_named(state, command.server)
    if not state.servers[r].present:
        return Reply(body=lambda: server_of(state, r), repeated=True)
    asked = []
    for number in sorted(state.holders[r]):
        task = state.tasks[number]
        if any(slot.server == r and slot.state == OFFERED for slot in task.slots):
            move_servers(turn, task, [r], "rescinded", "the server was removed")
            asked.append(task)
    turn.emit(ServerRemoved(time=turn.now, server=command.server))
    for task in asked:
        if task.is_short:
            refill(turn, task)
    return Reply(body=lambda: server_of(state, r))


def server_heartbeat(turn: Turn, command: ServerHeartbeat) -> Reply:
    """A server is alive; one that was silent takes tasks again.

    Raises:
        Refused: If there is no such server, or it was removed.
    """
    state = turn.state
    r = _present(state, command.server)
    was_silent = state.servers[r].silent
    turn.emit(ServerSeen(time=turn.now, server=command.server))
    if was_silent:
        turn.freed.append(r)
    return Reply(body=lambda: server_of(state, r))


def clear_quarantine(turn: Turn, command: ClearQuarantine) -> Reply:
    """A server may be offered tasks again.

    Raises:
        Refused: If there is no such server, or it was removed.
    """
    state = turn.state
    r = _present(state, command.server)
    repeated = not state.servers[r].quarantined_until
    if not repeated:
        turn.emit(QuarantineEnded(time=turn.now, server=command.server, cleared=True))
        turn.freed.append(r)
    return Reply(body=lambda: server_of(state, r), repeated=repeated)


def _present(state: State, name: str) -> int:
    """Number of a server that is there.

    Raises:
        Refused: If there was never such a server, or it was removed.
    """
    r = server_named(state, name)
    if not state.servers[r].present:
        raise Refused("not-found", "server", f"server {name!r} was removed", "add it again")
    return r


def put_scores(turn: Turn, command: PutScores) -> Reply:
    """Set match rewards; all rows or none.

    Raises:
        Refused: If a name is unknown, a pair stands there twice, or a score is not finite or
            below 0.
    """
    state = turn.state
    for field, known, names in (
        ("task_type", state.type_index, [row.task_type for row in command.rows]),
        ("server", state.server_index, [row.server for row in command.rows]),
    ):
        unknown = sorted({name for name in names if name not in known})
        if unknown:
            told = ", ".join(repr(name) for name in unknown[:MOST_LISTED])
            more = len(unknown) - MOST_LISTED
            told += f" and {more} more" if more > 0 else ""
            raise Refused("invalid", field, f"unknown: {told}", "create them first")
    pairs = Counter((row.task_type, row.server) for row in command.rows)
    twice = next((pair for pair, n in pairs.items() if n > 1), None)
    if twice is not None:
        raise Refused("invalid", "rows", f"the pair {twice} stands there twice", "give it once")
    bad = next((row for row in command.rows if not 0 <= row.score < math.inf), None)
    if bad is not None:
        told = f"score {bad.score} of ({bad.task_type!r}, {bad.server!r})"
        raise Refused("invalid", "rows", told, "scores are finite and at least 0")
    version = state.score_version + 1
    turn.emit(ScoresPut(time=turn.now, version=version, rows=command.rows, replace=command.replace))
    free_all(turn)
    return Reply(body=lambda: scores_body(state))
