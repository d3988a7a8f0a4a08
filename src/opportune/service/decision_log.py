"""The log of a pool, one row per task and server that served it, as ``fit`` and ``replay`` read it.

Read from the pool's journal. Outcomes are joined by task and server, the last revision counts, so
neither their order nor repetitions change anything. The rules:

- A server served if it accepted. Its row begins with the decision that picked it and ends when its
  slot is free again, wrap-up included: all that time it could serve nobody else. A task that no
  server accepted has one row without a server.
- A service that was lost, released or is still under way is not complete: its duration is what was
  seen of it.
- An outcome of the assignment as a whole goes to its servers in equal shares, unless a server has
  its own.
- ``free`` names the permitted servers that were free when this server was picked, itself among
  them; a pinned server was the only one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from opportune.service import events
from opportune.service.applying import apply
from opportune.service.events import Offered, OutcomeReported, Pick, SlotsMoved, TaskCreated
from opportune.service.journal import Journal
from opportune.service.naming import DECISION, TASK, name_of
from opportune.service.notes import is_note
from opportune.service.ordering import routing_of
from opportune.service.state import HELD, State, Task, empty_state

COLUMNS = (
    "task",
    "time",
    "task_type",
    "server",
    "start",
    "duration",
    "complete",
    "outcome",
    "propensity",
    "free",
    "decision",
    "plan",
)
"""Columns of the log; fields of the tasks' contexts follow them."""

CONTEXT = "context."
"""Begins the name of a column of contexts; the field's name follows."""

ENDED_WELL = frozenset({"completed", "failed"})
"""States after which the duration of a service is known; after the others only a part of it."""

WHOLE = ""
"""In place of a server: the outcome of the assignment as a whole."""


@dataclass
class Service:
    """One server's part in a task.

    Attributes:
        pick: The pick, with its propensity.
        decision: Number of the decision.
        plan: Plan that made it, empty without one.
        start, end: Seconds; no end while it is under way.
        free: Names of the servers that were free.
        accepted: Whether the server took it.
        complete: Whether it ended by itself.
    """

    pick: Pick
    decision: int
    plan: str
    start: float
    free: list[str]
    accepted: bool
    end: float | None = None
    complete: bool = False


@dataclass
class TaskRecord:
    """A task, its services, and what was reported of it: server -> (revision, value)."""

    created: TaskCreated
    services: list[Service] = field(default_factory=list)
    outcomes: dict[str, tuple[int, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class DecisionLog:
    """The log of a pool.

    Attributes:
        pool: Its name.
        columns: Names of the columns.
        rows: One cell per column.
        contexts: Fields of contexts that became columns.
        left_out: Fields that did not, since some task lacks them or has no number there.
    """

    pool: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    contexts: tuple[str, ...]
    left_out: tuple[str, ...]


def decision_log(journal: Journal, pool: str) -> DecisionLog:
    """Read the log of a pool from its journal.

    Raises:
        JournalError: If a record is damaged.
        msgspec.DecodeError: If a record is none of ours.
    """
    records = (record for _, record in journal.read(pool) if not is_note(record))
    return log_of(pool, (events.decode(record) for record in records))


def log_of(pool: str, happened: Iterable[events.Event]) -> DecisionLog:
    """The log of what happened in a pool.

    Args:
        pool: Its name.
        happened: All its events, in order.
    """
    state = empty_state(pool)
    tasks: dict[int, TaskRecord] = {}
    by_server: dict[str, list[Service]] = {}
    for event in happened:
        if isinstance(event, Offered):
            services = _services(state, event)
            tasks[event.task].services += services
            for service in services:
                by_server.setdefault(service.pick.server, []).append(service)
        elif isinstance(event, events.ServerRemoved):
            _cut(by_server.pop(event.server, []), event.time)
        else:
            _note(tasks, event)
        apply(state, event)
    kept, left_out = _context_fields(tasks.values())
    rows: list[list[Any]] = []
    for number, record in tasks.items():
        rows += _rows((pool, number), record, state.clock, kept)
    columns = (*COLUMNS, *(f"{CONTEXT}{name}" for name in kept))
    return DecisionLog(pool, columns, rows, kept, left_out)


def columns_file(log: DecisionLog) -> str:
    """The map of columns of a log, as a TOML file."""
    roles = [name for name in COLUMNS if name not in ("decision", "plan")]
    lines = [f'{name} = "{name}"' for name in roles]
    names = ", ".join(_quoted(f"{CONTEXT}{name}") for name in log.contexts)
    lines += [f"context = [{names}]"] if log.contexts else []
    return "\n".join([*lines, "day = 86400", ""])


def _note(tasks: dict[int, TaskRecord], event: events.Event) -> None:
    if isinstance(event, TaskCreated):
        tasks[event.task] = TaskRecord(event)
    elif isinstance(event, SlotsMoved):
        for name in event.servers:
            _move(tasks[event.task], name, event)
    elif isinstance(event, OutcomeReported):
        told = tasks[event.task].outcomes
        name = event.server or WHOLE
        if name not in told or event.revision >= told[name][0]:
            told[name] = (event.revision, event.value)


def _services(state: State, event: Offered) -> list[Service]:
    """What begins with a decision, in the state before it."""
    free = _free(state, state.tasks[event.task], event)
    found = []
    for pick in event.picks:
        names = [pick.server] if event.why.rule == "pins" else list(free)
        found.append(
            Service(
                pick=pick,
                decision=event.decision,
                plan=event.why.plan or "",
                start=event.time,
                free=names,
                accepted=event.accepted,
            )
        )
        free = [name for name in free if name != pick.server]
    return found


def _free(state: State, task: Task, event: Offered) -> list[str]:
    """Names of the permitted servers that could have been picked; the picks are among them."""
    allowed = routing_of(state).allowed[task.task_type]
    never = {*task.conflicts, *(slot.server for slot in task.slots)}
    names = []
    for r, server in enumerate(state.servers):
        kept = r in task.reserved and server.takes_tasks
        open_ = not state.closed[r] or (kept and state.n_open[r] < server.settings.capacity)
        if allowed[r] and open_ and r not in never:
            names.append(server.settings.id)
    return names + [pick.server for pick in event.picks if pick.server not in names]


def _move(record: TaskRecord, name: str, event: SlotsMoved) -> None:
    service = next(one for one in reversed(record.services) if one.pick.server == name)
    service.accepted = service.accepted or event.state == "accepted"
    if event.state not in HELD and service.end is None:
        service.end = event.time
        service.complete = event.state in ENDED_WELL


def _cut(services: list[Service], now: float) -> None:
    """A server that leaves the pool ends nothing, but no more is seen of its services."""
    for service in services:
        if service.end is None:
            service.end = now


def _rows(
    place: tuple[str, int], record: TaskRecord, now: float, contexts: tuple[str, ...]
) -> list[list[Any]]:
    created, (pool, number) = record.created, place
    before = [name_of(pool, TASK, number), created.time, created.task_type]
    after = [created.context[name] for name in contexts]
    served = [service for service in record.services if service.accepted]
    if not served:
        return [[*before, *[""] * 9, *after]]
    rows = []
    for service in served:
        end = now if service.end is None else service.end
        rows.append(
            [
                *before,
                service.pick.server,
                service.start,
                end - service.start,
                str(service.complete).lower(),
                _outcome(record, service.pick.server, len(served)),
                service.pick.propensity,
                ";".join(service.free),
                name_of(pool, DECISION, service.decision),
                service.plan,
                *after,
            ]
        )
    return rows


def _outcome(record: TaskRecord, server: str, n_served: int) -> float | str:
    own = record.outcomes.get(server, (0, None))[1]
    whole = record.outcomes.get(WHOLE, (0, None))[1]
    if own is None and whole is not None:
        return whole / n_served
    return "" if own is None else own


def _context_fields(tasks: Iterable[TaskRecord]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of contexts that are numbers in all tasks, and the others."""
    seen: dict[str, int] = {}
    n = 0
    for record in tasks:
        n += 1
        for name, value in record.created.context.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            seen[name] = seen.get(name, 0) + int(number)
    kept = tuple(name for name, count in seen.items() if count == n)
    return kept, tuple(name for name in seen if name not in kept)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
