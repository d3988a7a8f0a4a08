"""Pieces of work spread over threads, processes or a Ray cluster, each handed over when finished.

A piece is a function of an item and of nothing else, so its result does not depend on who runs
it. Threads are the default: kernels release the interpreter's lock. ``loky`` runs processes of
this machine; ``ray`` tasks on the machines of a cluster (the extra ``ray``), which it runs again
where a machine is lost.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

from joblib import Parallel, delayed

from opportune.experiments.backends import EXTRAS, Workers

Item = TypeVar("Item")
Result = TypeVar("Result")

Watch = Callable[[float], None]
"""Called by a running piece now and then with its share done; raises where it is to stop."""

Piece = Callable[[Item, Watch], Result]
"""A function at the top level of a module, or a ``functools.partial`` of one."""


def run_pieces(
    piece: Piece[Item, Result],
    items: Sequence[Item],
    workers: Workers,
    done: Callable[[int, Result], None],
) -> None:
    """Run a piece for every item; ``done(i, result)`` as soon as that of item i is there.

    ``done`` is called by the calling thread, in any order. If it or a piece raises, also an
    interrupt, the other pieces are stopped and it is raised again.
    """
    if workers.count == 1 or len(items) < 2:
        for i, item in enumerate(items):
            done(i, piece(item, lambda share: None))
    elif workers.backend in EXTRAS:
        module: ModuleType = importlib.import_module(EXTRAS[workers.backend])
        module.run_tasks(piece, items, workers.count, done)
    else:
        _run_joblib(piece, items, workers, done)


def _run_joblib(
    piece: Piece[Item, Result],
    items: Sequence[Item],
    workers: Workers,
    done: Callable[[int, Result], None],
) -> None:
    stop = threading.Event()

    def watch(_: float) -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    threads = workers.backend == "threads"
    parallel = Parallel(
        n_jobs=workers.count,
        backend="threading" if threads else workers.backend,
        return_as="generator_unordered",
    )
    results = parallel(
        delayed(numbered)(piece, i, item, watch if threads else lambda share: None)
        for i, item in enumerate(items)
    )
    try:
        for i, result in results:
            done(i, result)
    except BaseException:
        stop.set()
        with warnings.catch_warnings():  # joblib counts what it leaves undone: that was the wish
            warnings.simplefilter("ignore", UserWarning)
            results.close()
        raise


def numbered(piece: Piece[Item, Result], i: int, item: Item, watch: Watch) -> tuple[int, Result]:
    """The result of item i, with its number."""
    return i, piece(item, watch)
