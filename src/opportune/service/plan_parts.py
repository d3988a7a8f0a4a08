"""Large plans in the journal: their tables are written ahead, in parts, beside everything else.

A plan of 500 task types and 1,000 servers is 8 MB. As one record it would keep all decisions
waiting that come while it is written. So its tables are cut into parts, each a note of its own, and
the event that stores the plan names the numbers of their records. Decisions are written between
the parts. Snapshots name them as well. Parts that no event names (the service ended in between, or
the plan was canceled) mean nothing.

Small plans, and those in older journals, stand whole in the event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from opportune.service.events import Event, PlanPut
from opportune.service.frames import damaged_error
from opportune.service.journal import Journal
from opportune.service.notes import PlanPart, decode_note, encode_note, is_note
from opportune.service.resources import Array, PlanDocument
from opportune.service.state import State

PART = 128 * 1024
"""Bytes of a part, at most: beside a commit's wait for the disk they take no time."""

LARGE = 2 * PART
"""Bytes of tables from which on a plan is written in parts."""


def is_large(plan: PlanDocument) -> bool:
    """Whether a plan is to be written in parts."""
    return sum(len(array.data) for array in plan.tables.values()) >= LARGE


def part_records(plan: PlanDocument) -> Iterator[bytes]:
    """The records that are written ahead of a plan: its tables in order, each cut by itself."""
    for array in plan.tables.values():
        data = memoryview(array.data)
        for start in range(0, len(data), PART):
            yield encode_note(PlanPart(plan.id, bytes(data[start : start + PART])))


def whole_event(event: Event, journal: Journal, pool: str) -> Event:
    """An event as it was before it was written: a plan in parts gets its tables back.

    Raises:
        JournalError: If the parts are not there.
    """
    if type(event) is not PlanPut or not event.parts:
        return event
    return msgspec.structs.replace(event, plan=_joined(event.plan, event.parts, journal, pool))


def join_plans(state: State, journal: Journal) -> None:
    """Give the plans of a state that was restored from a snapshot their tables back.

    Raises:
        JournalError: If the parts are not there.
    """
    for name, plan in state.plans.items():
        parts = state.made[name].parts if name in state.made else []
        if parts:
            state.plans[name] = _joined(plan, parts, journal, state.pool)


def _joined(plan: PlanDocument, parts: Sequence[int], journal: Journal, pool: str) -> PlanDocument:
    found = _parts(plan.id, parts, journal, pool)
    tables = {}
    for name, array in plan.tables.items():
        size = math.prod(array.shape) * np.dtype(array.dtype).itemsize
        pieces: list[bytes] = []
        while sum(map(len, pieces)) < size:
            pieces.append(next(found, b""))
            if not pieces[-1]:
                raise damaged_error(pool, parts[0])
        tables[name] = Array(array.dtype, array.shape, b"".join(pieces))
    return msgspec.structs.replace(plan, **tables)


def _parts(plan: str, parts: Sequence[int], journal: Journal, pool: str) -> Iterator[bytes]:
    """The bytes of a plan's parts in order."""
    for number in parts:
        for _, record in journal.read(pool, number - 1, 1):
            note = decode_note(record) if is_note(record) else None
            if not isinstance(note, PlanPart) or note.plan != plan:
                raise damaged_error(pool, number)
            yield note.data
