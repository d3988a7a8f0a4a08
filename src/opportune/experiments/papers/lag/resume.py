"""Work in pieces that survive an interruption: each finished piece is a small file.

A file is named after a hash of what decides its content: the settings of the piece, the instance
itself, the code that computes and the versions of the numerical packages. A piece whose file is
there is not run again; one whose code, data or settings changed has another name. Files are
written to a temporary name and moved, so a file that is there is whole.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from joblib import Parallel, delayed

from opportune.experiments.papers.lag.storing import put
from opportune.experiments.papers.lag.units import Record, Watch
from opportune.experiments.settings import Progress, Settings

PACKAGE = Path(__file__).parents[3]
COMPUTED_BY = (
    "errors.py",
    "kernels/*.py",
    "model/*.py",
    "pricing/*.py",
    "policies/**/*.py",
    "simulate/*.py",
    "experiments/*.py",
    "experiments/papers/lag/units.py",
)
"""Files of the package whose text decides results. Those of ``experiments`` that only report are
among them, so that no list of modules can be out of date; the tables and pictures here are not."""

LIBRARIES = ("highspy", "numba", "numpy", "piqp", "scipy")


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
        try:
            found = json.loads(self.path(unit).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        result: Record | None = found.get("result") if isinstance(found, dict) else None
        return result

    def save(self, unit: Unit, result: Record) -> None:
        """Keep the result of a piece: all of it or nothing.

        Raises:
            InputError: If the folder cannot be written to.
        """
        text = json.dumps({"settings": unit.settings(), "result": result}, allow_nan=False)
        put(self.path(unit), text.encode() + b"\n")


@cache
def code_version() -> str:
    """A hash of the code that computes, and of the numerical packages it runs on."""
    state = hashlib.sha256(repr([(name, version(name)) for name in LIBRARIES]).encode())
    for path in sorted(path for pattern in COMPUTED_BY for path in PACKAGE.glob(pattern)):
        state.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return state.hexdigest()[:16]


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
    for unit, result in _spread(missing, settings):
        parts.save(unit, result)
        results[unit] = result
        done += unit.cost
        progress(min(1.0, done / total), unit.label)
    return [results[unit] for unit in units]


def _spread(missing: Sequence[Unit], settings: Settings) -> Iterator[tuple[Unit, Record]]:
    """Pieces with their results, as soon as they are there."""
    stop = threading.Event()

    def watch() -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def one(unit: Unit) -> tuple[Unit, Record]:
        return unit, unit.run(watch)

    if settings.workers == 1 or len(missing) < 2:
        yield from map(one, missing)
        return
    threads = settings.backend == "threads"
    parallel = Parallel(
        n_jobs=settings.workers,
        backend="threading" if threads else settings.backend,
        return_as="generator_unordered",
    )
    try:
        yield from parallel(delayed(one if threads else _run)(unit) for unit in missing)
    except (KeyboardInterrupt, GeneratorExit):
        stop.set()
        raise


def _run(unit: Unit) -> tuple[Unit, Record]:
    """A piece in a process of its own, which an interrupt ends as a whole."""
    return unit, unit.run(lambda: None)
