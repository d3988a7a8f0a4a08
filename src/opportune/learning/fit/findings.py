"""Oddities of a log: each kind is one finding, told with its count, its place and its treatment.

Nothing is mended silently. A row that cannot be used is refused together with all the others,
or left out where the caller says so; what is merely odd is used and told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.spelling import counted

FIRST_LINES = 3
"""Lines named of a finding; the count tells of the others."""


@dataclass(frozen=True)
class Finding:
    """One kind of oddity.

    Attributes:
        what: What is odd, in words.
        rows: How many rows have it.
        lines: Lines of the file of the first of them.
        treatment: What was done about it.
    """

    what: str
    rows: int
    lines: tuple[int, ...]
    treatment: str

    def __str__(self) -> str:
        where = f" (line {', '.join(map(str, self.lines))}{', ...' * self.has_more})"
        return f"{self.what}: {counted(self.rows, 'row')}{where * bool(self.lines)}; " + (
            self.treatment
        )

    @property
    def has_more(self) -> bool:
        """Whether there are rows whose line is not named."""
        return self.rows > len(self.lines)


@dataclass
class Findings:
    """What was found in a file so far.

    Attributes:
        file: Name of the file, for messages.
        lines: (n,) line of each row.
        found: The findings, in order.
        bad: Problems of rows that cannot be used, and which rows they are.
    """

    file: str
    lines: NDArray[np.int64]
    found: list[Finding] = field(default_factory=list)
    bad: list[tuple[Problem, NDArray[np.bool_]]] = field(default_factory=list)

    def note(self, what: str, rows: NDArray[np.bool_], treatment: str) -> None:
        """Tell of rows that are odd; nothing if there are none."""
        if rows.any():
            first = tuple(int(line) for line in self.lines[rows][:FIRST_LINES])
            self.found.append(Finding(what, int(rows.sum()), first, treatment))

    def refuse(
        self,
        column: str,
        what: str,
        rows: NDArray[np.bool_],
        told: tuple[str, str],
        cells: Sequence[object] | NDArray[Any] | None = None,
    ) -> None:
        """Rows that cannot be used; nothing if there are none.

        Args:
            column: Role or column that is wrong in them.
            what: What is wrong.
            rows: (n,) which rows.
            told: What was expected, and the remedy.
            cells: (n,) what the column holds; the first bad one is told.
        """
        if rows.any():
            first = ", ".join(map(str, self.lines[rows][:FIRST_LINES]))
            more = ", ..." if int(rows.sum()) > FIRST_LINES else ""
            value = (
                f"{what} in {counted(int(rows.sum()), 'row')} of {self.file}: line {first}{more}"
            )
            if cells is not None:
                held = shorten(cells[int(np.flatnonzero(rows)[0])])
                value += f" holds {held}" if int(rows.sum()) == 1 else f"; the first holds {held}"
            self.bad.append((Problem(f"log.{column}", value, told[0], told[1]), rows))

    def usable(self, drop: bool) -> NDArray[np.bool_]:
        """(n,) rows without a problem.

        Args:
            drop: Whether bad rows are left out, each kind with a finding.

        Raises:
            InputError: All problems together, if there are any and ``drop`` is false.
        """
        if self.bad and not drop:
            remedy = "correct them, or --bad-rows drop leaves them out and says so"
            raise InputError(
                Problem(one.field, one.value, one.expected, one.remedy or remedy)
                for one, _ in self.bad
            )
        keep = np.ones(len(self.lines), dtype=np.bool_)
        for problem, rows in self.bad:
            what = f"{problem.field.removeprefix('log.')}: {problem.value.split(' in ')[0]}"
            self.note(what, rows, "left out")
            keep &= ~rows
        self.bad.clear()
        return keep


def joined(findings: Sequence[Finding]) -> list[str]:
    """The findings as lines."""
    return [str(one) for one in findings]
