"""The schema of a PostgreSQL journal, as the steps that lead to it.

A table counts the steps that a schema has gone through; opening a journal runs those that are
missing, all in one transaction, while other nodes that start wait. A released step is never
changed: a new schema is a new step. A schema of a later release is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import psycopg
from psycopg import sql

from opportune.errors import InputError, Problem

LOCK = 0x4F505054
"""Advisory lock of a migration: "OPPT"."""

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

TABLES = """
CREATE TABLE pool (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token BIGINT NOT NULL,              -- fencing token of the present owner
    last BIGINT NOT NULL DEFAULT 0      -- number of the last record
);
CREATE TABLE frame (                    -- records that were appended together
    pool BIGINT NOT NULL REFERENCES pool,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    token BIGINT NOT NULL,              -- of the owner who wrote it
    data BYTEA NOT NULL,                -- MessagePack array of binaries
    checksum BIGINT NOT NULL,           -- CRC-32 of data
    PRIMARY KEY (pool, first)
);
CREATE TABLE snapshot (
    pool BIGINT NOT NULL REFERENCES pool,
    sequence BIGINT NOT NULL,
    data BYTEA NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (pool, sequence)
);
"""

LEASES = """
ALTER TABLE pool
    ADD COLUMN node TEXT,               -- who holds the lease, NULL without one
    ADD COLUMN address TEXT,            -- where it answers
    ADD COLUMN lease_until TIMESTAMPTZ; -- by the clock of the database, NULL without a lease
"""

NODES = """
CREATE TABLE node (                     -- the nodes that run
    name TEXT PRIMARY KEY,
    address TEXT NOT NULL,              -- where it answers
    lease_until TIMESTAMPTZ NOT NULL    -- by the clock of the database
);
CREATE TABLE api_key (
    prefix TEXT PRIMARY KEY,
    digest TEXT NOT NULL,               -- SHA-256 of the secret
    scopes TEXT[] NOT NULL,
    note TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL   -- seconds
);
CREATE TABLE installation (
    secret TEXT NOT NULL                -- what nodes show one another when they forward
);
INSERT INTO installation VALUES (replace(gen_random_uuid()::text || gen_random_uuid(), '-', ''));
"""

PARTS = "SELECT 1"
"""No table changes: large plans are in parts from now on (``plan_parts``), which an earlier release
would read as plans without tables."""

STEPS: tuple[str, ...] = (TABLES, LEASES, NODES, PARTS)
"""Step 1, step 2, ..."""


def check_name(schema: str) -> None:
    """Check that a schema's name is a plain word.

    Raises:
        InputError: If it is not.
    """
    if not NAME.fullmatch(schema):
        raise InputError(Problem("schema", repr(schema), "small letters, digits and _"))


def migrate(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, steps: Sequence[str] = STEPS
) -> int:
    """Bring a schema to the present version; returns how many steps were run.

    Args:
        connection: Open for writing, in autocommit mode.
        schema: Name of the schema, made if it is not there.
        steps: The schema's steps.

    Raises:
        InputError: If the schema belongs to another program or to a later release.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        version = schema_version(connection, schema)
        if version is None:
            raise InputError(
                Problem("schema", schema, "a journal of opportune, or no schema", "choose another")
            )
        if version > len(steps):
            raise InputError(
                Problem(
                    "--database",
                    f"schema {schema} has version {version}",
                    f"at most {len(steps)}",
                    "open it with the release that wrote it, or a later one",
                )
            )
        name = sql.Identifier(schema)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
        if version == 0:
            connection.execute("CREATE TABLE schema_version (steps BIGINT NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (0)")
        for step in steps[version:]:
            connection.execute(step.encode())
        connection.execute("UPDATE schema_version SET steps = %s", (len(steps),))
    return len(steps) - version


def schema_version(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> int | None:
    """Steps that a schema has gone through: 0 if it is empty or not there, None if not ours."""
    found = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)
    ).fetchall()
    tables = {str(row[0]) for row in found}
    if not tables:
        return 0
    if not {"schema_version", "pool", "frame", "snapshot"} <= tables:
        return None
    query = sql.SQL("SELECT steps FROM {}.schema_version").format(sql.Identifier(schema))
    row = connection.execute(query).fetchone()
    return None if row is None else int(str(row[0]))
