"""Seconds until the first answer: import, first comparison, later ones; whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.rounds import Job, interleaved, timed
from benchmarks.sections import Effort, Report, Row, Say, Section, Target

COMPARE = ("-m", "opportune", "compare", "specialist-v1", "--load", "0.7")

CACHE_VARIABLE = "NUMBA_CACHE_DIR"
"""Where numba keeps compiled kernels."""


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    say("start: whole processes")
    with tempfile.TemporaryDirectory() as folder:
        cache = _Cache(folder)
        jobs = {
            "python": _process(("-c", "pass"), cache),
            "import": _process(("-c", "import opportune"), cache),
            "everything": _process(("-c", "from opportune import *"), cache),
            "first": _process(COMPARE, cache, renew=True),
            "later": _process(COMPARE, cache),
        }
        jobs["everything"]()  # let Python write its own byte code
        seconds = interleaved(jobs, effort.n_rounds(5, 1))
    return Report(
        (
            Row("python -c pass", "s", seconds["python"]),
            Row("import opportune", "s", seconds["import"], Target(1, at_most=True)),
            Row("from opportune import *", "s", seconds["everything"]),
            Row(
                "first compare, compile cache empty",
                "s",
                seconds["first"],
                Target(25, at_most=True),
            ),
            Row("compare, compile cache filled", "s", seconds["later"], Target(3, at_most=True)),
        ),
        (
            f"compare: opportune {' '.join(COMPARE[2:])}, all policies, defaults",
            "each figure is a whole new process; Python's byte code is there, files are in memory",
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


def _process(arguments: Sequence[str], cache: _Cache, renew: bool = False) -> Job:
    def work() -> None:
        subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, CACHE_VARIABLE: cache.present},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    measured = timed(work, clock=time.perf_counter)

    def job() -> float:
        if renew:
            cache.renew()
        return measured()

    return job


SECTION = Section("start", "Time to the first answer", 20, measure)
