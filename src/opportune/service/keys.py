"""API keys: who may ask, and for what.

A key is ``opp_PREFIX_SECRET``: the prefix finds it, the secret has 256 bits. Only its SHA-256 is
kept, so reading what is kept lets nobody in. A key is shown once, when it is made. One node keeps
its keys in a file (JSON, readable by its owner only), several nodes in their database
(``postgres_keys``). A revoked key ends within a second.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
from msgspec import Struct

from opportune.errors import InputError, Problem
from opportune.service.file_lock import one_at_a_time

SCOPES = ("decide", "report", "read", "admin")
"""What a key may be for; ``admin`` may do all of it."""

BRAND = "opp"
"""What every key begins with, so that a scanner of repositories can find a leaked one."""

LOOK_AGAIN = 1.0
"""Seconds between two looks at what is kept."""

_log = structlog.get_logger("keys")


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key as it is stored.

    Attributes:
        prefix: Its public part.
        digest: SHA-256 of the secret, hexadecimal.
        scopes: What it is for.
        note: Whose it is, in words.
        created: When, in seconds.
    """

    prefix: str
    digest: str
    scopes: list[str]
    note: str = ""
    created: float = 0.0


class Caller(NamedTuple):
    """Who asks.

    Attributes:
        name: Prefix of the key, or ``local`` where no key is needed.
        scopes: What may be asked.
    """

    name: str
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        """Whether a request that needs a scope is allowed."""
        return scope in self.scopes or "admin" in self.scopes


LOCAL = Caller("local", frozenset(SCOPES))
"""The caller of a service without keys, which listens on this machine only."""

_DUMMY = hashlib.sha256(b"").hexdigest()


class Keys(ABC):
    """The keys of an installation, as they were last read."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._looked = 0.0

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """The keys, oldest first."""
        return tuple(self._keys.values())

    @property
    @abstractmethod
    def place(self) -> str:
        """Where they are kept, in words."""

    def create(self, scopes: Sequence[str], note: str = "") -> str:
        """Make a key and store it; the whole key, which is shown this once.

        Raises:
            InputError: If a scope is unknown or the key cannot be stored.
        """
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            told = ", ".join(unknown) or "none"
            raise InputError(Problem("--scope", told, "any of " + ", ".join(SCOPES)))
        if not note.isprintable():
            raise InputError(Problem("--note", repr(note), "printable text"))
        prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        self._add(
            ApiKey(
                prefix=prefix,
                digest=_digest(secret),
                scopes=[scope for scope in SCOPES if scope in scopes],
                note=note,
                created=time.time(),
            )
        )
        return f"{BRAND}_{prefix}_{secret}"

    def revoke(self, prefix: str) -> None:
        """Remove a key.

        Raises:
            InputError: If there is none with that prefix.
        """
        self._read()
        if prefix not in self._keys:
            known = ", ".join(self._keys) or "there are no keys"
            raise InputError(Problem("prefix", repr(prefix), f"the prefix of a key: {known}"))
        self._remove(prefix)

    def caller(self, key: str) -> Caller | None:
        """Who holds a key; None if it is no key of ours. Takes the same time for any secret."""
        brand, _, rest = key.partition("_")
        prefix, _, secret = rest.partition("_")
        stored = self._keys.get(prefix)
        expected = _DUMMY if stored is None else stored.digest
        same = hmac.compare_digest(_digest(secret), expected)
        if stored is None or brand != BRAND or not same:
            return None
        return Caller(stored.prefix, frozenset(stored.scopes))

    def look_again(self, now: float) -> None:
        """Read the keys if they have changed; looks at most once a second.

        While they cannot be read, the keys are those that were read last, and the log says so.

        Args:
            now: Seconds of a clock that never goes back.
        """
        if now - self._looked >= LOOK_AGAIN:
            self._looked = now
            if self._have_changed():
                try:
                    self._read()
                except InputError as error:
                    _log.error("the keys cannot be read: those read last hold", reason=str(error))

    @abstractmethod
    def _have_changed(self) -> bool: ...

    @abstractmethod
    def _read(self) -> None: ...

    @abstractmethod
    def _add(self, key: ApiKey) -> None: ...

    @abstractmethod
    def _remove(self, prefix: str) -> None: ...


class KeyFile(Keys):
    """The keys of an installation of one node, in a file.

    Args:
        path: The file; it need not exist.

    Raises:
        InputError: If it is there and cannot be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._read()

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def _have_changed(self) -> bool:
        return _stamp(self.path) != self._stamp

    def _read(self) -> None:
        stamp = _stamp(self.path)
        try:
            text = self.path.read_bytes() if self.path.exists() else b"[]"
            keys = msgspec.json.decode(text, type=list[ApiKey])
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                Problem("--keys", f"{self.path}: {error}", "a file written by `opportune keys`")
            ) from error
        self._keys, self._stamp = {key.prefix: key for key in keys}, stamp

    def _add(self, key: ApiKey) -> None:
        self._change(lambda keys: keys.update({key.prefix: key}))

    def _remove(self, prefix: str) -> None:
        self._change(lambda keys: keys.pop(prefix, None))

    def _change(self, change: Callable[[dict[str, ApiKey]], object]) -> None:
        """Change what is in the file now: another process may have just changed it, too."""
        try:
            with one_at_a_time(self.path):
                self._read()
                change(self._keys)
                self._write()
        except OSError as error:
            told = error.strerror or str(error)
            raise InputError(
                Problem("--keys", str(self.path), "a path to write to", told)
            ) from error

    def _write(self) -> None:
        """Replace the file in one step; nobody else may read it.

        Raises:
            OSError: If it cannot be written; the file is as it was.
        """
        text = msgspec.json.format(msgspec.json.encode(list(self._keys.values())), indent=1)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(text + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, self.path)
        finally:
            beside.unlink(missing_ok=True)
        self._stamp = _stamp(self.path)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file is replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
