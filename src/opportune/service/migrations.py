"""The schema of a SQLite journal, as the steps that lead to it.

``PRAGMA user_version`` counts the steps a file has gone through; opening a file runs those that
are missing, each in one transaction. A released step is never changed: a new schema is a new step.
A file of a later release is refused instead of being guessed at.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from opportune.errors import InputError, Problem

APPLICATION = 0x4F505054
"""``PRAGMA application_id``: "OPPT", so that no other program's database is taken for ours."""

Step = str | Callable[[apsw.Connection], None]
"""SQL, or a function where SQL does not do."""

TABLES = """
CREATE TABLE pool (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token INTEGER NOT NULL              -- fencing token of the present owner
) STRICT;
CREATE TABLE frame (                    -- records that were appended together
    id INTEGER PRIMARY KEY,
    pool INTEGER NOT NULL REFERENCES pool,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    data BLOB NOT NULL                  -- MessagePack array of binaries
) STRICT;
CREATE UNIQUE INDEX frame_of_pool ON frame (pool, first);
CREATE TABLE snapshot (
    pool INTEGER NOT NULL REFERENCES pool,
    sequence INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (pool, sequence)
) STRICT;
"""


def add_checksums(connection: apsw.Connection) -> None:
    """Step 2: a CRC-32 beside every blob, so that damage is found and not replayed."""
    for table in ("frame", "snapshot"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.create_scalar_function("crc32", _checksum, 1, deterministic=True)
    for table in ("frame", "snapshot"):
        connection.execute(f"UPDATE {table} SET checksum = crc32(data)")
    connection.create_scalar_function("crc32", None, 1)


def _checksum(*values: Any) -> int:
    return zlib.crc32(values[0])


PARTS = "SELECT 1"
"""Step 3 changes no table: large plans are in parts from now on (``plan_parts``), which an earlier
release would read as plans without tables."""

STEPS: tuple[Step, ...] = (TABLES, add_checksums, PARTS)
"""Step 1, step 2, ..."""


def schema_version(connection: apsw.Connection) -> int:
    """How many steps a file has gone through; 0 for an empty one."""
    return int(connection.pragma("user_version"))


def migrate(connection: apsw.Connection, name: str, steps: Sequence[Step] = STEPS) -> int:
    """Bring a file to the present schema; returns how many steps were run.

    Args:
        connection: Open for writing, outside a transaction.
        name: Of the file, for messages.
        steps: The schema's steps.

    Raises:
        InputError: If the file belongs to another program or to a later release.
    """
    version, application = schema_version(connection), connection.pragma("application_id")
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").get:
        raise _foreign(name)
    if version > 0 and application != APPLICATION:
        raise _foreign(name)
    if version > len(steps):
        raise InputError(
            Problem(
                "--database",
                f"{name} has schema {version}",
                f"at most {len(steps)}",
                "open it with the release that wrote it, or a later one",
            )
        )
    for number, step in enumerate(steps[version:], start=version + 1):
        with connection:
            if isinstance(step, str):
                for _ in connection.execute(step):
                    continue
            else:
                step(connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {number}")
    return len(steps) - version


def _foreign(name: str) -> InputError:
    return InputError(
        Problem("--database", name, "a journal of opportune, or no file", "choose another path")
    )
