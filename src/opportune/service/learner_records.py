"""Journal records as the learner reads them: only the fields it needs, so that most is skipped.

The structs stand for the events of the same name (``events``); unknown fields are ignored when a
record is read, and an event that the learner does not need is one with a time only. That all of
it reads the same as the full events is tested.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, get_args

import msgspec
from msgspec import Struct

from opportune.service import events


class Record(Struct, frozen=True, kw_only=True, gc=False):
    """Base of all of them."""

    time: float


class Pick(Struct, frozen=True, gc=False):
    """A server that was picked."""

    server: str
    propensity: float = 0.0


class Reasons(Struct, frozen=True, kw_only=True, gc=False):
    """Why."""

    n_free: int = 0
    explored: bool = False
    given_up: float = 0.0


class Offered(Record, frozen=True, tag="Offered"):
    """A decision."""

    task: int
    picks: list[Pick]
    why: Reasons
    accepted: bool


class TaskDropped(Record, frozen=True, tag="TaskDropped"):
    """A drop."""

    task: int


class SlotsMoved(Record, frozen=True, tag="SlotsMoved"):
    """Slots changed their state."""

    task: int
    servers: list[str]
    state: str


FULL = (
    events.PoolPut,
    events.TaskTypePut,
    events.ServerPut,
    events.TaskCreated,
    events.TaskStarted,
    events.TaskEnded,
    events.OutcomeReported,
)
"""Events that are read as they are."""

SLIM = (Offered, TaskDropped, SlotsMoved)

_known = {kind.__name__ for kind in (*FULL, *SLIM)}
_REST: list[Any] = [
    msgspec.defstruct(kind.__name__, [], bases=(Record,), frozen=True, tag=kind.__name__)
    for kind in get_args(events.AnyEvent)
    if kind.__name__ not in _known
]
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    reduce(or_, (*FULL, *SLIM, *_REST))
)


def decode(record: bytes) -> Any:
    """What the learner needs of a journal record.

    Raises:
        msgspec.DecodeError: If it is no event.
    """
    return _DECODER.decode(record)
