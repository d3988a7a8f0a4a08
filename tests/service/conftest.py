"""Fixtures of the tests with a database: a schema for a test, and two nodes on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opportune.service.postgres import PostgresJournal
from tests.service.database import postgres_url, schema_of


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return schema_of(tmp_path)


@pytest.fixture
def nodes(schema: str) -> Iterator[list[PostgresJournal]]:
    """Two nodes on one database."""
    opened = [PostgresJournal(postgres_url(), schema=schema, patience=30.0) for _ in range(2)]
    yield opened
    for journal in opened:
        journal.close()
