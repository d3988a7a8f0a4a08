"""Pieces of work as tasks of a Ray cluster; needs the extra ``ray``, reached only when asked for.

Ray's own tasks, not its backend for joblib: that hands out all results together at the end
(joblib refuses to stream from it), which leaves nothing to resume from and no progress; and its
workers are actors, so a machine that is lost ends the run. A task is run again elsewhere, which
is safe because a piece is a function of its item.

The cluster is the one that the environment variable ``RAY_ADDRESS`` names; without it one is
started here for the run, and Ray's report of use to its makers is left off.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray import cloudpickle

from opportune.experiments.workers import Item, Piece, Result


def run_tasks(
    piece: Piece[Item, Result],
    items: Sequence[Item],
    count: int,
    done: Callable[[int, Result], None],
) -> None:
    """Run a piece for every item, at most ``count`` at a time; as ``workers.run_pieces``.

    The piece is sent to every machine once, as bytes: arrays that Ray shares between processes
    are read-only, for which every kernel would be compiled once more.
    """
    with cluster(count):
        shared = ray.put(cloudpickle.dumps(piece))
        task = ray.remote(_one)
        waiting = list(enumerate(items))[::-1]
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < count:
                    i, item = waiting.pop()
                    running[task.remote(shared, cloudpickle.dumps(item))] = i
                (ready, *_), _ = ray.wait(list(running), num_returns=1)
                i = running.pop(ready)
                done(i, cloudpickle.loads(_result(ready)))
        except BaseException:
            for one in running:
                ray.cancel(one, force=True)
            raise


@contextmanager
def cluster(count: int) -> Iterator[None]:
    """The cluster that is running, or one of ``count`` processors for the time inside."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": count}
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **here)
    try:
        yield
    finally:
        ray.shutdown()


def _one(piece: bytes, item: bytes) -> bytes:
    """A piece on a worker."""
    result = cloudpickle.loads(piece)(cloudpickle.loads(item), lambda share: None)
    return bytes(cloudpickle.dumps(result))


def _result(ready: Any) -> bytes:
    """The result of a task; an error of the piece as it was raised there."""
    try:
        return bytes(ray.get(ready))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
