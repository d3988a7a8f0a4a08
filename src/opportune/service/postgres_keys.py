"""API keys of several nodes: in the database that their journal is in.

A node asks for them together with its heartbeat (``membership``), so that no request waits for the
database; a revoked key ends on all nodes within a second. While the database is away, the keys are
those that were there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opportune.errors import InputError, Problem
from opportune.service.journal import JournalError
from opportune.service.keys import ApiKey, Keys
from opportune.service.postgres import PostgresJournal
from opportune.service.postgres_reading import shown

ALL_KEYS = "SELECT prefix, digest, scopes, note, created FROM api_key ORDER BY created, prefix"


class PostgresKeys(Keys):
    """The keys of an installation of several nodes.

    Args:
        journal: In whose database they are.

    Raises:
        InputError: If they cannot be read.
    """

    def __init__(self, journal: PostgresJournal) -> None:
        super().__init__()
        self._journal = journal
        self._read()

    @property
    def place(self) -> str:
        """The database."""
        return shown(self._journal.url)

    def _have_changed(self) -> bool:
        return False  # the node's heartbeat brings them

    def took(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """The rows of ``ALL_KEYS``, read by somebody else."""
        self._keys = {
            prefix: ApiKey(
                prefix=prefix, digest=digest, scopes=list(scopes), note=note, created=created
            )
            for prefix, digest, scopes, note, created in rows
        }

    def _read(self) -> None:
        self.took(self._ask(ALL_KEYS))

    def _add(self, key: ApiKey) -> None:
        self._ask(
            "INSERT INTO api_key VALUES (%s, %s, %s, %s, %s) RETURNING prefix",
            (key.prefix, key.digest, key.scopes, key.note, key.created),
        )
        self._read()

    def _remove(self, prefix: str) -> None:
        self._ask("DELETE FROM api_key WHERE prefix = %s RETURNING prefix", (prefix,))
        self._read()

    def _ask(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._journal.ask(query, values)
        except JournalError as error:
            told = Problem("--database", self.place, "a database that answers", str(error))
            raise InputError(told) from error
