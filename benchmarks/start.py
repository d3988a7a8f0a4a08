"""Seconds until the first answer: import, first comparison, later ones; whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.rounds import interleaved
from benchmarks.sections import Effort, Report, Row, Say, Section, Target

COMPARE = ("-m", "opportune", "compare", "specialist-v1", "--load", "0.7")

CACHE_VARIABLE = "NUMBA_CACHE_DIR"
"""Where numba keeps compiled kernels."""


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    say("start: whole processes")
    with tempfile.TemporaryDirectory() as folder:
        cache = _Cache(folder)
        bare = _Program(("-c", "pass"), cache)
        lazy = _Program(("-c", "import opportune"), cache)
        everything = _Program(("-c", "from opportune import *"), cache)
        first = _Program(COMPARE, cache, renew=True)
        later = _Program(COMPARE, cache)
        subprocess.run([sys.executable, *everything.arguments], check=True)  # writes byte code
        jobs = {
            "bare": bare.run,
            "lazy": lazy.run,
            "everything": everything.run,
            "first": first.run,
            "later": later.run,  # with the cache that `first` has filled
        }
        seconds = interleaved(jobs, effort.n_rounds(3, 1))
    return Report(
        (
            Row("python -c pass", "s", seconds["bare"]),
            Row("import opportune", "s", seconds["lazy"], Target(1, at_most=True)),
            Row("from opportune import *", "s", seconds["everything"]),
            Row(
                "first compare, compile cache empty",
                "s",
                seconds["first"],
                Target(25, at_most=True),
            ),
            Row("  processor time of it", "s", tuple(first.busy)),
            Row("compare, compile cache filled", "s", seconds["later"], Target(3, at_most=True)),
            Row("  processor time of it", "s", tuple(later.busy)),
        ),
        (
            f"compare: opportune {' '.join(COMPARE[2:])}, all policies, defaults",
            "each figure is a whole new process by the clock; processor time is what is left when "
            "nobody else uses the core",
            "Python's byte code is there, and files are in memory",
        ),
    )


class _Cache:
    """The present compile cache: a folder that is left for a new one when it is to be empty."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.present = tempfile.mkdtemp(dir=folder)

    def renew(self) -> None:
        """Start with an empty cache."""
        self.present = tempfile.mkdtemp(dir=self._folder)


@dataclass
class _Program:
    """A Python process to be timed; ``busy`` collects the processor time of every run."""

    arguments: Sequence[str]
    cache: _Cache
    renew: bool = False
    busy: list[float] = field(default_factory=list)

    def run(self) -> float:
        """Seconds of one run by the clock."""
        if self.renew:
            self.cache.renew()
        environment = {**os.environ, CACHE_VARIABLE: self.cache.present}
        before, start = os.times(), time.perf_counter()
        subprocess.run(
            [sys.executable, *self.arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds, after = time.perf_counter() - start, os.times()
        self.busy.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
        return seconds


SECTION = Section("start", "Time to the first answer", 20, measure)
