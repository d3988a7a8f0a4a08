"""The pool now: its numbers, its servers by state, the tasks that wait."""

from __future__ import annotations

from collections import Counter

from opportune.markup import Html, element, joined
from opportune.service.answers import PoolBody
from opportune.service.dashboard.figures import FIGURES, moment, name_of, number, term
from opportune.service.dashboard.tables import capped, note, table, tile, tiles
from opportune.service.reading import server_state, waiting_tasks
from opportune.service.state import ACCEPTED, HELD, OFFERED, State

STATES = ("free", "offered", "busy", "wrapping", "reserved", "quarantined", "drained", "away")
"""States of servers, in the order in which they are shown."""

_WORDS = {
    "free": "free",
    "reserved": "reserved",
    "quarantined": "quarantined",
    "draining": "drained",
    "unavailable": "away",
    "silent": "away",
}

MOST_SERVERS = 100
MOST_WAITING = 50


def state_of(state: State, r: int) -> str:
    """One of ``STATES`` for a server that is present.

    A busy one is ``offered`` or ``wrapping`` if nothing that it holds is being served.
    """
    word = server_state(state, r)
    if word != "busy":
        return _WORDS[word]
    held = set()
    for number_ in state.holders[r]:
        for slot in state.tasks[number_].slots:
            if slot.server == r and slot.state in HELD:
                held.add(slot.state)
    if ACCEPTED in held or not held:
        return "busy"
    return "offered" if OFFERED in held else "wrapping"


def states_of(state: State) -> dict[int, str]:
    """The state of every present server, by index."""
    return {r: state_of(state, r) for r, server in enumerate(state.servers) if server.present}


def glance(pool: PoolBody) -> Html:
    """The pool in a few numbers, and what is wrong with it."""
    counts = pool.counts
    created = counts.get("created", 0)
    dropped = counts.get("dropped", 0)
    parts = [
        tile("free", pool.servers_free, joined(["of", number("servers", pool.servers)], " ")),
        tile("slots_open", pool.slots_open, joined(["of", number("slots", pool.slots)], " ")),
        tile("tasks_open", pool.tasks_open),
        tile("tasks_waiting", pool.tasks_waiting),
        tile("created", created),
        tile("done", counts.get("done", 0)),
        tile("dropped", dropped),
        tile("blocked", dropped / created if created else None),
        tile("reward", pool.reward),
        tile("capacity_mismatch", pool.capacity_mismatch),
    ]
    warnings = []
    if pool.degraded:
        warnings.append(note(f"Degraded: {pool.degraded}.", "warning"))
    if pool.capacity_mismatch:
        warnings.append(
            note("The ledger and the tasks disagree: this is a fault of the service.", "warning")
        )
    return joined([*warnings, tiles(parts)])


def servers_bar(found: dict[int, str]) -> Html:
    """Servers by state: a bar and its numbers."""
    if not found:
        how = element("code", "PUT /v1/pools/{pool}/servers")
        return note(joined(["There are no servers yet. Add them:", how], " "))
    counts = Counter(found.values())
    at, pieces = 0.0, []
    for name in STATES:
        width = 1000.0 * counts[name] / len(found)
        if width:
            pieces.append(
                f'<rect class="state-{name}" x="{at:.3f}" y="0" width="{width:.3f}" height="20"/>'
            )
        at += width
    bar = Html(
        '<svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">'
        + "".join(pieces)
        + "</svg>"
    )
    entries = [
        element(
            "div",
            joined(
                [
                    element(
                        "dt",
                        joined([element("i", "", class_=f"dot state-{name}"), term(name)], " "),
                    ),
                    element("dd", number(name, counts[name])),
                ],
                "",
            ),
        )
        for name in STATES
    ]
    return joined([bar, element("dl", joined(entries), class_="states")])


def servers_table(state: State, found: dict[int, str], wanted: str, find: str) -> Html:
    """The servers, those of a state or with a text in their name first asked for.

    Args:
        state: The pool.
        found: ``states_of``.
        wanted: One of ``STATES``, or empty for all.
        find: A part of the name, in any case.
    """
    text = find.casefold()
    matching = [
        r
        for r, name in found.items()
        if (not wanted or name == wanted)
        and (not text or text in state.servers[r].settings.id.casefold())
    ]
    if not matching:
        return note("No server is like that." if found else "There are no servers yet.")
    rows = []
    for r in matching[:MOST_SERVERS]:
        server = state.servers[r]
        until = server.quarantined_until
        rows.append(
            [
                name_of(server.settings.id),
                joined(
                    [element("i", "", class_=f"dot state-{found[r]}"), FIGURES[found[r]].label], " "
                ),
                number("server_slots", state.n_open[r]),
                number("capacity", server.settings.capacity),
                number("strikes", server.strikes),
                moment(until) if until else Html(""),
            ]
        )
    head = ["Server", "State", "server_slots", "capacity", "strikes", "Quarantined until"]
    told = capped(len(rows), len(matching), "Choose a state or type a part of a name.")
    return joined([told, table("Servers", head, rows)])


def waiting(state: State, now: float) -> Html:
    """The queue: who waits, in which place, for how long."""
    if state.settings is None or state.settings.mode != "queue":
        return note("The pool is in loss mode: a task that finds too few servers free is dropped.")
    tasks = waiting_tasks(state, MOST_WAITING)
    if not tasks:
        return note("No task waits.")
    rows = [
        [
            number("position", place),
            name_of(task.task_id),
            name_of(task.task_type),
            number("wait", max(now - task.created_at, 0.0)),
            number("k", task.k),
            number("kept", len(task.reserved)),
            number("priority", task.priority),
            number("left", max(task.deadline - now, 0.0)),
        ]
        for place, task in enumerate(tasks, start=1)
    ]
    head = ["position", "Task", "Type", "wait", "k", "kept", "priority", "left"]
    told = capped(len(rows), state.waiting.size, "They are the first in line.")
    return joined([told, table("Waiting tasks", head, rows)])
