"""Read a pool's journal from its first record and make every decision again."""

from __future__ import annotations

from dataclasses import dataclass, field

from opportune.errors import Problem
from opportune.service import events
from opportune.service.applying import apply
from opportune.service.engine import verify
from opportune.service.events import Offered, TaskDropped
from opportune.service.idempotency import KeyMemory
from opportune.service.journal import Journal
from opportune.service.loading import load_pool
from opportune.service.notes import decode_note, is_note
from opportune.service.plan_parts import whole_event
from opportune.service.state import capacity_mismatch, empty_state
from opportune.service.storing import state_hash

NAMED = 10
"""Different decisions that are named."""


@dataclass
class Replay:
    """What a replay found.

    Attributes:
        pool: Which pool.
        records, events, decisions: How many there are.
        different: Decisions that the engine would not make again.
        state_hash: Of the state after the last record.
        capacity_mismatch: Of that state.
        problems: What is wrong.
    """

    pool: str
    records: int = 0
    events: int = 0
    decisions: int = 0
    different: int = 0
    state_hash: str = ""
    capacity_mismatch: int = 0
    problems: list[Problem] = field(default_factory=list)


def replay(journal: Journal, pool: str) -> Replay:
    """Make every decision of a pool again, and compare the end with what a restart would read.

    Raises:
        JournalError: If a record is damaged.
        msgspec.DecodeError: If a record is none of ours.
    """
    found = Replay(pool)
    state = empty_state(pool)
    for sequence, record in journal.read(pool):
        found.records += 1
        if is_note(record):
            decode_note(record)
            continue
        event = whole_event(events.decode(record), journal, pool)
        found.events += 1
        if isinstance(event, Offered | TaskDropped):
            found.decisions += 1
            if not verify(state, event):
                found.different += 1
                if found.different <= NAMED:
                    told = f"decision {event.decision} of pool {pool!r} (record {sequence})"
                    found.problems.append(Problem("decision", told, "the same decision again"))
        apply(state, event)
    found.state_hash = state_hash(state)
    found.capacity_mismatch = int(capacity_mismatch(state))
    if found.capacity_mismatch:
        told = f"{found.capacity_mismatch} in pool {pool!r}"
        found.problems.append(Problem("capacity_mismatch", told, "0"))
    restarted = load_pool(journal, pool, KeyMemory(0))
    if state_hash(restarted.state) != found.state_hash:
        told = f"of record {restarted.snapshot_at} of pool {pool!r} leads elsewhere"
        found.problems.append(Problem("snapshot", told, "the state that the records lead to"))
    return found
