"""The database that a page means by ``$DATABASE``: the tests' PostgreSQL, or one of its own."""

from __future__ import annotations

import os
from functools import cache

import psycopg

from tests.service.postgres_server import new_server

VARIABLE = "$DATABASE"
GIVEN = "OPPORTUNE_TEST_POSTGRES"


@cache
def _url() -> str:
    return os.environ.get(GIVEN, "") or str(new_server()[0].get_uri())


def empty_database() -> str:
    """Its URL; nothing of an earlier page is left in it."""
    with psycopg.connect(_url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS opportune CASCADE")
    return _url()
