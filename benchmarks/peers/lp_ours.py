"""An occupancy LP by our gears, as a process like the others; run by our own Python."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.peers.lp_task import Found, Task, answer
from opportune.kernels.arms import Market, Pairs
from opportune.pricing.gears import run
from opportune.pricing.pairs import PairProblem, merge_equal
from opportune.pricing.search import Search, Stop


def problem_of(task: Task) -> PairProblem:
    """The same lists, as they are."""
    n_types, n_servers = len(task.rate), len(task.start) - 1
    return PairProblem(
        pairs=Pairs(task.start, task.task_type, task.reward, task.mean),
        market=Market(task.rate, task.demand, np.ones(n_servers)),
        at_most=task.at_most,
        unit=1.0,
        class_of=np.arange(n_types),
        group_of=np.arange(n_servers),
    )


def solve(task: Task, seconds: float, method: str) -> Found | str:
    """To a gap of 1e-9; FILE with the ending ``.bounds.json`` gets each bound and its seconds."""
    began = time.process_time()
    bounds: list[tuple[float, float]] = []

    def note(*_: object) -> None:
        bounds.append((time.process_time() - began, search.dual_value))

    search = Search(merge_equal(problem_of(task)), Stop(seconds=seconds, progress=note))
    ended = run(search)
    if ended != "gap":
        return ended
    Path(sys.argv[1]).with_suffix(".bounds.json").write_text(json.dumps(bounds), encoding="utf-8")
    price = search.problem.prices(search.best_prices[0])
    return Found(search.value / float(task.rate.max()), price * task.rate / float(task.rate.max()))


if __name__ == "__main__":
    tiny = Task(
        np.array([0, 2, 4, 6]),
        np.array([0, 1] * 3, dtype=np.uint32),
        np.array([1.0, 0.2, 0.3, 0.9, 0.5, 0.4]),
        np.array([0.1, 0.2]),
        np.array([2.0, 2.0]),
        np.ones(2),
        False,
    )
    solve(tiny, 60.0, "")  # compiled, or read from the cache, before anything is timed
    answer(solve)
