"""Frames: records that were appended together, as the journals on storage keep them.

A frame is one row, so a commit is one statement however many records it holds. Its bytes are a
MessagePack array of binaries, with a CRC-32 beside them, so that damage is found and not replayed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import msgspec

from opportune.errors import Problem
from opportune.service.journal import Append, JournalError, Record

FRAMES_AT_ONCE = 256
"""Frames read by one query."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode

Frame = tuple[int, bytes, int]
"""Number of the first record, bytes, checksum."""


@dataclass
class Job:
    """Something for a writer thread: an append, or a call between two commits."""

    future: Future[Any]
    append: Append | None = None
    call: Callable[[], Any] | None = None


def pack(records: Sequence[bytes]) -> tuple[bytes, int]:
    """Bytes and checksum of a frame."""
    data = _encode(records)
    return data, zlib.crc32(data)


def unpack(pool: str, frame: Frame) -> list[bytes]:
    """The records of a frame.

    Raises:
        JournalError: If it is damaged.
    """
    first, data, checksum = frame
    if zlib.crc32(data) == checksum:
        try:
            return _decode(data)
        except msgspec.MsgspecError:
            pass
    raise damaged_error(pool, first)


def read_frames(
    pool: str, after: int, end: int, ask: Callable[[int, int], Iterable[Frame]]
) -> Iterator[Record]:
    """Records behind number ``after`` up to ``end``, a few frames at a time.

    Args:
        pool: Whose.
        after: The last number that is not wanted.
        end: The last one that is.
        ask: The next frames in order, from the one that holds a record of this number, at most
            so many.

    Raises:
        JournalError: If a frame is damaged or missing.
    """
    while after < end:
        start = after
        for frame in ask(after + 1, min(FRAMES_AT_ONCE, end - after)):
            if frame[0] > after + 1:
                raise damaged_error(pool, after + 1)
            for sequence, record in enumerate(unpack(pool, frame), frame[0]):
                if after < sequence <= end:
                    after = sequence
                    yield Record(sequence, record)
            if after == end:
                return
        if after == start:
            raise damaged_error(pool, after + 1)


def damaged_error(pool: str, first: int) -> JournalError:
    """The error of records that are not what was written."""
    return JournalError(
        Problem(
            "journal",
            f"the records of pool {pool!r} from {first} on are damaged or missing",
            "the bytes that were written",
            "restore a backup",
        )
    )


def closed_error() -> JournalError:
    """The error of a journal that is closed."""
    return JournalError(Problem("journal", "closed", "an open one"))
