"""A pool as its journal has it: the latest snapshot, and every record behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import structlog

from opportune.errors import InputError
from opportune.service import events
from opportune.service.applying import apply
from opportune.service.idempotency import KeyMemory, Known
from opportune.service.journal import Journal, Snapshot
from opportune.service.notes import Audited, Remembered, decode_note, is_note
from opportune.service.plan_parts import join_plans, whole_event
from opportune.service.state import State, empty_state
from opportune.service.storing import restore, snapshot

AUDITS_KEPT = 1000
"""Actions of administrators that can be listed; the journal has all."""

_log = structlog.get_logger("loading")


class _Stored(msgspec.Struct, array_like=True):
    """A snapshot: the engine's state, and what the service remembers beside it."""

    state: bytes
    keys: list[Known]
    audits: list[Audited]
    learner: bytes = b""


@dataclass
class Loaded:
    """A pool in memory.

    Attributes:
        state: The engine's.
        keys: Its idempotency keys.
        audits: What administrators did, latest last, at most ``AUDITS_KEPT``.
        snapshot_at: Number of the last record in the snapshot it was read from.
        written: Number of the last record read.
        learner: The learner's latest checkpoint (``learner_counts``), for the next snapshot.
    """

    state: State
    keys: KeyMemory
    audits: list[Audited] = field(default_factory=list)
    snapshot_at: int = 0
    written: int = 0
    learner: bytes = b""

    def note(self, sequence: int, record: bytes) -> None:
        """Take in a note read from the journal."""
        note = decode_note(record)
        if isinstance(note, Remembered):
            self.keys.load(Known(note.key, note.fingerprint, sequence, note.time))
        elif isinstance(note, Audited):
            self.keep_audit(note)

    def keep_audit(self, note: Audited) -> None:
        """Remember an administrator's action."""
        self.audits.append(note)
        del self.audits[:-AUDITS_KEPT]

    def snapshot(self, sequence: int) -> Snapshot:
        """All of it as bytes; ``sequence`` is the last record that is in it."""
        stored = _Stored(snapshot(self.state), self.keys.dump(), self.audits, self.learner)
        return Snapshot(sequence, _ENCODER.encode(stored))


def load_pool(journal: Journal, pool: str, keys: KeyMemory, ahead: Loaded | None = None) -> Loaded:
    """Read a pool: snapshot and replay.

    Args:
        journal: Where it is written.
        pool: Its id.
        keys: Where its idempotency keys go.
        ahead: The pool as it was read before: only what was written since is read, into the same
            object. What the journal does not hold any more counts for nothing.

    Raises:
        JournalError: If a record is damaged or missing.
        msgspec.DecodeError: If a record is none of ours.
    """
    loaded = ahead
    if loaded is None or loaded.written > journal.last(pool):
        loaded = _from_snapshot(journal, pool, keys)
    state, decode = loaded.state, events.decode
    for sequence, record in journal.read(pool, loaded.written):
        if is_note(record):
            loaded.note(sequence, record)
        else:
            apply(state, whole_event(decode(record), journal, pool))
        loaded.written = sequence
    return loaded


def _from_snapshot(journal: Journal, pool: str, keys: KeyMemory) -> Loaded:
    """The latest snapshot, or the empty pool."""
    loaded = Loaded(empty_state(pool), keys)
    stored = journal.snapshot(pool)
    if stored is None:
        return loaded
    try:
        found = _DECODER.decode(stored.data)
        state = restore(found.state)
        join_plans(state, journal)
        loaded = Loaded(state, keys, found.audits, stored.sequence)
        loaded.learner = found.learner
    except (InputError, msgspec.DecodeError) as error:  # the records have it all
        _log.warning("snapshot not read", pool=pool, reason=str(error))
    else:
        for known in found.keys:
            keys.load(known)
    loaded.written = loaded.snapshot_at
    return loaded


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Stored)
