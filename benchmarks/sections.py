"""A section measures one kind of work. Every module beside this one with a ``SECTION`` is one.

To add a section: put a file into ``benchmarks/`` with ``SECTION = Section(...)``; it is found
by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import benchmarks


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        quick: Small sizes and few rounds: all sections together in under 20 seconds.
        rounds: Rounds of every job, None for the section's own number.
    """

    quick: bool = False
    rounds: int | None = None

    def choose(self, full: int, quick: int) -> int:
        """A size that depends on ``quick`` alone."""
        return quick if self.quick else full

    def n_rounds(self, full: int, quick: int) -> int:
        """The number of rounds: as asked for, or the section's own."""
        return self.choose(full, quick) if self.rounds is None else self.rounds


@dataclass(frozen=True)
class Target:
    """What a median should reach: at least ``value``, or at most."""

    value: float
    at_most: bool = False

    def met_by(self, median: float) -> bool:
        """Whether a median reaches it."""
        return median <= self.value if self.at_most else median >= self.value

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.value:g}"


@dataclass(frozen=True)
class Row:
    """One line of a section's table.

    Attributes:
        label: What was measured.
        unit: Of the values; ``x`` for a ratio.
        values: One per round.
        target: What the median should reach, if DESIGN.md or an issue says so.
    """

    label: str
    unit: str
    values: tuple[float, ...]
    target: Target | None = None

    @property
    def median(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the target; None without one."""
        return None if self.target is None else self.target.met_by(self.median)


@dataclass(frozen=True)
class Report:
    """What a section found: its rows, and what a reader must know to trust them."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


Say = Callable[[str], None]
"""Tells the user what is being measured now."""


@dataclass(frozen=True)
class Section:
    """One kind of work: ``python -m benchmarks NAME`` runs it alone.

    Attributes:
        name: One word.
        title: One line.
        rank: Sections run and print in this order.
        measure: Measures and returns the report.
    """

    name: str
    title: str
    rank: int
    measure: Callable[[Effort, Say], Report]


def sections_by_name() -> dict[str, Section]:
    """Every section of the folder, in the order of their ranks."""
    found: dict[str, Section] = {}
    for module_info in pkgutil.iter_modules(benchmarks.__path__):
        if module_info.ispkg or module_info.name == "__main__":
            continue
        module = importlib.import_module(f"benchmarks.{module_info.name}")
        section = getattr(module, "SECTION", None)
        if isinstance(section, Section):
            if section.name in found:
                raise ValueError(f"two sections have the name {section.name!r}")
            found[section.name] = section
    return dict(sorted(found.items(), key=lambda item: item[1].rank))
