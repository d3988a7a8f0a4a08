"""Migrations of a PostgreSQL journal: from empty, from every version, together, and refusals."""

from __future__ import annotations

import hashlib
import threading
import zlib
from pathlib import Path
from typing import Any

import psycopg
import pytest

from opportune.errors import InputError
from opportune.service.leases import PoolLeases
from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_schema import STEPS, migrate, schema_version
from tests.service.database import execute, postgres_url, schema_of
from tests.service.journals import written


def raw() -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(postgres_url(), autocommit=True)


def test_an_empty_schema_goes_through_all_steps_once(schema: str) -> None:
    with raw() as connection:
        assert schema_version(connection, schema) == 0
        assert migrate(connection, schema) == len(STEPS)
        assert schema_version(connection, schema) == len(STEPS)
        assert migrate(connection, schema) == 0


@pytest.mark.parametrize("version", range(1, len(STEPS)))
def test_a_journal_of_an_earlier_version_keeps_everything(schema: str, version: int) -> None:
    with raw() as connection:
        assert migrate(connection, schema, STEPS[:version]) == version
    packed = b"\x92\xc4\x011\xc4\x012"  # MessagePack of [b"1", b"2"]
    execute("INSERT INTO pool (name, token, last) VALUES ('a', 7, 2)", schema=schema)
    row = (packed, zlib.crc32(packed))
    execute("INSERT INTO frame VALUES (1, 1, 2, 7, %s, %s)", *row, schema=schema)
    journal = PostgresJournal(postgres_url(), schema=schema)
    assert journal.migrated == len(STEPS) - version
    assert journal.last("a") == 2
    assert [record.data for record in journal.read("a")] == [b"1", b"2"]
    token = PoolLeases(journal, "one", "", 60.0).take("a")
    assert token == 8
    written(journal, "a", token, b"3")
    assert journal.check() == ()
    journal.close()


def test_both_ways_lead_to_the_same_schema(tmp_path: Path) -> None:
    first, second = schema_of(tmp_path / "a"), schema_of(tmp_path / "b")
    with raw() as connection:
        migrate(connection, first)
        for version in range(1, len(STEPS) + 1):
            migrate(connection, second, STEPS[:version])
    columns = [
        execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM "
            "information_schema.columns WHERE table_schema = %s ORDER BY 1, 2",
            schema,
        )
        for schema in (first, second)
    ]
    assert columns[0] == columns[1]
    assert ("pool", "lease_until", "timestamp with time zone", "YES") in columns[0]


def test_a_step_that_fails_leaves_the_schema_as_it_was(schema: str) -> None:
    with raw() as connection:
        migrate(connection, schema, STEPS[:1])
        with pytest.raises(psycopg.Error):
            migrate(connection, schema, (*STEPS[:1], "CREATE TABLE extra (x INT); SELECT 1/0"))
        assert schema_version(connection, schema) == 1
        assert migrate(connection, schema) == len(STEPS) - 1


def test_nodes_that_start_together_migrate_once(schema: str) -> None:
    done: list[int] = []

    def start() -> None:
        journal = PostgresJournal(postgres_url(), schema=schema)
        done.append(journal.migrated)
        journal.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 0, 0, len(STEPS)]


def test_a_later_version_a_foreign_schema_and_a_bad_name_are_refused(schema: str) -> None:
    PostgresJournal(postgres_url(), schema=schema).close()
    execute("UPDATE schema_version SET steps = 99", schema=schema)
    with pytest.raises(InputError, match="has version 99"):
        PostgresJournal(postgres_url(), schema=schema)
    execute(f"CREATE SCHEMA {schema}_x")
    execute("CREATE TABLE pool (x INT)", schema=f"{schema}_x")
    with pytest.raises(InputError, match="a journal of opportune, or no schema"):
        PostgresJournal(postgres_url(), schema=f"{schema}_x")
    with pytest.raises(InputError, match="small letters"):
        PostgresJournal(postgres_url(), schema='x"; DROP SCHEMA public')


def test_released_steps_are_never_changed() -> None:
    """A changed step needs a new one: databases out there have gone through the old one."""
    digests = [hashlib.sha256(step.encode()).hexdigest()[:16] for step in STEPS]
    assert digests == [
        "8a771be2793b0e8b",
        "a1e436fff8455970",
        "c392e45ae66be561",
        "e004ebd5b5532a4b",
    ]
