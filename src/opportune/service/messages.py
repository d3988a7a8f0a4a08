"""Messages between a node and its pricing process: a kind and some buffers, through a pipe.

Both ends are this program, so what is in a message is pickled. Arrays go beside the pickle: neither
end copies them while it holds the interpreter's lock.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from io import FileIO

import numpy as np

JOB, PROGRESS, DONE, FAILED, WRONG = range(5)
"""To the process: a job. From it: how far it is; a plan; why there is none; a fault."""

_HEAD = struct.Struct("<BI")

Parts = list[memoryview]
"""Buffers as they are received."""


def send(pipe: FileIO, kind: int, parts: Sequence[bytes | memoryview]) -> None:
    """Write a message.

    Raises:
        OSError: If nobody reads it any more.
    """
    sizes = [memoryview(part).nbytes for part in parts]
    head = _HEAD.pack(kind, len(parts)) + struct.pack(f"<{len(parts)}Q", *sizes)
    for part in (head, *parts):
        rest = memoryview(part).cast("B")
        while rest:
            rest = rest[pipe.write(rest) or 0 :]


def receive(pipe: FileIO) -> tuple[int, Parts]:
    """Read a message: kind and buffers.

    Raises:
        EOFError: If the other end is closed.
    """
    kind, n = _HEAD.unpack(_read(pipe, _HEAD.size))
    sizes = struct.unpack(f"<{n}Q", _read(pipe, 8 * n))
    return int(kind), [_read(pipe, size) for size in sizes]


def _read(pipe: FileIO, size: int) -> memoryview:
    found = rest = np.empty(size, dtype=np.uint8).data  # not filled with zeros first
    while rest:
        n = pipe.readinto(rest)
        if not n:
            raise EOFError
        rest = rest[n:]
    return found
