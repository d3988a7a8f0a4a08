"""The cells of a log by role: as names, numbers or times; what cannot be read is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.learning.fit.clock import Times, read_times
from opportune.learning.fit.findings import Findings
from opportune.model.tables import WORDS, Sheet, is_empty, number

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

LARGEST = 1e15
"""Times and durations beyond are refused: whole numbers stay exact below."""

LARGEST_VALUE = 1e50
"""Outcomes and contexts beyond are refused: their squares must be numbers, too."""

CONTEXT = "context "
"""Begins the role of a column of contexts; its name follows."""

RECORDED = "every outcome "
"""Begins the role of a column with the outcome of one server; the server's name follows."""

WAIT = "wait "
"""Begins the role of a column with a part of the wait before the service; its name follows."""


@dataclass
class Reader:
    """A sheet, where its columns are, and what was found in it so far."""

    sheet: Sheet
    places: Mapping[str, int]
    findings: Findings
    day: float | None = None
    """Units in a day where times are clocks, which then may be written as such."""
    zoned: dict[str, bool] = field(default_factory=dict)
    """Role of a column of dates and times -> whether they have an offset from UTC."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.sheet.rows)

    def cells(self, role: str) -> list[Any]:
        """The cells of a role's column, empty ones without it."""
        if role not in self.places:
            return [""] * self.n
        return [row[self.places[role]] for row in self.sheet.rows]

    def filled(self, role: str) -> Bool:
        """(n,) whether the cell of a role holds something."""
        return np.array([not is_empty(cell) for cell in self.cells(role)], dtype=np.bool_)

    def names(self, role: str) -> list[str] | None:
        """The cells of a role as names; names with blanks around them are refused."""
        if role not in self.places:
            return None
        texts = [_name(cell) for cell in self.cells(role)]
        blank = np.array([text != text.strip() for text in texts], dtype=np.bool_)
        remedy = "blanks make two spellings of one name: remove them"
        told = ("names without leading or trailing blanks", remedy)
        self.findings.refuse(role, "blanks around a name", blank, told, texts)
        return texts

    def numbers(self, role: str) -> Float:
        """The cells of a role as numbers, NaN where empty or unreadable; the latter refused."""
        value = np.full(self.n, np.nan)
        bad = np.zeros(self.n, dtype=np.bool_)
        for i, cell in enumerate(self.cells(role)):
            if is_empty(cell):
                continue
            found = number(cell)
            if found is None and isinstance(cell, str):
                found = WORDS.get(cell.strip().lower())
            bad[i] = found is None or not abs(found) <= LARGEST_VALUE
            value[i] = np.nan if bad[i] or found is None else found
        told = (f"a number within {LARGEST_VALUE:g}, or an empty cell", "")
        column = role.removeprefix(CONTEXT).removeprefix(RECORDED).removeprefix(WAIT)
        self.findings.refuse(column, "no such number", bad, told, self.cells(role))
        return value

    def times(self, role: str) -> Times:
        """The cells of a role as times, those that cannot be read refused."""
        clocks = None if role == "date" else self.day
        found = read_times(self.cells(role), clocks)
        expected = (
            "a number or an ISO date and time, the same kind in all rows, with an offset from UTC "
            "in all or in none"
        )
        if clocks is not None:
            expected = "a number or a clock such as 8:05:30"
        self.findings.refuse(role, "no time", found.bad, (expected, ""), self.cells(role))
        self.refuse_large(role, found.value)
        if found.dated:
            self._refuse_other_zone(role, found)
        return found

    def _refuse_other_zone(self, role: str, found: Times) -> None:
        """Refuse dates that have an offset from UTC where those of another column have none."""
        self.zoned[role] = found.zoned
        first = next(iter(self.zoned))
        words = {True: "an offset from UTC", False: "no offset from UTC"}
        if found.zoned != self.zoned[first]:
            told = (f"{words[self.zoned[first]]}, as in the column of '{first}'", "")
            rows = ~np.isnan(found.value)
            self.findings.refuse(role, words[found.zoned], rows, told, self.cells(role))

    def refuse_large(self, role: str, value: Float) -> None:
        """Refuse times and durations that no clock shows."""
        told = (f"times within {LARGEST:g} units", "is the unit of time the right one?")
        self.findings.refuse(role, "too large a number", np.abs(value) > LARGEST, told, value)


def _name(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if is_empty(cell) else str(cell)
