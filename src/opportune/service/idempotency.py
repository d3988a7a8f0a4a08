"""Idempotency keys: the same request twice is done once, also across a restart.

A key belongs to its caller. The reply is written into the pool's journal together with the events
that it acknowledges; in memory there is only where. Same key with another request is refused (422),
with one that is still running too (409).
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from msgspec import Struct

KEY_LENGTH = 255
"""Most characters of a key."""


class Ticket(NamedTuple):
    """A request with a key.

    Attributes:
        key: Hash of the caller and the key.
        fingerprint: Hash of method, path and body.
    """

    key: bytes
    fingerprint: bytes


def ticket(caller: str, key: str, target: bytes, body: bytes) -> Ticket:
    """The ticket of a request.

    Args:
        caller: Who asks: a key of one caller is not the key of another.
        key: As given.
        target: Method and path.
        body: As received.
    """
    named = hashlib.blake2b(f"{caller}\n{key}".encode(), digest_size=16)
    asked = hashlib.blake2b(target + b"\n" + body, digest_size=16)
    return Ticket(named.digest(), asked.digest())


class Known(Struct, array_like=True):
    """What is known of a key.

    Attributes:
        key: Its hash.
        fingerprint: Of its request.
        sequence: Record with the reply; 0 as long as that is not known.
        time: When it was used, in seconds.
    """

    key: bytes
    fingerprint: bytes
    sequence: int
    time: float


class KeyMemory:
    """The keys of a pool, oldest first; at most ``most`` and none older than ``seconds``."""

    def __init__(self, most: int = 100_000, seconds: float = 86_400.0) -> None:
        self.most = most
        self.seconds = seconds
        self._known: dict[bytes, Known] = {}
        self._running: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: bytes) -> Known | None:
        """What is known of a key."""
        return self._known.get(key)

    def is_running(self, key: bytes) -> bool:
        """Whether the reply to its request is not on stable storage yet."""
        return key in self._running

    def begin(self, asked: Ticket, now: float) -> None:
        """A request with a new key starts."""
        self._known[asked.key] = Known(asked.key, asked.fingerprint, 0, now)
        self._running.add(asked.key)

    def place(self, key: bytes, sequence: int) -> None:
        """Its reply is going to be in this record."""
        self._known[key].sequence = sequence

    def finish(self, key: bytes) -> None:
        """Its reply is on stable storage."""
        self._running.discard(key)
        known = self._known.get(key)
        if known is not None:
            self._forget(known.time)

    def forget(self, key: bytes) -> None:
        """Nothing came of the request: it may be tried again."""
        self._running.discard(key)
        self._known.pop(key, None)

    def load(self, known: Known) -> None:
        """A key read back from the journal."""
        self._known.pop(known.key, None)
        self._known[known.key] = known

    def dump(self) -> list[Known]:
        """The keys whose replies are in a record."""
        return [known for known in self._known.values() if known.sequence]

    def _forget(self, now: float) -> None:
        """Drop what is too old or too much."""
        while self._known:
            oldest = next(iter(self._known.values()))
            if len(self._known) <= self.most and oldest.time >= now - self.seconds:
                return
            if oldest.key in self._running:
                return
            del self._known[oldest.key]
