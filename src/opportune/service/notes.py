"""What the service writes into a pool's stream beside the engine's events.

A note is told from an event by its first byte, which no MessagePack value begins with. It is
written in the same append as the events it belongs to: after a crash both are there, or neither.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

MARK = b"\xc1"
"""Never used by MessagePack."""


class Remembered(Struct, frozen=True, tag="remembered", omit_defaults=True):
    """The reply to a request with an idempotency key.

    Attributes:
        time: When, in seconds.
        key: Hash of the caller and the key.
        fingerprint: Hash of the request.
        status, body, headers, media_type: The reply.
    """

    time: float
    key: bytes
    fingerprint: bytes
    status: int
    body: bytes
    headers: dict[str, str] = {}
    media_type: str = "application/json"


class Audited(Struct, frozen=True, tag="audited", omit_defaults=True):
    """Something that an administrator did.

    Attributes:
        time: When, in seconds.
        who: Prefix of the API key, or ``local``.
        action: Method and path.
        remote: Address that it came from.
        status: HTTP status of the reply.
    """

    time: float
    who: str
    action: str
    remote: str = ""
    status: int = 0


class PlanPart(Struct, frozen=True, tag="part"):
    """A part of a plan's tables, written ahead of the event that stores the plan (``plan_parts``).

    Attributes:
        plan: Id of the plan.
        data: Bytes of one of its tables.
    """

    plan: str
    data: bytes


Note = Remembered | Audited | PlanPart

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Note] = msgspec.msgpack.Decoder(Note)


def encode_note(note: Note) -> bytes:
    """A note as a record."""
    return MARK + _ENCODER.encode(note)


def is_note(record: bytes) -> bool:
    """Whether a record is a note and no event."""
    return record[:1] == MARK


def decode_note(record: bytes) -> Note:
    """The note of a record.

    Raises:
        msgspec.DecodeError: If it is none.
    """
    return _DECODER.decode(memoryview(record)[1:])
