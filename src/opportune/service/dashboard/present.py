"""The pool now: its numbers, its servers by state, the tasks that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from opportune.markup import Html, element, joined
from opportune.service.answers import PoolBody, ServerBody
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
    "elsewhere": "away",
    "removed": "away",
    "busy": "busy",
}

MOST_SERVERS = 100
MOST_WAITING = 50


class Listed(NamedTuple):
    """A server as the page lists it: its name, one of ``STATES``, and what it holds."""

    name: str
    state: str
    open_slots: int
    capacity: int
    strikes: int
    until: float


def servers_of(state: State) -> list[Listed]:
    """The servers that are in a pool.

    A busy one is ``offered`` or ``wrapping`` if nothing that it holds is being served.
    """
    return [
        Listed(
            server.settings.id,
            _state_of(state, r),
            state.n_open[r],
            server.settings.capacity,
            server.strikes,
            server.quarantined_until,
        )
        for r, server in enumerate(state.servers)
        if server.present and server.here
    ]


def servers_from(bodies: Sequence[ServerBody]) -> list[Listed]:
    """The servers of a split pool, from what its parts say; offered ones are busy."""
    return [
        Listed(
            body.settings.id,
            _WORDS[body.state],
            body.open_slots,
            body.settings.capacity,
            body.strikes,
            body.quarantined_until or 0.0,
        )
        for body in bodies
    ]


def _state_of(state: State, r: int) -> str:
    word = server_state(state, r)
    if word != "busy":
        return _WORDS[word]
    held = set()
    for task in state.holders[r]:
        for slot in state.tasks[task].slots:
            if slot.server == r and slot.state in HELD:
                held.add(slot.state)
    if ACCEPTED in held or not held:
        return "busy"
    return "offered" if OFFERED in held else "wrapping"


def parts_note(parts: Sequence[str]) -> Html:
    """Where the sub-pools of a split pool are shown."""
    links = [element("a", name, href=f"/dashboard/{name}", class_="name") for name in parts]
    told = "The pool is split. Its numbers and servers are those of all parts together; decisions, "
    told += "reward and blocking are on the pages of the parts:"
    return note(joined([told, joined(links, ", ")], " "))


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


def servers_bar(found: Sequence[Listed]) -> Html:
    """Servers by state: a bar and its numbers."""
    if not found:
        how = element("code", "PUT /v1/pools/{pool}/servers")
        return note(joined(["There are no servers yet. Add them:", how], " "))
    counts = Counter(one.state for one in found)
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


def servers_table(found: Sequence[Listed], wanted: str, find: str) -> Html:
    """The servers, those of a state and with a text in their name if asked for.

    Args:
        found: All of them.
        wanted: One of ``STATES``, or empty for all.
        find: A part of the name, in any case.
    """
    text = find.casefold()
    matching = [
        one
        for one in found
        if (not wanted or one.state == wanted) and (not text or text in one.name.casefold())
    ]
    if not matching:
        return note("No server is like that." if found else "There are no servers yet.")
    rows = [
        [
            name_of(one.name),
            joined(
                [
                    element("i", "", class_=f"dot state-{one.state}"),
                    FIGURES[one.state].label,
                ],
                " ",
            ),
            number("server_slots", one.open_slots),
            number("capacity", one.capacity),
            number("strikes", one.strikes),
            moment(one.until) if one.until else Html(""),
        ]
        for one in matching[:MOST_SERVERS]
    ]
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
