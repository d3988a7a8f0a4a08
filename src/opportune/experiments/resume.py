"""Work in pieces that survive an interruption: each finished piece is a small file.

A file is named after a hash of what decides its content: the settings of the piece, the instance
itself, the code that computes and the versions of the numerical packages. A piece whose file is
there is not run again; one whose code, data or settings changed has another name. Files are
written to a temporary name and moved, so a file that is there is whole; a seal over its name and
result says so, and one that was edited, renamed or damaged is run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opportune.experiments.backends import Workers
from opportune.experiments.code_version import code_version
from opportune.experiments.settings import Progress, Settings
from opportune.experiments.workers import Watch as PieceWatch
from opportune.experiments.workers import run_pieces
from opportune.model.writing import put

Record = dict[str, Any]
"""Plain JSON: text, numbers, lists and dicts."""

Watch = Callable[[], None]
"""Called by a running piece now and then; raises if it is to stop."""


class Unit(Protocol):
    """A piece of work: a frozen dataclass of plain values that a worker process can be sent."""

    @property
    def label(self) -> str:
        """A few words for the progress bar; also the readable part of the file's name."""
        ...

    @property
    def cost(self) -> float:
        """About how long it takes beside the others, for the progress bar only."""
        ...

    def settings(self) -> Record:
        """Everything that decides the result but the code."""
        ...

    def run(self, watch: Watch) -> Record:
        """The result."""
        ...


@dataclass(frozen=True)
class Parts:
    """The finished pieces of a run.

    Attributes:
        folder: Where they are kept.
    """

    folder: Path

    def path(self, unit: Unit) -> Path:
        """The file of a piece."""
        text = json.dumps(
            [type(unit).__name__, unit.settings(), code_version()], sort_keys=True, allow_nan=False
        )
        name = "".join(one if one.isalnum() or one in ".@" else "-" for one in unit.label)
        return self.folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"

    def load(self, unit: Unit) -> Record | None:
        """The result of a piece, None if it is not there or its file is damaged."""
        path = self.path(unit)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        result: Record | None = found.get("result") if isinstance(found, dict) else None
        return result if result is not None and found.get("seal") == _seal(path, result) else None

    def save(self, unit: Unit, result: Record) -> None:
        """Keep the result of a piece: all of it or nothing.

        Raises:
            InputError: If the folder cannot be written to.
        """
        path = self.path(unit)
        whole = {"settings": unit.settings(), "seal": _seal(path, result), "result": result}
        put(path, json.dumps(whole, allow_nan=False).encode() + b"\n")


def _seal(path: Path, result: Record) -> str:
    """A hash of a file's name and of its result."""
    return hashlib.sha256(f"{path.stem} {json.dumps(result)}".encode()).hexdigest()


def finish(
    units: Sequence[Unit], parts: Parts, settings: Settings, progress: Progress
) -> list[Record]:
    """Run the pieces that are missing; all results, in the order of ``units``.

    Args:
        units: The pieces; equal ones are run once.
        parts: Where finished ones are kept.
        settings: Workers and backend; they change nothing but the time.
        progress: Called with the share of the work done.

    Raises:
        InputError: If the folder cannot be written to.
    """
    results: dict[Unit, Record] = {}
    for unit in units:
        kept = parts.load(unit)
        if kept is not None:
            results[unit] = kept
    missing = [unit for unit in dict.fromkeys(units) if unit not in results]
    total = sum(unit.cost for unit in dict.fromkeys(units))
    done = total - sum(unit.cost for unit in missing)

    def keep(i: int, result: Record) -> None:
        nonlocal done
        unit = missing[i]
        parts.save(unit, result)
        results[unit] = result
        done += unit.cost
        progress(min(1.0, done / total), unit.label)

    run_pieces(run_unit, missing, Workers(settings.workers, settings.backend), keep)
    return [results[unit] for unit in units]


def run_unit(unit: Unit, watch: PieceWatch) -> Record:
    """A piece, wherever it runs."""
    return unit.run(lambda: watch(0.0))
